"""The black-box tester: run a mechanism on two neighbours, learn to tell them apart, and certify on fresh runs.

search outputs   drawn once (`outputs.NeighbourPair.draw`)   an `Attack` learns a hypothesis from them
fresh outputs    drawn in blocks (`NeighbourPair.blocks`)    the hypothesis's `Certifier` counts them
evidence         a bound at the stated error                 becomes an `AuditResult`
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.audit.bounds.result import AuditResult, check_confidence
from hush.audit.testers.attack import Attack, Certifier
from hush.audit.testers.outputs import BlackBox, Features, NeighbourPair
from hush.audit.testers.search import EventSearch
from hush.errors import check_count, check_delta
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

_MAX_SEARCH_SAMPLES = 500_000  # more of them find no better event, and take memory

ASSUMPTIONS = ("The two inputs are neighbours", "Runs of the mechanism are independent")


def audit_mechanism(
    mechanism: BlackBox,
    first: Any,
    second: Any,
    *,
    samples: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    attack: Attack | None = None,
    search_samples: int | None = None,
    features: Features | None = None,
    num_trials: int = 1,
    source: RandomSource | None = None,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound a mechanism's epsilon from below, from its outputs on two neighbouring inputs.

    If a mechanism is (epsilon, delta)-private, no event has P(event | first) > e^epsilon P(event | second) + delta. An
    attack learns an event, or another statistic, from one set of outputs. The bound is computed on fresh outputs.

    >>> from hush.audit.testers import Batched
    >>> from hush.mechanisms import RandomizedResponse
    >>> from hush.randomness import TestSource
    >>> mechanism = RandomizedResponse(epsilon=1.0)
    >>> def respond(bit, source, count):
    ...     return mechanism.release(np.full(count, bit), source).value
    >>> result = audit_mechanism(
    ...     Batched(respond), 0, 1, samples=100_000, source=TestSource(1), relation=mechanism.relation
    ... )
    >>> 0.9 < result.epsilon_lower <= 1.0
    True
    >>> result.compare(mechanism.guarantee()).verdict.value, result.compare(0.5).verdict.value
    ('consistent', 'violated')

    Args:
        mechanism: A function of the data and a source of randomness that returns one output (numbers, text, None,
            nested sequences), or a `Batched` mechanism. Types, structure and exceptions count as part of the output.
        first: An input.
        second: A neighbouring input.
        samples: The number of fresh runs per input, for the bound.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        attack: `EventSearch()` by default, `ClassifierAttack`, or `HockeyStick`.
        search_samples: The number of runs per input that the attack learns from. By default ``samples``, up to half a
            million.
        features: A function of the rows of outputs, to attack instead of the rows themselves, such as `lowest_bits`.
        num_trials: The number of audits you made, or could have made, before picking this one. The error probability
            is divided by it.
        source: The randomness that the mechanism gets.
        unit: The privacy unit in which the inputs differ, for comparisons with a guarantee.
        relation: The neighbouring relation between them.

    Returns:
        The bound, with the event or statistic that shows it in the details.

    Guarantee:
        With probability ``confidence``, ``epsilon_lower`` is at most the true epsilon at ``delta``. Events and
        directions are corrected for. A small bound does not prove that the mechanism is private.

    Assumes:
        The inputs are neighbours under the claim (the caller's duty). Runs are independent (the caller's duty): the
        mechanism keeps no state between runs and draws its randomness from the source that it gets. Search outputs are
        not used for the bound (checked here).

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy; Bichsel et al. (2021), DP-Sniper; Kong et al.
        (2024), DP-Auditorium; Clopper & Pearson (1934).
    """
    check_count("samples", samples, minimum=2)
    check_delta("delta", delta)
    # Bonferroni over the audits of which this one is reported.
    error = (1 - check_confidence(confidence)) / check_count("num_trials", num_trials)
    default_samples = min(samples, _MAX_SEARCH_SAMPLES)
    search_samples = check_count("search_samples", default_samples if search_samples is None else search_samples)
    attack = EventSearch() if attack is None else attack
    pair = NeighbourPair(
        mechanism=mechanism, first=first, second=second, source=source_or_default(source), features=features
    )
    certifier, width = learn_from(pair, attack, search_samples, delta)
    # Fresh outputs, in blocks of bounded memory. The hypothesis is fixed by now.
    for block in pair.blocks(samples, width):
        certifier.observe(*block)
    evidence = certifier.conclude(error)
    return AuditResult(
        epsilon=evidence.epsilon,
        epsilon_lower=evidence.epsilon_lower,
        confidence=confidence,
        method=attack.title,
        threshold_rule=attack.rule,
        num_in=samples,
        num_out=samples,
        delta=delta,
        details={**evidence.details, "search_samples": search_samples, "num_trials": num_trials},
        assumptions=(*ASSUMPTIONS, *assumptions_of(pair.source)),
        unit=unit,
        relation=relation,
    )


def learn_from(pair: NeighbourPair, attack: Attack, samples: int, delta: float) -> tuple[Certifier, int]:
    """Let an attack learn from search outputs. Return its hypothesis and the number of columns of the outputs."""
    first, second = pair.draw(samples)
    # The attack's coins come from the mechanism's source, so that a test source makes the whole audit repeatable.
    coins = np.random.default_rng(pair.source.words(4))
    return attack.learn(first, second, delta, coins), first.shape[1]
