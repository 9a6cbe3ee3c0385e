"""Privacy profiles: how well an attacker can distinguish two output distributions.

The *profile* of a pair of distributions is ``delta(epsilon) = sup_S P(S) - e^epsilon Q(S)``, the hockey-stick
divergence of P from Q, for epsilon >= 0. Two profiles, P against Q and Q against P, describe the pair completely. As a
function of ``x = e^epsilon`` the curve is convex, and for epsilon < 0 it follows from the opposite profile:
``delta(epsilon) = 1 - x + x * opposite(-epsilon)``.

Every accountant starts from here. To add a mechanism, write its profile once, to a stated relative accuracy and
without cancellation.

A pair *dominates* a mechanism if its profile is nowhere below the mechanism's, for all neighbouring inputs. Dominating
pairs compose, also adaptively (Zhu, Dong & Wang 2022, Theorem 10).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx, log_ndtr, ndtr

Array = NDArray[np.float64]

ULP = 2.0**-53  # the relative error of one rounding
_ROOT_TWO = math.sqrt(2.0)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)


class Profile(ABC):
    """One direction of a pair: ``delta(epsilon)`` for epsilon >= 0, decreasing and convex in e^epsilon.

    Attributes:
        max_loss: The largest finite privacy loss. The profile is constant from here on.
        failure: That constant, which is the probability of an infinite loss.
        period: If not None, the curve is piecewise linear in e^epsilon, with corners at multiples of the period.
        relative_error: A bound on the relative error of the values that ``delta`` computes.
    """

    max_loss: float = math.inf
    failure: float = 0.0
    period: float | None = None
    relative_error: float = 32 * ULP

    @abstractmethod
    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile at an array of epsilon >= 0."""

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile. Where the profile underflows, a subclass may still know it."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.delta(epsilon)))

    def corners(self, limit: int) -> Array:
        """Return the first corners of the curve, at most ``limit`` of them."""
        return np.empty(0) if self.period is None else self.period * np.arange(1.0, limit + 1)


@dataclass(frozen=True, slots=True)
class DominatingPair:
    """A pair (P, Q) of distributions, as the profile of P against Q (forward) and of Q against P (backward)."""

    forward: Profile
    backward: Profile

    @staticmethod
    def symmetric(profile: Profile) -> DominatingPair:
        """Return a pair whose two directions have the same profile."""
        return DominatingPair(profile, profile)

    def swapped(self) -> DominatingPair:
        """Return the pair (Q, P)."""
        return DominatingPair(self.backward, self.forward)


def tail_gap(low: Array, step: Array | float) -> Array:
    """Return ``Phi(-low) - (phi(low) / phi(low + step)) * Phi(-low - step)`` for step > 0, which is positive.

    phi and Phi are the standard normal density and distribution function. With the Mills ratio m = (1 - Phi) / phi this
    is ``phi(low) * (m(low) - m(low + step))``. Nothing overflows, and the only cancellation is the one that a small
    step makes unavoidable: the relative error is about ``ULP * (low + 1 / step)``.
    """
    high = low + step
    positive = low >= 0
    safe = np.where(positive, low, 0.0)
    right = (
        np.exp(-0.5 * safe * safe) * 0.5 * (erfcx(safe / _ROOT_TWO) - erfcx(np.where(positive, high, 1.0) / _ROOT_TWO))
    )
    if positive.all():
        return np.asarray(right)
    # Left of 0 the first tail is at least 1/2. The second term is computed in logs, as its factor alone can overflow.
    left = ndtr(-low) - np.exp(log_ndtr(-high) + 0.5 * step * (low + high))
    return np.asarray(np.maximum(np.where(positive, right, left), 0.0))


def log_tail_gap(low: Array, step: Array | float) -> Array:
    """Return the log of `tail_gap`, also where that underflows."""
    positive = low > 0
    safe = np.where(positive, low, 1.0)
    with np.errstate(divide="ignore"):
        gaps = np.log(0.5 * (erfcx(safe / _ROOT_TWO) - erfcx((safe + step) / _ROOT_TWO)))
        return np.asarray(
            np.where(positive, gaps - 0.5 * safe * safe, np.log(tail_gap(np.where(positive, -1.0, low), step)))
        )


@dataclass(frozen=True)
class PointwiseMax(Profile):
    """The largest of several profiles at each epsilon. A maximum of convex curves is convex, so it is a profile."""

    profiles: tuple[Profile, ...]

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """The largest among the profiles."""
        return max(profile.max_loss for profile in self.profiles)

    @cached_property
    def failure(self) -> float:  # type: ignore[override]
        """The largest among the profiles."""
        return max(profile.failure for profile in self.profiles)

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The largest among the profiles."""
        return max(profile.relative_error for profile in self.profiles)

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        # delta of the worst mechanism at each epsilon, which may change from one epsilon to the next. One at a time:
        # there may be thousands.
        values = self.profiles[0].delta(epsilon)
        for profile in self.profiles[1:]:
            values = np.maximum(values, profile.delta(epsilon))
        return values

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        values = self.profiles[0].log_delta(epsilon)
        for profile in self.profiles[1:]:
            values = np.maximum(values, profile.log_delta(epsilon))
        return values
