"""Profiles under sampling.

`SampledRemoval` and `SampledAddition` turn the profile of any mechanism into that of the mechanism on a Poisson sample,
when one record is removed or added. Replacement, and groups, need the distributions themselves: `ReplacedSample` and
`mixture_profiles.SampledGroup` are for Gaussians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hush.accounting.losses.profile import ULP, Array, Profile, log_tail_gap, tail_gap


@dataclass(frozen=True)
class SampledRemoval(Profile):
    """(1 - q) Q + q P against Q, for a base profile of P against Q: ``q * base(log(1 + (e^eps - 1) / q))``."""

    base: Profile
    sampling_rate: float

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """log(1 - q + q e^b), with b the base's largest loss."""
        if self.base.max_loss == math.inf:
            return math.inf
        return (
            math.log1p(self.sampling_rate * math.expm1(self.base.max_loss))
            if self.base.max_loss < 700
            else (self.base.max_loss + math.log(self.sampling_rate))
        )

    @property
    def failure(self) -> float:  # type: ignore[override]
        """The base's failure, times the probability of being sampled."""
        return self.sampling_rate * self.base.failure

    @property
    def relative_error(self) -> float:  # type: ignore[override]
        """The base's, with the rounding of its argument."""
        return 4 * self.base.relative_error

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        return self.sampling_rate * self.base.delta(self._base_epsilon(epsilon))

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        return math.log(self.sampling_rate) + self.base.log_delta(self._base_epsilon(epsilon))

    def _base_epsilon(self, epsilon: Array) -> Array:
        """Return log(1 + (e^eps - 1) / q)."""
        q = self.sampling_rate
        # Two forms of log(1 + (e^eps - 1) / q): one is accurate for small epsilons, the other does not overflow.
        small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / q)
        large = epsilon - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(epsilon, 1.0)))
        return np.where(epsilon < 1.0, small, large)

    def corners(self, limit: int) -> Array:
        """Return the images of the base's corners."""
        base = self.base.corners(limit)
        return np.log1p(self.sampling_rate * np.expm1(base[base < 700]))


@dataclass(frozen=True)
class SampledAddition(Profile):
    """Q against (1 - q) Q + q P, for a base profile of Q against P."""

    base: Profile
    sampling_rate: float

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """-log(1 - q + q e^-b), with b the base's largest loss, or -log(1 - q) if the base's loss can be infinite."""
        if self.base.failure > 0:
            return -math.log1p(-self.sampling_rate)
        return -math.log1p(self.sampling_rate * math.expm1(-self.base.max_loss))

    @property
    def relative_error(self) -> float:  # type: ignore[override]
        """The base's, with the rounding of its argument."""
        return 4 * self.base.relative_error

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile, which is 0 from max_loss on."""
        scaled, inside, argument = self._scaled(epsilon)
        return np.where(inside, scaled * np.exp(np.where(inside, epsilon, 0.0)) * self.base.delta(argument), 0.0)

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        scaled, inside, argument = self._scaled(epsilon)
        return np.where(inside, np.log(scaled) + epsilon + self.base.log_delta(argument), -math.inf)

    def _scaled(self, epsilon: Array) -> tuple[Array, NDArray[np.bool_], Array]:
        """Return q x', with x' = e^(-base epsilon); where it is positive; and the base's epsilon."""
        scaled = np.expm1(-epsilon) + self.sampling_rate
        inside = scaled > 0
        scaled = np.where(inside, scaled, 1.0)
        argument = np.maximum(-np.log1p(np.where(inside, np.expm1(-epsilon), 0.0) / self.sampling_rate), 0.0)
        return scaled, inside, argument

    def corners(self, limit: int) -> Array:
        """Return the images of the base's corners."""
        return -np.log1p(self.sampling_rate * np.expm1(-self.base.corners(limit)))


@dataclass(frozen=True)
class ReplacedSample(Profile):
    """(1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1), noise sigma: a sampled record replaced by its opposite.

    With v = e^(x / sigma^2) the likelihood ratio equals e^eps where ``log v = eps / 2 + asinh((1 - q) sinh(eps / 2) /
    (q e^(-1 / 2 sigma^2)))``. The rest is two positive differences of Mills ratios.
    """

    noise_multiplier: float
    sampling_rate: float

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """Four times the Gaussian's."""
        return 4 * ULP * (4000 + 400 * self.noise_multiplier)

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        x, log_v = self._threshold(epsilon)
        step = 1 / self.noise_multiplier
        # phi(x) (m(x) - m(x + 1/sigma)) e^eps e^b, with b the log ratio of N(-1) to N(0) at the threshold.
        below = np.exp(epsilon - log_v - 0.5 * step**2) * tail_gap(x, step)
        return np.asarray(self.sampling_rate * (tail_gap(x - step, step) + below))

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        x, log_v = self._threshold(epsilon)
        step = 1 / self.noise_multiplier
        below = epsilon - log_v - 0.5 * step**2 + log_tail_gap(x, step)
        return np.asarray(math.log(self.sampling_rate) + np.logaddexp(log_tail_gap(x - step, step), below))

    def _threshold(self, epsilon: Array) -> tuple[Array, Array]:
        """Return where the likelihood ratio is e^eps, in units of sigma, and log v there."""
        q, sigma = self.sampling_rate, self.noise_multiplier
        half = epsilon / 2
        log_sinh = half + np.log(-np.expm1(-np.maximum(epsilon, 1e-300))) - math.log(2.0)
        log_ratio = math.log1p(-q) - math.log(q) + 0.5 / sigma**2 + log_sinh
        log_v = half + np.where(
            log_ratio > 18, log_ratio + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_ratio, 18)))
        )
        return sigma * log_v, log_v
