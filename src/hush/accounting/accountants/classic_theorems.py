"""Basic and advanced composition, for mechanisms known only by their (epsilon, delta).

The bounds are loose, sometimes very loose. `PldAccountant` gives the optimal composition of `ApproximateDPEvent`, and a
smaller epsilon still if you describe the real mechanisms. `hush.lab.composition` has the theorems as functions.
`claims` unfolds an event into its (epsilon, delta) claims, for `BasicAccountant`, `AdvancedAccountant` and budgets.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import singledispatch

import numpy as np

from hush.accounting import events as ev
from hush.accounting.accountants.accountant import Accountant
from hush.accounting.losses.pairs import (
    Change,
    Direction,
    changes,
    one_change,
    parts_that_differ,
    refuse_group,
    removed_from_sample,
    require_claim,
    require_claim_on_one,
)
from hush.errors import Unsupported, check_delta, check_positive
from hush.guarantee import Relation
from hush.numerics import expm1_or_infinity

_FIXED = "the number of mechanisms, and each one's epsilon and delta, are fixed in advance"
_LIMITED = "the sum of all epsilons, and that of all deltas, was limited to this in advance"
Claim = tuple[float, float]


class BasicAccountant(Accountant):
    """Basic composition: adds up epsilons and deltas.

    >>> from hush.accounting import LaplaceEvent
    >>> BasicAccountant().compose(LaplaceEvent(10.0), 3).compose(LaplaceEvent(5.0)).epsilon(delta=0)
    0.5

    Guarantee:
        `epsilon` and `delta` are upper bounds, even if parameters are chosen adaptively within these sums.

    Assumes:
        Each event has a single epsilon and delta (checked here: a Gaussian, which has a whole curve of them, is
        refused). If outcomes decide what is run next, the sums are a limit that was set in advance (the caller's duty:
        what happened to be run is no bound; `PureFilter` holds a limit).

    References:
        Dwork & Roth 2014, Theorem 3.16; Rogers et al. 2016, Theorem 3.6 (sums as a limit); Balle, Barthe & Gaboardi
        2018, Theorem 8 (sampling).
    """

    method = "basic composition"
    fixed = _LIMITED

    def smallest_delta(self) -> float:
        """Return the sum of all deltas, below which nothing is known."""
        return max(failure for _, failure in self._totals())

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
    """Advanced composition of (epsilon, delta) claims, or their plain sum if that is smaller.

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
    fixed = _FIXED

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
        return min(basic, advanced_epsilon(single, [count for _, count in parts], delta - failure))


@singledispatch
def claims(event: ev.Event, change: Change) -> list[tuple[Claim, int]]:
    """Return the (epsilon, delta) claims that make up an event under one change, each with its count."""
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


@claims.register
def _(event: ev.NoisyMaxEvent, change: Change) -> list[tuple[Claim, int]]:
    require_claim(event, change)
    return [((event.epsilon * change.size, 0.0), 1)]  # as for Laplace noise


@claims.register
def _(event: ev.PerChangeEvent, change: Change) -> list[tuple[Claim, int]]:
    return claims(event.event, one_change(event, change))


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
    if event.sampling_rate == 1:
        return claims(event.event, change)
    if change.direction is Direction.REPLACE:
        raise Unsupported("poisson-sampled under the relation 'replace': the theorem covers add-or-remove only")
    epsilon, delta = _sum(claims(event.event, removed_from_sample(change)))
    return [((amplified_epsilon(epsilon, event.sampling_rate), event.sampling_rate * delta), 1)]


@claims.register
def _(event: ev.FixedSizeSampledEvent, change: Change) -> list[tuple[Claim, int]]:
    if change.direction is not Direction.REPLACE or not change.claimed:
        raise Unsupported("fixed-size-sampled under add-or-remove: the theorem covers replacement only")
    # Balle, Barthe & Gaboardi 2018, Theorem 9: sampling without replacement, one record replaced.
    rate = event.batch_size / event.dataset_size
    epsilon, delta = _sum(claims(event.event, change))
    return [((amplified_epsilon(epsilon, rate), rate * delta), 1)]


@claims.register
def _(event: ev.ParallelByIndexEvent, change: Change) -> list[tuple[Claim, int]]:
    refuse_group(event, change)
    # A replaced record stays in its part, so one part changes (McSherry 2009, Theorem 4).
    return _worst([_sum(claims(part, change)) for part in dict.fromkeys(event.events)])


@claims.register
def _(event: ev.ParallelEvent, change: Change) -> list[tuple[Claim, int]]:
    refuse_group(event, change)
    stays = [_sum(claims(part, change)) for part in dict.fromkeys(event.events)]
    if change.direction is not Direction.REPLACE or len(event.events) < 2:
        return _worst(stays)
    # A replaced record may leave one part and enter another: the two largest epsilons add up. All of them are of noise,
    # as claims say nothing about a record that leaves: there are no deltas.
    moved = replace(change, direction=Direction.REMOVE, claimed=False)
    largest = sorted((_sum(claims(part, moved)) for part in parts_that_differ(event)), reverse=True)[:2]
    return _worst([*stays, (math.fsum(epsilon for epsilon, _ in largest), math.fsum(delta for _, delta in largest))])


@claims.register
def _(event: ev.GroupEvent, change: Change) -> list[tuple[Claim, int]]:
    # Under sampling this is more than the sampled claims of the records, one after the other: (1 + q (x - 1))^k is at
    # most 1 + q (x^k - 1), as it is convex in q.
    return claims(event.event, replace(change, size=change.size * event.size))


def _worst(totals: list[Claim]) -> list[tuple[Claim, int]]:
    """Return the largest epsilon and the largest delta as one claim."""
    # The two may come from different parts: (max, max) covers every part.
    return [((max(epsilon for epsilon, _ in totals), max(delta for _, delta in totals)), 1)]


def amplified_epsilon(epsilon: float, rate: float) -> float:
    """Return ln(1 + rate (e^epsilon - 1)) without overflow."""
    if epsilon > 700:
        # log((1 - q) + q e^eps) as a sum of two exponentials.
        return float(np.logaddexp(math.log1p(-rate) if rate < 1 else -math.inf, epsilon + math.log(rate)))
    return math.log1p(rate * math.expm1(epsilon))


def _sum(parts: list[tuple[Claim, int]]) -> Claim:
    """Return the sum of all epsilons and of all deltas."""
    epsilon = math.fsum(count * claim[0] for claim, count in parts)
    return epsilon, math.fsum(count * claim[1] for claim, count in parts)


def advanced_epsilon(single: list[Claim], counts: list[int], slack: float) -> float:
    """Return epsilon by advanced composition of different claims, each with its count.

    Delta is the sum of their deltas and the slack (Dwork & Roth 2014, section 3.5.2).
    """
    check_positive("slack", check_delta("slack", slack), "Advanced composition spends this delta")
    pairs = list(zip(single, counts, strict=True))
    # The loss of step i has mean at most eps_i (e^eps_i - 1) and lies within eps_i: Azuma's inequality for the sum.
    squares = math.fsum(count * claim[0] ** 2 for claim, count in pairs)
    drift = math.fsum(count * claim[0] * expm1_or_infinity(claim[0]) for claim, count in pairs)
    return math.sqrt(2 * math.log(1 / slack) * squares) + drift
