"""Profiles of mixtures: noise around a random shift, and mixtures of pairs whose component is public.

`GaussianMixture` is the mean of Gaussians at several shifts against a single one at 0, and `SampledGroup` the special
case of a Poisson-sampled group. Their likelihood ratio ``sum_k w_k r_k(x)``, with r_k(x) = e^(s_k x - s_k^2 / 2), grows
with x, so each epsilon has one threshold. It is the root of a convex function, which Newton's method finds from the
right. Of many components only those are computed that matter near a threshold: what is left out is below e^-50 of the
sum, less than its rounding error.

`PublicMixture` is the mean of several profiles: the component is drawn first, and everybody sees which it is.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln, log_ndtr

from hush.accounting.losses.profile import ULP, Array, Profile, log_tail_gap, tail_gap

_BLOCK = 128  # epsilons that share a choice of components
_NEGLIGIBLE = 50.0  # components that are smaller by e^-50 are left out
_CLOSE = 1e-14  # relative: delta is stationary at the threshold, so its error is of second order
_STEPS = 60  # of Newton's method, at most; a handful is the rule


class _ShiftedGaussians(Profile):
    """sum_k w_k N(s_k, 1) against N(0, 1), for shifts s_k >= 0 in units of the noise; reversed if ``reverse``."""

    reverse: bool

    @cached_property
    @abstractmethod
    def _parts(self) -> tuple[Array, Array, float]:
        """The positive shifts, increasing; the logs of their weights; and the log of the weight of the shift 0."""

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """Infinite; in reverse, minus the log of the probability that nothing is shifted."""
        return -self._parts[2] if self.reverse else math.inf

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The Gaussian's, with the errors of the threshold and of the weights."""
        return float(16 * ULP * (4000 + 400 / self._parts[0][0]))

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile as a sum of positive terms."""
        flat = np.asarray(epsilon, dtype=float).ravel()
        result = np.zeros(flat.shape)
        inside = np.flatnonzero(flat < self.max_loss)
        order = inside[np.argsort(flat[inside], kind="stable")]
        for start in range(0, len(order), _BLOCK):
            block = order[start : start + _BLOCK]
            result[block] = self._block(flat[block])
        return result.reshape(np.shape(epsilon))

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        values = super().log_delta(epsilon)
        far = (values < math.log(1e-280)) & (epsilon < self.max_loss)
        if not self.reverse and far.any():
            shifts, logs, _ = self._parts
            target = self._log_excess(epsilon[far])
            x = _threshold(shifts, logs, target, _bracket(shifts, logs, target)[1])
            terms = logs[:, None] + log_tail_gap(x - shifts[:, None], shifts[:, None])
            values[far] = np.logaddexp.reduce(terms, axis=0)
        return values

    def _block(self, epsilon: Array) -> Array:
        """Return the values at increasing epsilons."""
        shifts, logs, _ = self._parts
        target = self._log_excess(epsilon)
        nearest, furthest = _bracket(shifts, logs, target)
        near = _window(shifts, logs, float(nearest.min()), float(furthest.max()))
        x = _threshold(shifts[near], logs[near], target, furthest)
        if self.reverse:
            # e^eps sum_k w_k (r_k Phi(x) - Phi(x - s_k)).
            logs = logs[near, None] + shifts[near, None] * (x - 0.5 * shifts[near, None]) + epsilon
            return np.asarray((np.exp(logs) * tail_gap(-x + 0 * logs, shifts[near, None])).sum(axis=0))
        # sum_k w_k (Phi(s_k - x) - r_k Phi(-x)). Of large shifts with tiny weights even the mass beyond x counts.
        last = float(_forward(shifts, logs, x[-1:])[0])
        with np.errstate(divide="ignore"):
            matters = logs + log_ndtr(shifts - x[0]) > np.log(last) - _NEGLIGIBLE
        return _forward(shifts[matters], logs[matters], x)

    def _log_excess(self, epsilon: Array) -> Array:
        """Return log(e^t - w_0), without cancellation: what the shifted components add up to at the threshold.

        t is epsilon, or minus epsilon in reverse.
        """
        _, logs, log_rest = self._parts
        if self.reverse:
            if log_rest == -math.inf:
                return -epsilon
            return np.asarray(log_rest + np.log(np.expm1(np.minimum(self.max_loss - epsilon, 700.0))))
        shifted = float(np.exp(logs).sum())
        small = np.log(np.expm1(np.minimum(epsilon, 1.0)) + shifted)
        large = epsilon + np.log1p(-math.exp(log_rest) * np.exp(-np.maximum(epsilon, 1.0)))
        return np.where(epsilon < 1.0, small, large)


def _forward(shifts: Array, logs: Array, x: Array) -> Array:
    return np.asarray((np.exp(logs[:, None]) * tail_gap(x - shifts[:, None], shifts[:, None])).sum(axis=0))


def _bracket(shifts: Array, logs: Array, target: Array) -> tuple[Array, Array]:
    """Return points left and right of where log sum_k w_k r_k(x) is the target.

    The log of a sum of n terms lies between the largest term and log(n) above it, and each term is a line in x.
    """
    lines = (target + (0.5 * shifts**2 - logs)[:, None]) / shifts[:, None]
    lower = lines - math.log(len(shifts)) / shifts[:, None]
    return lower.min(axis=0), lines.min(axis=0)


def _window(shifts: Array, logs: Array, low: float, high: float) -> slice:
    """Return the components that matter between two points.

    Where a component with a larger shift exceeds one with a smaller shift at ``low``, it does so by more further right.
    """
    exponents = logs[:, None] + shifts[:, None] * (np.array([low, high]) - 0.5 * shifts[:, None])
    large = exponents > exponents.max(axis=0) - _NEGLIGIBLE
    return slice(int(np.argmax(large[:, 0])), len(shifts) - int(np.argmax(large[::-1, 1])))


def _threshold(shifts: Array, logs: Array, target: Array, start: Array) -> Array:
    """Return the x at which log sum_k w_k r_k(x), which is convex and increasing, is the target."""
    x = start
    slopes = shifts[:, None]
    for _ in range(_STEPS):
        exponents = logs[:, None] + slopes * (x - 0.5 * slopes)
        peak = exponents.max(axis=0)
        terms = np.exp(exponents - peak)
        total = terms.sum(axis=0)
        # From the right of the root, every step ends to the right of it, too.
        step = (peak + np.log(total) - target) * total / (slopes * terms).sum(axis=0)
        x = x - step
        if (step <= _CLOSE * (1 + np.abs(x))).all():
            break
    return np.asarray(x)


@dataclass(frozen=True)
class GaussianMixture(_ShiftedGaussians):
    """sum_k p_k N(shift_k, sigma^2) against N(0, sigma^2), for shifts >= 0 that increase.

    References: Choquette-Choo et al. 2024, "Privacy amplification for matrix mechanisms" (mixtures of Gaussians).
    """

    noise_multiplier: float
    shifts: tuple[float, ...]
    probabilities: tuple[float, ...]
    reverse: bool = False

    @cached_property
    def _parts(self) -> tuple[Array, Array, float]:
        shifts = np.array(self.shifts) / self.noise_multiplier
        with np.errstate(divide="ignore"):
            logs = np.log(np.array(self.probabilities))
        moves = (shifts > 0) & (logs > -math.inf)
        at_rest = math.fsum(np.array(self.probabilities)[~(shifts > 0)])
        # 1 minus the others, where that is the more accurate form.
        rest = math.log(at_rest) if at_rest > 0 else -math.inf
        return shifts[moves], logs[moves], rest


@dataclass(frozen=True)
class SampledGroup(_ShiftedGaussians):
    """N(K) against N(0), with noise sigma and K ~ Binomial(group size, q): a Poisson-sampled group (Ganesh 2024).

    With ``reverse`` it is N(0) against N(K).
    """

    noise_multiplier: float
    sampling_rate: float
    size: int
    reverse: bool = False

    @cached_property
    def _parts(self) -> tuple[Array, Array, float]:
        k, n, q = np.arange(1.0, self.size + 1), self.size, self.sampling_rate
        binomials = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
        rest = n * math.log1p(-q)
        return k / self.noise_multiplier, binomials + k * math.log(q) + (n - k) * math.log1p(-q), rest


@dataclass(frozen=True)
class PublicMixture(Profile):
    """The mean of several profiles: the component is drawn with these probabilities, and it is part of the outcome.

    A mean of convex curves is convex, so it is a profile.
    """

    profiles: tuple[Profile, ...]
    probabilities: tuple[float, ...]

    @cached_property
    def max_loss(self) -> float:  # type: ignore[override]
        """The largest among the profiles."""
        return max(profile.max_loss for profile in self.profiles)

    @cached_property
    def failure(self) -> float:  # type: ignore[override]
        """The mean over the profiles."""
        return math.fsum(share * profile.failure for share, profile in self._shares())

    @cached_property
    def relative_error(self) -> float:  # type: ignore[override]
        """The largest among the profiles, with the rounding of the sum."""
        return max(profile.relative_error for profile in self.profiles) + (len(self.profiles) + 4) * ULP

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the profile."""
        return np.asarray(sum(share * profile.delta(epsilon) for share, profile in self._shares()))

    def log_delta(self, epsilon: Array) -> Array:
        """Evaluate the log of the profile."""
        terms = [math.log(share) + profile.log_delta(epsilon) for share, profile in self._shares()]
        return np.asarray(np.logaddexp.reduce(terms, axis=0))

    def _shares(self) -> Iterator[tuple[float, Profile]]:
        return zip(self.probabilities, self.profiles, strict=True)
