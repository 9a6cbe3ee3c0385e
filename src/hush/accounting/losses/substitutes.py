"""Pairs in place of others: from below, mechanisms that exist; from above, Gaussians without amplification.

*From below.* The pair of an exponential mechanism is the worst of all mechanisms of bounded range at each epsilon, and
no mechanism's own. Composed, it loses more than any of them. A mechanism with two outcomes does exist, for each t in
[0, range]: its losses are t and t - range (Dong, Durfee & Rogers 2020). So a composition of these is a lower bound.

*From above.* Balls-in-bins sampling is computed with a small failure probability, about 1e-32. At a delta of that size
the Gaussian without sampling, which always dominates, proves more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hush.accounting.losses.allocation import AllocationProfile
from hush.accounting.losses.noise_profiles import BoundedRangeProfile, GaussianProfile, TwoLossProfile
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.saddle_point import CountedPair

_STEPS = (10, 11, 12, 14, 17)  # t in twentieths of the range; many mechanisms lose most at a half


def attained(parts: Sequence[CountedPair]) -> list[list[CountedPair]]:
    """Return compositions of mechanisms that exist, in place of exponential mechanisms; none if nothing is replaced.

    A single mechanism needs no replacement: at each epsilon, one mechanism has the delta of the worst.
    """
    replaced = [pair for pair, _ in parts if isinstance(pair.forward, BoundedRangeProfile)]
    if not replaced or sum(count for _, count in parts) == 1:
        return []
    return [[(_two_outcomes(pair, steps), count) for pair, count in parts] for steps in _STEPS]


def _two_outcomes(pair: DominatingPair, steps: int) -> DominatingPair:
    profile = pair.forward
    if not isinstance(profile, BoundedRangeProfile):
        return pair
    return DominatingPair(TwoLossProfile(profile.epsilon, steps), TwoLossProfile(profile.epsilon, 20 - steps))


def without_bins(parts: Sequence[CountedPair]) -> Counter[DominatingPair]:
    """Return the composition with a Gaussian on all records in place of each balls-in-bins sampling."""
    result: Counter[DominatingPair] = Counter()
    for pair, count in parts:
        result[_unsampled(pair)] += count  # samplings of different numbers of bins become the same Gaussian
    return result


def _unsampled(pair: DominatingPair) -> DominatingPair:
    profile = pair.forward
    if not isinstance(profile, AllocationProfile):
        return pair
    # A mixture is no easier to distinguish than its components: the profile is jointly convex.
    return DominatingPair.symmetric(GaussianProfile(1 / profile.noise_multiplier))


def spurious_failure(parts: Sequence[CountedPair]) -> float:
    """Return a bound on the probability of an infinite loss that is the approximation's and no mechanism's."""
    failures = (count * pair.forward.failure for pair, count in parts if isinstance(pair.forward, AllocationProfile))
    return 1.01 * sum(failures)
