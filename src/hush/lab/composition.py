"""The classic theorems of composition and amplification, for reading and teaching.

Each function returns a `Guarantee` that names its assumptions. The bounds are loose, sometimes very loose. To account
for real releases, use `hush.accounting.PldAccountant`: it gives the optimal composition of `ApproximateDPEvent`, and a
smaller epsilon still if you describe the real mechanisms.

>>> round(advanced_composition(0.01, 0, 1000, slack=1e-6).epsilon, 2), basic_composition(0.01, 0, 1000).epsilon
(1.76, 10.0)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hush.accounting import (
    AdvancedAccountant,
    ApproximateDPEvent,
    CdpAccountant,
    Event,
    PldAccountant,
    advanced_epsilon,
    amplified_epsilon,
    choose_claims,
)
from hush.errors import (
    InvalidArgument,
    check_count,
    check_delta,
    check_epsilon,
    check_instance,
    check_probability,
)
from hush.guarantee import Guarantee, Relation, group_delta, group_epsilon

__all__ = [
    "CdpAccountant",
    "advanced_composition",
    "basic_composition",
    "optimal_composition",
    "parallel_composition",
    "sampling_amplification",
    "strong_composition",
]

_FIXED = "the number of mechanisms, and each one's epsilon and delta, are fixed in advance"
Claim = tuple[float, float]


def basic_composition(epsilon: float, delta: float, count: int) -> Guarantee:
    """Return ``(count * epsilon, count * delta)``: the sum.

    Also called sequential composition.

    >>> basic_composition(0.1, 1e-7, 10).epsilon
    1.0

    Guarantee:
        An upper bound, and the only one in this module that also holds for parameters chosen adaptively.

    Assumes:
        Each mechanism is (epsilon, delta)-DP (the caller's duty).

    References:
        Dwork et al. 2006; Dwork & Roth 2014, Theorem 3.16.
    """
    _check_claim(epsilon, delta, count)
    # The losses add up, and so do the probabilities that they exceed their epsilons.
    return _claim(count * epsilon, count * delta, "basic composition")


def advanced_composition(epsilon: float, delta: float, count: int, *, slack: float) -> Guarantee:
    """Return ``epsilon sqrt(2 k ln(1/slack)) + k epsilon (e^epsilon - 1)`` at delta ``k delta + slack``, k = ``count``.

    The theorem of advanced composition, or strong composition.

    >>> round(advanced_composition(0.01, 0, 1000, slack=1e-6).epsilon, 2)  # the sum is 10
    1.76

    Guarantee:
        An upper bound. It is worse than `basic_composition` unless k is large and epsilon below ln 2.

    Assumes:
        Each mechanism is (epsilon, delta)-DP (the caller's duty). The parameters are fixed in advance (the caller's
        duty). 0 < slack < 1 (checked here).

    References:
        Dwork, Rothblum & Vadhan 2010, Theorem III.3; Dwork & Roth 2014, Theorem 3.20.
    """
    _check_claim(epsilon, delta, count)
    total = advanced_epsilon([(epsilon, delta)], [count], slack)
    return _claim(total, count * delta + slack, "advanced composition", _FIXED)


def optimal_composition(epsilon: float, delta: float, count: int, *, total_delta: float) -> Guarantee:
    """Return the smallest epsilon that all compositions of (epsilon, delta)-DP mechanisms satisfy at ``total_delta``.

    >>> round(optimal_composition(0.01, 0, 1000, total_delta=1e-6).epsilon, 2)  # advanced composition gives 1.76
    1.37

    Guarantee:
        An upper bound, tight for the worst mechanisms (randomised response that fails with probability delta).

    Assumes:
        Each mechanism is (epsilon, delta)-DP (the caller's duty). The parameters are fixed in advance (the caller's
        duty). total_delta is above 1 - (1 - delta)^count (checked here).

    References:
        Kairouz, Oh & Viswanath 2015, Theorem 3.3; computed by `PldAccountant`, whose lattice holds the worst pair
        exactly.
    """
    # The worst (epsilon, delta)-DP mechanism has the losses -epsilon, epsilon and infinity. Composing it k times gives
    # the theorem's sum of binomials.
    accountant = PldAccountant().compose(ApproximateDPEvent(epsilon, delta), check_count("count", count))
    total = check_delta("total_delta", total_delta)
    return _claim(accountant.epsilon(total), total, "optimal composition", _FIXED)


def strong_composition(event: Event, *, delta: float, relation: Relation = Relation.ADD_OR_REMOVE) -> Guarantee:
    """Return the advanced ("strong") composition of an event's steps, each by its best single (epsilon, delta).

    Papers on DP-SGD call this strong composition.

    >>> from hush.accounting import GaussianEvent, PoissonSampledEvent, SelfComposedEvent
    >>> run = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(4.0), sampling_rate=0.01), 10_000)
    >>> round(strong_composition(run, delta=1e-5).epsilon, 1), round(PldAccountant().compose(run).epsilon(1e-5), 2)
    (16.8, 0.95)

    It is what the moments accountant was compared with: the theorem sees one pair of each step, not its whole curve.

    Guarantee:
        An upper bound. No other pair for each step, and no other slack, gives a smaller one if all steps are alike.

    Assumes:
        The steps are fixed in advance (the caller's duty). Each step has a certified curve of (epsilon, delta) (checked
        here: others are refused).

    References:
        Dwork, Rothblum & Vadhan 2010, Theorem III.3; Abadi et al. 2016, section 5.1.
    """
    check_instance("relation", relation, Relation)
    check_instance("event", event, Event)
    choice = choose_claims(AdvancedAccountant(relation=relation), event, delta)
    return _claim(choice.epsilon, delta, "strong composition", _FIXED, relation=relation)


def sampling_amplification(epsilon: float, delta: float, sampling_rate: float) -> Guarantee:
    """Return ``(ln(1 + q (e^epsilon - 1)), q delta)`` for a mechanism on a Poisson sample with rate q.

    Known as privacy amplification by sampling. Lecture notes state (q epsilon, q delta), which is too little.

    >>> round(sampling_amplification(1.0, 0, 0.01).epsilon, 4)
    0.017

    Guarantee:
        An upper bound, tight if only (epsilon, delta) is known. ``(q epsilon, q delta)`` is never valid.

    Assumes:
        Each record is sampled independently with probability q, and the sample stays secret (the caller's duty).
        Neighbours differ by adding or removing a record.

    References:
        Li, Qardaji & Su 2012; Balle, Barthe & Gaboardi 2018, Theorem 8.
    """
    _check_claim(epsilon, delta, 1)
    rate = check_probability("sampling_rate", sampling_rate)
    return _claim(
        amplified_epsilon(epsilon, rate),
        rate * delta,
        "amplification by sampling",
        "Poisson sampling, and the sample is secret",
    )


def parallel_composition(claims: Sequence[Claim], *, relation: Relation = Relation.ADD_OR_REMOVE) -> Guarantee:
    """Return the worst of several (epsilon, delta) claims on disjoint parts, or of two of them under replacement.

    >>> parallel_composition([(0.5, 0), (1.0, 0)]).epsilon
    1.0
    >>> replaced = parallel_composition([(3.0, 1e-6), (3.0, 1e-6)], relation=Relation.REPLACE)
    >>> replaced.epsilon, round(replaced.delta, 9)
    (6.0, 2.1086e-05)

    Guarantee:
        An upper bound.

    Assumes:
        The parts are disjoint, a record's value decides its part, and the claims are about a record that enters or
        leaves a part (the caller's duty). If a public index decides the part, use `ParallelByIndexEvent`.

    References:
        McSherry 2009, Theorem 4. Under replacement a record leaves its part and enters another one, or the same: two
        changes, one after the other (`Guarantee.for_group`).
    """
    check_instance("relation", relation, Relation)
    sequence: Any = claims
    pairs = list(sequence) if isinstance(sequence, Sequence) and not isinstance(sequence, str | bytes) else []
    if not pairs or not all(isinstance(claim, Sequence) and len(claim) == 2 for claim in pairs):
        raise InvalidArgument("claims", claims, "at least one pair (epsilon, delta)")
    epsilon = max(check_epsilon("epsilon", claim[0]) for claim in pairs)
    delta = max(check_delta("delta", claim[1]) for claim in pairs)
    if relation is Relation.REPLACE:
        # P <= e^e1 R + d1 and R <= e^e2 Q + d2 give P <= e^(e1 + e2) Q + d1 + e^e1 d2, with R the data without the
        # record. Even a single part has a record removed and another added.
        epsilon, delta = group_epsilon(epsilon, 2), group_delta(epsilon, delta, 2)
    return _claim(epsilon, delta, "parallel composition", "the parts are disjoint", relation=relation)


def _check_claim(epsilon: float, delta: float, count: int) -> None:
    """Check the arguments of a composition."""
    check_delta("delta", delta)
    if not check_epsilon("epsilon", epsilon) <= 1e9:
        raise InvalidArgument("epsilon", epsilon, "at most 1e+09", "Even far smaller ones protect nothing")
    if not check_count("count", count) <= 10**12:
        raise InvalidArgument("count", count, "an integer <= 1e+12")


def _claim(
    epsilon: float, delta: float, method: str, *assumptions: str, relation: Relation = Relation.ADD_OR_REMOVE
) -> Guarantee:
    if not delta < 1:  # nothing is guaranteed
        epsilon, delta = math.inf, math.nextafter(1.0, 0.0)
    return Guarantee(epsilon=epsilon, delta=delta, method=method, assumptions=assumptions, relation=relation)
