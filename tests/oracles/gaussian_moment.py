"""The moment of a Gaussian mixture's likelihood ratio at complex order, to near machine precision.

    I(u, v) = integral of phi(x) e^(u Y(x) - v Y(-x)) dx,  Y(x) = log(1 - q + q e^((2 x - 1) / (2 sigma^2)))

for Im u, Im v >= 0, phi the density of N(0, sigma^2). Every direction of the Poisson-sampled Gaussian is one of these.

The trapezoidal rule is exponentially accurate for an analytic integrand, but on the real line this one oscillates
if Im u is large. So x follows a path on which the largest modulus is smallest, chosen for each u among a few: a
horizontal line below the branch point (1 - q + q e^... = 0, at height pi sigma^2), which may climb behind it to pass
through the saddle point near x = u. The number of nodes then does not depend on u.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

_HEIGHTS = (0, 0.01, 0.04, 0.1, 0.17, 0.25, 0.35, 0.5, 0.65, 0.8, 1.0)
_ROWS = 64  # values of u that share one array
_DEEP = 45  # e^-45 of the largest modulus is negligible
_HALVINGS, _SETTLED = 4, 2e-14


@dataclass(frozen=True)
class _Paths:
    """One path x -> x + i lift(x) per row: `height`, then climbing at `slope` from `start` to `stop`."""

    height: np.ndarray
    slope: np.ndarray
    start: float
    stop: np.ndarray
    softness: float

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return points of the paths, and their derivatives."""
        left = (x[None, :] - self.start) / self.softness
        right = (x[None, :] - self.stop[:, None]) / self.softness
        climb = np.logaddexp(0, left) - np.logaddexp(0, right)
        lift = self.height[:, None] + self.slope[:, None] * self.softness * climb
        turn = 0.5 * (np.tanh(0.5 * left) - np.tanh(0.5 * right))
        return x[None, :] + 1j * lift, 1 + 1j * self.slope[:, None] * turn

    def where(self, better: np.ndarray, other: _Paths) -> _Paths:
        """Return the rows of `other` where `better`, and those of self elsewhere."""
        pick = [np.where(better, getattr(other, n), getattr(self, n)) for n in ("height", "slope", "stop")]
        return replace(self, height=pick[0], slope=pick[1], stop=pick[2])

    def rows(self, index: np.ndarray) -> _Paths:
        return replace(self, height=self.height[index], slope=self.slope[index], stop=self.stop[index])


@dataclass(frozen=True)
class MixtureMoment:
    """I(u, v) for one sigma and q < 1."""

    noise_multiplier: float
    sampling_rate: float

    def log(self, u: np.ndarray, v: np.ndarray | None = None, *, refine: float = 1.0) -> np.ndarray:
        """Return log I(u, v), or log I(u, 0) without v."""
        blocks = range(0, len(u), _ROWS)
        return np.concatenate(
            [self._log_block(u[i : i + _ROWS], None if v is None else v[i : i + _ROWS], refine) for i in blocks]
        )

    def _log_block(self, u: np.ndarray, v: np.ndarray | None, refine: float) -> np.ndarray:
        sigma = self.noise_multiplier
        spacing = min(sigma / 7, sigma**2 / 5) / refine
        reach = self._reach(u)
        x = np.arange(-10 * sigma - 1, 10 * sigma + reach, spacing)
        stride = max(1, int(0.5 * sigma / spacing))
        leader = _leaders(u)
        leading = np.unique(leader)
        paths, first, last = self._best_paths(u[leading], None if v is None else v[leading], x[::stride])
        paths = paths.rows(np.searchsorted(leading, leader))
        x = x[stride * first : stride * last]
        terms = self._integrand(u, v, x, paths)
        log_m = log_mean_exp(terms[0] + math.log(spacing), terms[1])
        floor = 0.0 if v is not None else u.real * math.log1p(-self.sampling_rate)
        for _ in range(_HALVINGS):
            spacing /= 2
            between = self._integrand(u, v, x + spacing, paths)
            x = np.stack([x, x + spacing], axis=1).ravel()
            terms = [np.stack([a, b], axis=2).reshape(len(u), -1) for a, b in zip(terms, between, strict=True)]
            coarse, log_m = log_m, log_mean_exp(terms[0] + math.log(spacing), terms[1])
            # If the moment is small compared with the rest of the contour, its value counts, not its logarithm.
            scale = np.exp(np.minimum(0, log_m.real - floor))
            if not (np.abs(np.expm1(coarse - log_m)) * scale > _SETTLED).any():
                break
        return log_m

    def _reach(self, u: np.ndarray) -> float:
        """Return how far right the integrand matters: to the saddle near x = u, unless that is negligible."""
        sigma, q = self.noise_multiplier, self.sampling_rate
        rightmost = float(np.abs(u.real).max()) + 1
        height = (u * math.log(q) + u * (u - 1) / (2 * sigma**2)).real - u.real * math.log1p(-q)
        visible = (u.real > 0) & (height > -100)
        return rightmost if visible.any() else min(rightmost, self._behind() + 40 * max(sigma, sigma**2))

    def _behind(self) -> float:
        """Return where a path may start to climb: to the right of the branch point."""
        sigma, q = self.noise_multiplier, self.sampling_rate
        return 0.5 + sigma**2 * (math.log1p(-q) - math.log(q)) + min(sigma, sigma**2)

    def _integrand(
        self, u: np.ndarray, v: np.ndarray | None, x: np.ndarray, paths: _Paths
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return log(phi dx) and u Y(x) - v Y(-x)."""
        sigma = self.noise_multiplier
        z, turn = paths.at(x)
        log_weight = np.log(turn) - 0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
        exponent = u[:, None] * self._log_ratio(z)
        return log_weight, exponent if v is None else exponent - v[:, None] * self._log_ratio(-z)

    def _log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Return Y(x) on the sheet that continues the real line, below the branch point or to the right of it."""
        q = self.sampling_rate
        a = (2 * x - 1) / (2 * self.noise_multiplier**2)
        odds = a + math.log(q) - math.log1p(-q)
        rising = odds.real > 0
        small = np.exp(np.where(rising, -odds, odds))
        # log(1 - q) + log(1 + e^odds), except at small q and a, where the two nearly cancel.
        near = np.abs(small) < 0.5
        direct = log1p(q * np.expm1(np.where(near & ~rising, a, 0)))
        falling = np.where(near, direct, math.log1p(-q) + log1p(small))
        return np.where(rising, math.log(q) + a + log1p(small), falling)

    def _best_paths(self, u: np.ndarray, v: np.ndarray | None, x: np.ndarray) -> tuple[_Paths, int, int]:
        """Return the best path for each row, and the range of x that matters."""
        candidates = self._candidates(u, v)
        best, chosen = np.full(len(u), math.inf), candidates[0]
        profile = np.empty((len(u), len(x)))
        for paths in candidates:
            log_weight, exponent = self._integrand(u, v, x, paths)
            modulus = (log_weight + exponent).real
            better = modulus.max(axis=1) < best
            best, chosen = np.where(better, modulus.max(axis=1), best), chosen.where(better, paths)
            # phi matters, too, since its sum over the nodes must be one (see log_mean_exp).
            phi = np.where(log_weight.real.max(axis=1, keepdims=True) < 5, log_weight.real, -math.inf)
            modulus = np.maximum(modulus - modulus.max(axis=1, keepdims=True), phi)
            profile = np.where(better[:, None], modulus, profile)
        counts = np.flatnonzero((profile > -_DEEP).any(axis=0))
        return chosen, max(0, int(counts[0]) - 1), int(counts[-1]) + 2

    def _candidates(self, u: np.ndarray, v: np.ndarray | None) -> list[_Paths]:
        sigma = self.noise_multiplier
        ceiling = np.minimum(u.imag + (0 if v is None else v.imag), 0.9 * math.pi * sigma**2)
        softness, start = 0.5 * min(sigma, sigma**2), self._behind()
        ahead = np.maximum(u.real - start, 1e-3)
        candidates: list[_Paths] = []
        for height in (fraction * ceiling for fraction in _HEIGHTS):
            if candidates and height.max() < 0.02 * sigma:
                continue  # the real line is good enough
            slope = np.where(u.real > start, np.clip((u.imag - height) / ahead, 0, 3), 0)
            steep = _Paths(height=height, slope=slope, start=start, stop=start + ahead, softness=softness)
            flat = replace(steep, slope=np.where(u.imag > u.real, slope, 0))
            candidates += [steep, flat] if (slope > 0).any() else [steep]
        return candidates


def _leaders(u: np.ndarray) -> np.ndarray:
    """Return for each u the index of an earlier one that is close enough to share its path."""
    leader = np.zeros(len(u), int)
    for i in range(1, len(u)):
        first = u[leader[i - 1]]
        leader[i] = leader[i - 1] if abs(u[i] - first) < 0.08 * abs(first.imag) + 0.05 else i
    return leader


def log_mean_exp(log_weight: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Return log sum_j weight_j e^exponent_j for each row, where the weights of a row sum to one.

    After many steps every moment is close to 1, and its logarithm must keep its relative accuracy. There the sum is
    over e^exponent - 1. It is over plain exponentials if the moment is small or would overflow, or if the weights are
    complex, so that in floating point they do not sum to one.
    """
    total = log_weight + exponent
    top = total.real.max(axis=1)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        weight = np.exp(log_weight)
        modest = exponent.real < 30  # beyond it, e^exponent - 1 would overflow where the weight vanishes
        excess = np.where(modest, weight * np.expm1(np.where(modest, exponent, 0)), np.exp(total) - weight).sum(axis=1)
        near_one = log1p(excess)
        plain = np.log(np.exp(total - top[:, None]).sum(axis=1)) + top
    complete = np.abs(weight.sum(axis=1) - 1) < 1e-14
    return np.where(complete & (top < 300) & (np.abs(1 + excess) > 0.1), near_one, plain)


def log1p(z: np.ndarray) -> np.ndarray:
    """Return log(1 + z) for complex z, accurate for small z (NumPy's loses the real part)."""
    a, b = z.real, z.imag
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a)
