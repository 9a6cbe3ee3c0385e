"""Failures: the probability that a loss is infinite, which composes separately, in exact arithmetic.

A claim of (epsilon, delta) may use almost all of a total delta. If its failures were put on the lattice, truncated
tails and rounding errors would use up the rest, and epsilon would be infinite.

split     a pair into its failure probability and the pair without it (`split_failure`)
compose   the failure probabilities, as fractions (`any_failure`)
round     fractions to floats, to the safe side (`float_up`, `float_down`)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hush.accounting.losses.noise_profiles import RandomizedResponseProfile
from hush.accounting.losses.profile import ULP, DominatingPair, PointwiseMax, Profile

_EXACT_FAILURES = 64  # so many failure probabilities multiply exactly, as fractions of a few thousand bits


def split_failure(pair: DominatingPair) -> tuple[float, DominatingPair]:
    """Return the probability that a pair's loss is infinite in both directions, and the pair if it is not.

    With probability f the worst (epsilon, f)-DP mechanism reveals its input, else it is randomised response (Kairouz,
    Oh & Viswanath 2015, Theorem 3.2): delta(eps) = f + (1 - f) delta'(eps). So f composes separately and exactly, and
    truncated tails and rounding errors do not use any of it up.
    """
    profile = pair.forward
    if isinstance(profile, RandomizedResponseProfile) and pair.backward == profile:
        return profile.failure, DominatingPair.symmetric(replace(profile, failure=0.0))
    if isinstance(profile, PointwiseMax) and pair.backward == profile:
        claims = [part for part in profile.profiles if isinstance(part, RandomizedResponseProfile)]
        if len(claims) == len(profile.profiles) and len({claim.failure for claim in claims}) == 1:
            # max_i (f + (1 - f) delta_i') = f + (1 - f) max_i delta_i', as all of them fail equally often.
            certain = tuple(replace(claim, failure=0.0) for claim in claims)
            return profile.failure, DominatingPair.symmetric(PointwiseMax(certain))
    if profile.max_loss == 0 == pair.backward.max_loss:
        return profile.failure, DominatingPair.symmetric(RandomizedResponseProfile(0.0))
    return 0.0, pair


def states_failure(profile: Profile) -> bool:
    """Return whether a profile's failure probability is exactly the one that an event states."""
    if isinstance(profile, PointwiseMax):
        return all(map(states_failure, profile.profiles))
    return isinstance(profile, RandomizedResponseProfile)


def any_failure(failures: Sequence[tuple[float, int]]) -> tuple[Fraction, Fraction]:
    """Return bounds (lower, upper) on 1 - prod (1 - f)^count, the probability that any of the parts fails."""
    num_parts = sum(count for _, count in failures)
    if num_parts <= _EXACT_FAILURES:
        exact = 1 - math.prod((1 - Fraction(failure)) ** count for failure, count in failures)
        return Fraction(exact), Fraction(exact)
    total = Fraction(-math.expm1(math.fsum(count * math.log1p(-failure) for failure, count in failures)))
    # All terms have one sign, so the relative error is that of a few roundings. The union bound is exact: it decides
    # where a caller splits a tiny delta into shares that add up to it.
    union = sum((count * Fraction(failure) for failure, count in failures), Fraction(0))
    slack = Fraction(16 * ULP)
    return total * (1 - slack), min(total * (1 + slack), union, Fraction(1))


def float_up(value: Fraction) -> float:
    """Return the smallest float that is at least this."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def float_down(value: Fraction) -> float:
    """Return the largest float that is at most this."""
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, -math.inf)
