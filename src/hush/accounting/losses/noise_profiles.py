"""Profiles of the basic mechanisms: Gaussian, Laplace, their discrete versions, randomised response, bounded range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import erfcx

from hush.accounting.losses.profile import ULP, Array, Profile, log_tail_gap, tail_gap


@dataclass(frozen=True, eq=True)
class GaussianProfile(Profile):
    """N(mu, 1) against N(0, 1) (Balle & Wang 2018, Theorem 8)."""

    mu: float

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The error of exponents up to 40^2 / 2, and of the difference of two Mills ratios at a distance of mu."""
        return ULP * (4000 + 400 / self.mu)

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        return tail_gap(epsilon / self.mu - self.mu / 2, self.mu)

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        return log_tail_gap(epsilon / self.mu - self.mu / 2, self.mu)


def gaussian_delta(epsilons: Array, mu: float) -> Array:
    """Return delta at each epsilon >= 0 for Gaussian noise, exactly up to rounding (Balle & Wang 2018, Theorem 8).

    Args:
        epsilons: An array of epsilons.
        mu: The sensitivity divided by the noise's standard deviation.
    """
    return GaussianProfile(mu).delta(epsilons)


@dataclass(frozen=True)
class LaplaceProfile(Profile):
    """Laplace noise of scale 1 / epsilon on a query of sensitivity 1."""

    epsilon: float

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The pure-DP epsilon."""
        return self.epsilon

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        return -np.expm1(np.minimum(epsilon - self.epsilon, 0.0) / 2)


@dataclass(frozen=True)
class RandomizedResponseProfile(Profile):
    """k-ary randomised response; with k = 2 and a failure probability, the worst (epsilon, delta)-DP mechanism.

    References: Kairouz, Oh & Viswanath 2015, Theorem 3.2.
    """

    epsilon: float
    num_values: int = 2
    failure: float = 0.0

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The pure-DP epsilon."""
        return self.epsilon

    @property
    def period(self) -> float | None:  # type: ignore[override]
        """Losses are -epsilon, 0 and epsilon."""
        return self.epsilon if self.epsilon > 0 else None

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile: failure + (1 - failure) (e^eps0 - e^eps)_+ / (e^eps0 + k - 1)."""
        gap = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0))
        return self.failure + (1 - self.failure) * gap / (1 + (self.num_values - 1) * math.exp(-self.epsilon))


@dataclass(frozen=True)
class BoundedRangeProfile(Profile):
    """The pointwise worst mechanism of bounded range, such as the exponential mechanism (Dong, Durfee & Rogers 2020).

    For a mechanism with the two losses t and t - range, the profile is ``p(t) (1 - e^(eps - t))`` with
    ``p(t) = (e^range - e^t) / (e^range - 1)``. Its maximum over t is at ``t = (range + eps) / 2``.
    """

    epsilon: float

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The range itself."""
        return self.epsilon

    def delta(self, epsilon: Array) -> Array:
        """Evaluate ``(e^(range/2) - e^(eps/2))^2 / (e^range - 1)``."""
        gap = np.expm1(np.minimum(epsilon - self.epsilon, 0.0) / 2)
        return gap * gap / -math.expm1(-self.epsilon)


@dataclass(frozen=True)
class TwoLossProfile(Profile):
    """A mechanism of bounded range with two outcomes, whose losses are t and t - range, for t = range * steps / 20.

    Its opposite has 20 - steps.
    """

    epsilon: float
    steps: int

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The larger loss, t."""
        return self.epsilon / 20 * self.steps

    @property
    def period(self) -> float | None:  # type: ignore[override]
        """Both losses are multiples of a twentieth of the range."""
        return self.epsilon / 20

    def delta(self, epsilon: Array) -> Array:
        """Evaluate ``p(t) (1 - e^(eps - t))`` with ``p(t) = (e^range - e^t) / (e^range - 1)``."""
        probability = math.expm1(self.max_loss - self.epsilon) / math.expm1(-self.epsilon)
        return probability * -np.expm1(np.minimum(epsilon - self.max_loss, 0.0))


@dataclass(frozen=True)
class DiscreteLaplaceProfile(Profile):
    """Integer noise with P(x) proportional to e^(-|x| / scale), on an integer query of this sensitivity."""

    scale: float
    sensitivity: int

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The pure-DP epsilon."""
        return self.sensitivity / self.scale

    @property
    def period(self) -> float | None:  # type: ignore[override]
        """Losses are (2 x - sensitivity) / scale for integers x."""
        return 1 / self.scale

    def delta(self, epsilon: Array) -> Array:
        """Evaluate P(X >= t) - e^eps Q(X >= t) for the smallest t whose loss is at least eps, without cancellation."""
        first = np.clip(np.ceil((self.scale * epsilon + self.sensitivity) / 2), 1, self.sensitivity)
        at_first = -np.expm1(np.minimum(epsilon - first / self.scale, 0.0))
        after_first = -np.expm1((first - self.sensitivity) / self.scale)
        ratio = math.exp(-1 / self.scale)
        return np.asarray((at_first + ratio * after_first) / (1 + ratio))


@dataclass(frozen=True)
class DiscreteGaussianProfile(Profile):
    """Integer noise with P(x) proportional to e^(-x^2 / (2 sigma^2)), on an integer query of this sensitivity.

    References: Canonne, Kamath & Steinke 2020, Theorem 7.
    """

    sigma: float
    sensitivity: int

    @property
    def period(self) -> float | None:  # type: ignore[override]
        """Losses are (2 x - sensitivity) sensitivity / (2 sigma^2) for integers x."""
        return self.sensitivity / (2 * self.sigma**2)

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The Gaussian's, plus about 1e-13 for the tail sums."""
        return (ULP * 4000 + 1e-13) * (1 + self.sigma / self.sensitivity)

    def delta(self, epsilon: Array) -> Array:
        """Evaluate P(X >= t) - e^eps Q(X >= t) for the smallest t whose loss is at least eps."""
        first = np.ceil(self.sigma**2 * epsilon / self.sensitivity + self.sensitivity / 2)
        log_p, log_q = self._log_tail(first - self.sensitivity), self._log_tail(first)
        with np.errstate(invalid="ignore"):  # far out both tails are empty
            gap = -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))
        return np.where(np.isfinite(log_p), np.exp(log_p) * gap, 0.0)

    def _log_tail(self, first: Array) -> Array:
        """Return log P(X >= first). It must not underflow: a tail is also subtracted, where 0 would be an error."""
        if self.sigma < _TABLE_LIMIT:
            return self._log_tail_by_table(first)
        is_distant = first >= 0.7 * self.sigma**2
        by_series = self._log_tail_by_series(np.where(is_distant, 0.0, first))
        return np.where(is_distant, self._log_tail_by_sum(np.where(is_distant, first, self.sigma**2)), by_series)

    @cached_property
    def _table(self) -> Array:
        reach = math.ceil(60 * self.sigma) + self.sensitivity + 2
        points = np.arange(-reach, reach + 1, dtype=float)
        tails = np.logaddexp.accumulate(-0.5 * (points[::-1] / self.sigma) ** 2)[::-1]
        return np.append(tails - tails[0], -math.inf)

    def _log_tail_by_table(self, first: Array) -> Array:
        reach = (len(self._table) - 2) // 2
        return self._table[np.clip(first + reach, 0, len(self._table) - 1).astype(np.int64)]

    def _log_tail_by_sum(self, first: Array) -> Array:
        """Return the log tail as a sum of terms, each at most half of the preceding one."""
        steps = np.arange(64.0)
        terms = -steps * first[..., None] / self.sigma**2 - 0.5 * (steps / self.sigma) ** 2
        log_first = -0.5 * (first / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(log_first + np.log(np.exp(terms).sum(axis=-1)))

    def _log_tail_by_series(self, first: Array) -> Array:
        """Return the log tail by the Euler-Maclaurin formula.

        Eight terms are enough for sigma >= 64 and |first| < 0.7 sigma^2.
        """
        z = first / self.sigma
        positive = np.minimum(np.abs(z), 0.7 * self.sigma)
        correction = np.full_like(positive, 0.5)
        before, hermite = np.ones_like(positive), positive  # He_0, He_1
        power = self.sigma
        for order, coefficient in zip(range(1, 16, 2), _EULER_MACLAURIN, strict=True):
            correction += coefficient * hermite / power
            for step in (order, order + 1):
                before, hermite = hermite, positive * hermite - step * before
            power *= self.sigma**2
        # The log of (sigma * Mills ratio + correction) * density, which never underflows.
        mills = self.sigma * np.sqrt(np.pi / 2) * erfcx(positive / math.sqrt(2.0))
        log_tail = np.log(mills + correction) - 0.5 * positive**2 - math.log(self.sigma * math.sqrt(2 * math.pi))
        # By symmetry P(X >= -a) = 1 - P(X >= a + 1) = 1 - P(X >= a) + P(X = a).
        point = np.exp(-0.5 * positive**2) / (self.sigma * math.sqrt(2 * math.pi))
        return np.asarray(np.where(z >= 0, log_tail, np.log1p(np.minimum(point - np.exp(log_tail), 0.0))))


_TABLE_LIMIT = 64.0  # below this sigma, a table of all tails is small
# B_2k / (2k)! for k = 1, ..., 8.
_EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
)
