"""The classic theorems, for teaching, and for mechanisms known only by their (epsilon, delta).

Each function returns a `Guarantee` that names its assumptions. The bounds are loose, some of them very. `PldAccountant`
gives the optimal composition of `ApproximateDPEvent`, and a smaller epsilon still if you describe the real mechanisms.
`claims` unfolds an event into its (epsilon, delta) claims, for `BasicAccountant`, `AdvancedAccountant` and budgets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.accountants.pld import PldAccountant
from hush.accounting.losses.pairs import Change, Direction, changes, refuse_group, require_claim_on_one
from hush.errors import (
    InvalidArgument,
    Unsupported,
    check_count,
    check_delta,
    check_epsilon,
    check_instance,
    check_positive,
    check_probability,
)
from hush.guarantee import Guarantee, Relation
from hush.numerics import expm1_or_infinity

_FIXED = "the number of mechanisms, and each one's epsilon and delta, are fixed in advance"
Claim = tuple[float, float]


def basic_composition(epsilon: float, delta: float, count: int) -> Guarantee:
    """Return ``(count * epsilon, count * delta)``: the sum.

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
    return _advanced([(epsilon, delta)], [count], slack)


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
    accountant = PldAccountant().compose(ev.ApproximateDPEvent(epsilon, delta), check_count("count", count))
    total = check_delta("total_delta", total_delta)
    return _claim(accountant.epsilon(total), total, "optimal composition", _FIXED)


def sampling_amplification(epsilon: float, delta: float, sampling_rate: float) -> Guarantee:
    """Return ``(ln(1 + q (e^epsilon - 1)), q delta)`` for a mechanism on a Poisson sample with rate q.

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
        _amplified(epsilon, rate),
        rate * delta,
        "amplification by sampling",
        "Poisson sampling, and the sample is secret",
    )


def parallel_composition(claims: Sequence[Claim], *, relation: Relation = Relation.ADD_OR_REMOVE) -> Guarantee:
    """Return the worst of several (epsilon, delta) claims on disjoint parts, or twice that under replacement.

    >>> parallel_composition([(0.5, 0), (1.0, 0)]).epsilon
    1.0

    Guarantee:
        An upper bound.

    Assumes:
        The parts are disjoint, a record's value decides its part, and the claims are about a record that enters or
        leaves a part (the caller's duty). If a public index decides the part, use `ParallelByIndexEvent`.

    References:
        McSherry 2009, Theorem 4. A replaced record may leave one part and enter another: the two claims add up.
    """
    check_instance("relation", relation, Relation)
    sequence: Any = claims
    pairs = list(sequence) if isinstance(sequence, Sequence) and not isinstance(sequence, str | bytes) else []
    if not pairs or not all(isinstance(claim, Sequence) and len(claim) == 2 for claim in pairs):
        raise InvalidArgument("claims", claims, "at least one pair (epsilon, delta)")
    epsilon = max(check_epsilon("epsilon", claim[0]) for claim in pairs)
    delta = max(check_delta("delta", claim[1]) for claim in pairs)
    # A replacement is a removal from one part and an addition to another. In a single part there is nowhere to move.
    times = 2 if relation is Relation.REPLACE and len(pairs) > 1 else 1
    method = "parallel composition"
    return _claim(times * epsilon, times * delta, method, "the parts are disjoint", relation=relation)


class BasicAccountant(Accountant):
    """Adds up epsilons and deltas: basic composition.

    >>> from hush.accounting import LaplaceEvent
    >>> BasicAccountant().compose(LaplaceEvent(10.0), 3).compose(LaplaceEvent(5.0)).epsilon(delta=0)
    0.5

    Guarantee:
        `epsilon` and `delta` are upper bounds, even if parameters are chosen adaptively.

    Assumes:
        Each event has a single epsilon and delta (checked here: a Gaussian, which has a whole curve, is refused).

    References:
        Dwork & Roth 2014, Theorem 3.16; Balle, Barthe & Gaboardi 2018, Theorem 8 (sampling).
    """

    method = "basic composition"

    def _check(self, event: ev.Event) -> None:
        for change in changes(self.relation):
            claims(event, change)

    def _totals(self) -> list[Claim]:
        everything = ev.ComposedEvent(self.events)
        return [_sum(claims(everything, change)) for change in changes(self.relation)]

    def _epsilon(self, delta: float) -> float:
        # The theorem gives one point of the curve: below its delta nothing is known.
        return max(epsilon if delta >= failure else math.inf for epsilon, failure in self._totals())

    def _delta(self, epsilon: float) -> float:
        # Likewise, below its epsilon only delta <= 1 is known.
        return max(min(failure, 1.0) if epsilon >= total else 1.0 for total, failure in self._totals())


class AdvancedAccountant(BasicAccountant):
    """Composes (epsilon, delta) claims by the advanced theorem, or by the sum if that is smaller.

    >>> from hush.accounting import LaplaceEvent
    >>> round(AdvancedAccountant().compose(LaplaceEvent(100.0), 1000).epsilon(delta=1e-6), 2)
    1.76

    Guarantee:
        `epsilon` and `delta` are upper bounds.

    Assumes:
        Each event has a single epsilon and delta (checked here). The parameters are fixed in advance (the caller's
        duty).

    References:
        Dwork, Rothblum & Vadhan 2010, Theorem III.3, in its form for different epsilons (Dwork & Roth 2014, section
        3.5.2): ``sqrt(2 ln(1/slack) sum eps_i^2) + sum eps_i (e^eps_i - 1)``.
    """

    method = "advanced composition"
    assumptions = (_FIXED,)

    def _epsilon(self, delta: float) -> float:
        everything = ev.ComposedEvent(self.events)
        return max(self._one_way(claims(everything, change), delta) for change in changes(self.relation))

    def _delta(self, epsilon: float) -> float:
        best = super()._delta(epsilon)
        low, high = -700.0, 0.0  # bisection in log delta, to the safe side
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self._epsilon(math.exp(middle)) <= epsilon else (middle, high)
        # Only ``high`` was seen to meet epsilon. At 0 it never was.
        return min(best, math.exp(high)) if high < 0 else best

    @staticmethod
    def _one_way(parts: list[tuple[Claim, int]], delta: float) -> float:
        """Return epsilon at ``delta`` for the claims of one change: the smaller of the sum and the theorem."""
        epsilon, failure = _sum(parts)
        basic = epsilon if delta >= failure else math.inf
        if not delta > failure:
            return basic
        single = [claim for claim, _ in parts]
        # What the claims leave of delta is the theorem's slack.
        return min(basic, _advanced(single, [count for _, count in parts], delta - failure).epsilon)


@singledispatch
def claims(event: ev.Event, change: Change) -> list[tuple[Claim, int]]:
    """Return the (epsilon, delta) claims that an event consists of under one change, each with its count."""
    raise Unsupported(f"{event.kind}: it has no single epsilon and delta", "Use PldAccountant")


@claims.register
def _(event: ev.ComposedEvent, change: Change) -> list[tuple[Claim, int]]:
    return [claim for part in event.events for claim in claims(part, change)]


@claims.register
def _(event: ev.SelfComposedEvent, change: Change) -> list[tuple[Claim, int]]:
    return [(claim, count * event.count) for claim, count in claims(event.event, change)]


@claims.register
def _(event: ev.LaplaceEvent, change: Change) -> list[tuple[Claim, int]]:
    # Dwork, McSherry, Nissim & Smith 2006: epsilon is the sensitivity over the scale.
    return [((change.shift / event.scale, 0.0), 1)]


@claims.register
def _(event: ev.DiscreteLaplaceEvent, change: Change) -> list[tuple[Claim, int]]:
    # Ghosh, Roughgarden & Sundararajan 2009: as for Laplace noise.
    return [((change.shift * event.sensitivity / event.scale, 0.0), 1)]


@claims.register(ev.ExponentialMechanismEvent)
@claims.register(ev.ApproximateDPEvent)
def _(event: ev.ExponentialMechanismEvent | ev.ApproximateDPEvent, change: Change) -> list[tuple[Claim, int]]:
    require_claim_on_one(event, change)
    # Bounded range epsilon implies epsilon-DP (Dong, Durfee & Rogers 2020).
    return [((event.epsilon, getattr(event, "delta", 0.0)), 1)]


@claims.register
def _(event: ev.RandomizedResponseEvent, change: Change) -> list[tuple[Claim, int]]:
    if change.relation is not Relation.REPLACE or not change.claimed:
        raise Unsupported(f"randomized-response under the relation {change.relation.value!r}", "Use Relation.REPLACE")
    # Each person of a group makes a report of their own.
    return [((event.epsilon, 0.0), change.size)]


@claims.register
def _(event: ev.PoissonSampledEvent, change: Change) -> list[tuple[Claim, int]]:
    # Balle, Barthe & Gaboardi 2018, Theorem 8.
    if change.direction is Direction.REPLACE and event.sampling_rate < 1:
        raise Unsupported("poisson-sampled under the relation 'replace': the theorem covers add-or-remove only")
    epsilon, delta = _sum(claims(event.event, change))
    return [((_amplified(epsilon, event.sampling_rate), event.sampling_rate * delta), 1)]


@claims.register
def _(event: ev.FixedSizeSampledEvent, change: Change) -> list[tuple[Claim, int]]:
    if change.direction is not Direction.REPLACE or not change.claimed:
        raise Unsupported("fixed-size-sampled under add-or-remove: the theorem covers replacement only")
    # Balle, Barthe & Gaboardi 2018, Theorem 9: sampling without replacement, one record replaced.
    rate = event.batch_size / event.dataset_size
    epsilon, delta = _sum(claims(event.event, change))
    return [((_amplified(epsilon, rate), rate * delta), 1)]


@claims.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> list[tuple[Claim, int]]:
    refuse_group(event, change)
    # A replaced record stays in its part, so one part changes (McSherry 2009, Theorem 4).
    return _worst([_sum(claims(part, change)) for part in event.events])


@claims.register
def _(event: ev.ParallelEvent, change: Change) -> list[tuple[Claim, int]]:
    refuse_group(event, change)
    stays = [_sum(claims(part, change)) for part in event.events]
    if change.direction is not Direction.REPLACE:
        return _worst(stays)
    # A replaced record may leave one part and enter another: the two largest epsilons and deltas add up.
    moved = replace(change, direction=Direction.REMOVE, claimed=False)
    largest = sorted((_sum(claims(part, moved)) for part in event.events), reverse=True)[:2]
    deltas = sorted((_sum(claims(part, moved))[1] for part in event.events), reverse=True)[:2]
    return _worst([*stays, (math.fsum(epsilon for epsilon, _ in largest), math.fsum(deltas))])


def _worst(totals: list[Claim]) -> list[tuple[Claim, int]]:
    """Return the largest epsilon and the largest delta as one claim."""
    # The two may come from different parts: (max, max) covers every part.
    return [((max(epsilon for epsilon, _ in totals), max(delta for _, delta in totals)), 1)]


def _check_claim(epsilon: float, delta: float, count: int) -> None:
    """Check the arguments of a composition."""
    check_delta("delta", delta)
    if not check_epsilon("epsilon", epsilon) <= 1e9:
        raise InvalidArgument("epsilon", epsilon, "at most 1e+09", "Even far smaller ones protect nothing")
    if not check_count("count", count) <= 10**12:
        raise InvalidArgument("count", count, "an integer <= 1e+12")


def _amplified(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate (e^epsilon - 1)) without overflow."""
    if epsilon > 700:
        # log((1 - q) + q e^eps) as a sum of two exponentials.
        return float(np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, epsilon + math.log(rate)))
    return math.log1p(rate * math.expm1(epsilon))


def _sum(parts: list[tuple[Claim, int]]) -> Claim:
    """Return the sum of all epsilons and of all deltas."""
    epsilon = math.fsum(count * claim[0] for claim, count in parts)
    return epsilon, math.fsum(count * claim[1] for claim, count in parts)


def _advanced(single: list[Claim], counts: list[int], slack: float) -> Guarantee:
    """Return advanced composition of different claims, each with its count (Dwork & Roth 2014, section 3.5.2)."""
    check_positive("slack", check_delta("slack", slack), "Advanced composition spends this delta")
    pairs = list(zip(single, counts, strict=True))
    # The loss of step i has mean at most eps_i (e^eps_i - 1) and lies within eps_i: Azuma's inequality for the sum.
    squares = math.fsum(count * claim[0] ** 2 for claim, count in pairs)
    drift = math.fsum(count * claim[0] * expm1_or_infinity(claim[0]) for claim, count in pairs)
    epsilon = math.sqrt(2 * math.log(1 / slack) * squares) + drift
    return _claim(epsilon, _sum(pairs)[1] + slack, "advanced composition", _FIXED)


def _claim(
    epsilon: float, delta: float, method: str, *assumptions: str, relation: Relation = Relation.ADD_OR_REMOVE
) -> Guarantee:
    if not delta < 1:  # nothing is guaranteed
        epsilon, delta = math.inf, math.nextafter(1.0, 0.0)
    return Guarantee(epsilon=epsilon, delta=delta, method=method, assumptions=assumptions, relation=relation)
