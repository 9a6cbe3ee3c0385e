"""Profiles under sampling.

`SampledRemoval` and `SampledAddition` turn the profile of any mechanism into that of the mechanism on a Poisson sample,
when one record is removed or added. Replacement, and groups, need the distributions themselves: `ReplacedSample` and
`SampledGroup` are for Gaussians.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from hush.accounting.losses.profile import ULP, Array, Profile, tail_gap


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
        q = self.sampling_rate
        # Two forms of log(1 + (e^eps - 1) / q): one is accurate for small epsilons, the other does not overflow.
        small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / q)
        large = epsilon - math.log(q) + np.log1p(-(1 - q) * np.exp(-np.maximum(epsilon, 1.0)))
        return q * self.base.delta(np.where(epsilon < 1.0, small, large))

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
        scaled = np.expm1(-epsilon) + self.sampling_rate  # q x', with x' = e^(-base epsilon)
        inside = scaled > 0
        scaled = np.where(inside, scaled, 1.0)
        argument = np.maximum(-np.log1p(np.where(inside, np.expm1(-epsilon), 0.0) / self.sampling_rate), 0.0)
        return np.where(inside, scaled * np.exp(np.where(inside, epsilon, 0.0)) * self.base.delta(argument), 0.0)

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
        q, sigma = self.sampling_rate, self.noise_multiplier
        half = epsilon / 2
        log_sinh = half + np.log(-np.expm1(-np.maximum(epsilon, 1e-300))) - math.log(2.0)
        log_ratio = math.log1p(-q) - math.log(q) + 0.5 / sigma**2 + log_sinh
        log_v = half + np.where(
            log_ratio > 18, log_ratio + math.log(2.0), np.arcsinh(np.exp(np.minimum(log_ratio, 18)))
        )
        x = sigma * log_v  # the threshold in units of sigma
        # phi(x) (m(x) - m(x + 1/sigma)) e^eps e^b, with b the log ratio of N(-1) to N(0) at the threshold.
        below = np.exp(epsilon - log_v - 0.5 / sigma**2) * tail_gap(x, 1 / sigma)
        return np.asarray(q * (tail_gap(x - 1 / sigma, 1 / sigma) + below))


@dataclass(frozen=True)
class SampledGroup(Profile):
    """N(K) against N(0), with noise sigma and K ~ Binomial(group size, q): a Poisson-sampled group (Ganesh 2024).

    With ``reverse`` it is N(0) against N(K).
    """

    noise_multiplier: float
    sampling_rate: float
    size: int
    reverse: bool = False

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """Infinite; in reverse, minus the log of the probability that no record is sampled."""
        return -self.size * math.log1p(-self.sampling_rate) if self.reverse else math.inf

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The Gaussian's, with the error of the threshold."""
        return 16 * ULP * (4000 + 400 * self.noise_multiplier)

    @cached_property
    def _log_weights(self) -> Array:
        """The logs of the binomial probabilities of K."""
        k, n = np.arange(self.size + 1), self.size
        q = self.sampling_rate
        return np.asarray(
            gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1) + k * math.log(q) + (n - k) * math.log1p(-q)
        )

    def _log_terms(self, x: Array) -> Array:
        """Return the log of each component's weight times its likelihood ratio to N(0), at x, in units of sigma."""
        shifts = np.arange(self.size + 1)[:, None] / self.noise_multiplier
        return self._log_weights[:, None] + shifts * x - 0.5 * shifts**2

    def _threshold(self, loss: Array) -> Array:
        """Return the x at which the log likelihood ratio, which increases with x, is ``loss``, by bisection."""
        reach = self.noise_multiplier * (np.abs(loss) + 2 * self.size * abs(math.log(self.sampling_rate)) + 60)
        low, high = -reach - self.size / self.noise_multiplier, reach + self.size / self.noise_multiplier
        for _ in range(90):
            middle = 0.5 * (low + high)
            above = np.logaddexp.reduce(self._log_terms(middle), axis=0) > loss
            low, high = np.where(above, low, middle), np.where(above, middle, high)
        return np.asarray(0.5 * (low + high))

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile as a sum of positive terms."""
        inside = epsilon < self.max_loss
        epsilon = np.where(inside, epsilon, 0.0)
        x = self._threshold(-epsilon if self.reverse else epsilon)
        shifts = np.arange(1, self.size + 1)[:, None] / self.noise_multiplier
        if self.reverse:
            # phi(x) e^eps sum_k w_k r_k (m(-x) - m(k/sigma - x)), with weights w_k and likelihood ratios r_k.
            terms = np.exp(self._log_terms(x)[1:] + epsilon) * tail_gap(-x + 0 * shifts, shifts)
        else:
            # phi(x) sum_k w_k r_k (m(x - k/sigma) - m(x)), where r_k phi(x) = phi(x - k/sigma).
            terms = np.exp(self._log_weights[1:, None]) * tail_gap(x - shifts, shifts)
        return np.where(inside, terms.sum(axis=0), 0.0)
