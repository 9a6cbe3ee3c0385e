"""The black-box tester: run a mechanism on two neighbours, learn what tells them apart, certify it on fresh runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.audit.bounds.result import AuditResult, check_confidence
from hush.audit.testers.attack import Attack, Certifier
from hush.audit.testers.outputs import Features, Mechanism, NeighbourPair
from hush.audit.testers.search import EventSearch
from hush.errors import check_count, check_delta
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, assumptions_of, source_or_default

_SEARCHED = 500_000  # more than this shows no better event, and takes memory

ASSUMPTIONS = ("The two inputs are neighbours", "Runs of the mechanism are independent")


def audit_mechanism(
    mechanism: Mechanism,
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
    """Return the largest epsilon that an attack can prove of a mechanism from its outputs on two neighbours.

    If a mechanism is (epsilon, delta)-private, no event has P(event | first) > e^epsilon P(event | second) + delta. An
    attack learns events, or another statistic, from one set of outputs; the bound is from another, fresh one.

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

    Guarantee:
        With probability ``confidence``, ``epsilon_lower`` is at most the true epsilon at ``delta``. Events and
        directions are corrected for. That nothing is found proves nothing.

    Assumes:
        The inputs are neighbours under the claim (the caller's duty). Runs are independent (the caller's duty: no state
        is kept between them, and each draws its randomness from the source that it is given). Outputs that an
        attack learned from are not used again (checked here).

    References:
        Ding et al. (2018), Detecting Violations of Differential Privacy; Bichsel et al. (2021), DP-Sniper; Kong et al.
        (2024), DP-Auditorium; Clopper & Pearson (1934).

    Args:
        mechanism: From data and a source to one output (numbers, text, None, nested sequences), or a `Batched` one.
            Types and structure are outputs, too, and so is an exception that one run raises.
        first: An input.
        second: A neighbouring one.
        samples: Fresh runs per input, for the bound.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        attack: `EventSearch()` by default, `ClassifierAttack`, `HockeyStick`, `Histogram` or `Renyi`.
        search_samples: Runs per input that the attack learns from; as ``samples`` by default, up to half a million.
        features: A function of the outputs' rows that is attacked instead of them, such as `lowest_bits`.
        num_trials: How many audits are made, of which the most telling is reported; the error is shared between them.
        source: What the mechanism is given to draw from.
        unit: What the inputs differ in, for comparisons with a guarantee.
        relation: How they differ.
    """
    check_count("samples", samples, minimum=2)
    check_delta("delta", delta)
    error = (1 - check_confidence(confidence)) / check_count("num_trials", num_trials)
    searched = min(samples, _SEARCHED) if search_samples is None else check_count("search_samples", search_samples)
    attack = EventSearch() if attack is None else attack
    pair = NeighbourPair(
        mechanism=mechanism, first=first, second=second, source=source_or_default(source), features=features
    )
    certifier, width = learned(attack, pair, searched, delta)
    for block in pair.blocks(samples, width):
        certifier.observe(*block)
    shown = certifier.conclude(error)
    return AuditResult(
        epsilon=shown.epsilon,
        epsilon_lower=shown.epsilon_lower,
        confidence=confidence,
        method=attack.title,
        threshold_rule=attack.rule,
        num_in=samples,
        num_out=samples,
        delta=delta,
        details={**shown.details, "search_samples": searched, "num_trials": num_trials},
        assumptions=(*ASSUMPTIONS, *assumptions_of(pair.source)),
        unit=unit,
        relation=relation,
    )


def learned(attack: Attack, pair: NeighbourPair, samples: int, delta: float) -> tuple[Certifier, int]:
    """Return what an attack found on outputs that are not used again, and how many columns they had."""
    first, second = pair.draw(samples)
    coins = np.random.default_rng(pair.source.words(4))
    return attack.learn(first, second, delta, coins), first.shape[1]
