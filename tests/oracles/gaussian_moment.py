"""The moment of a Gaussian mixture's likelihood ratio at complex order, to near machine precision.

    I(u, v) = integral of phi(x) e^(u Y(x) - v Y(-x)) dx,  Y(x) = log(1 - q + q e^((2 x - 1) / (2 sigma^2)))

for Im u, Im v >= 0, phi the density of N(0, sigma^2). Every direction of the Poisson-sampled Gaussian is one of these.

The trapezoidal rule is exponentially accurate for an analytic integrand, but on the real line this one oscillates
when Im u is large. So x runs on a path where the largest modulus is least, chosen per u among a few: a horizontal
line below the branch point (1 - q + q e^... = 0, at height pi sigma^2), which may climb behind it to pass through the
saddle point near x = u. The number of nodes then stays the same however large u is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

_HEIGHTS = (0, 0.003, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.27, 0.35, 0.43, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_ROWS = 64  # values of u that share one array
_DEEP = 45  # e^-45 of the largest modulus is nothing
_HALVINGS, _SETTLED = 5, 1e-13


@dataclass(frozen=True)
class _Paths:
    """One path x -> x + i lift(x) per row: `height`, then climbing at `slope` from `start` to `stop`."""

    height: np.ndarray
    slope: np.ndarray
    start: float
    stop: np.ndarray
    softness: float

    def at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points and derivatives."""
        left = (x[None, :] - self.start) / self.softness
        right = (x[None, :] - self.stop[:, None]) / self.softness
        climb = np.logaddexp(0, left) - np.logaddexp(0, right)
        lift = self.height[:, None] + self.slope[:, None] * self.softness * climb
        turn = 0.5 * (np.tanh(0.5 * left) - np.tanh(0.5 * right))
        return x[None, :] + 1j * lift, 1 + 1j * self.slope[:, None] * turn

    def where(self, better: np.ndarray, other: _Paths) -> _Paths:
        """The rows of `other` where `better`, of self elsewhere."""
        pick = [np.where(better, getattr(other, n), getattr(self, n)) for n in ("height", "slope", "stop")]
        return _Paths(height=pick[0], slope=pick[1], stop=pick[2], start=self.start, softness=self.softness)


@dataclass(frozen=True)
class MixtureMoment:
    """I(u, v) for one sigma and q < 1."""

    noise_multiplier: float
    sampling_rate: float

    def log(self, u: np.ndarray, v: np.ndarray | None = None, *, refine: float = 1.0) -> np.ndarray:
        """log I(u, v); without v, of I(u, 0)."""
        blocks = range(0, len(u), _ROWS)
        return np.concatenate(
            [self._log_block(u[i : i + _ROWS], None if v is None else v[i : i + _ROWS], refine) for i in blocks]
        )

    def _log_block(self, u: np.ndarray, v: np.ndarray | None, refine: float) -> np.ndarray:
        sigma = self.noise_multiplier
        spacing = min(sigma / 7, sigma**2 / 5) / refine
        reach = float(np.abs(u.real).max()) + 1
        x = np.arange(-10 * sigma - (1 if v is None else reach), 10 * sigma + reach, spacing)
        stride = max(1, int(0.5 * sigma / spacing))
        paths, first, last = self._best_paths(u, v, x[::stride])
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
            # the moment itself counts, not its logarithm, where it is small against the rest of the contour
            scale = np.exp(np.minimum(0, log_m.real - floor))
            if not (np.abs(np.expm1(coarse - log_m)) * scale > _SETTLED).any():
                break
        return log_m

    def _integrand(
        self, u: np.ndarray, v: np.ndarray | None, x: np.ndarray, paths: _Paths
    ) -> tuple[np.ndarray, np.ndarray]:
        """log(phi dx) and u Y(x) - v Y(-x)."""
        sigma = self.noise_multiplier
        z, turn = paths.at(x)
        log_weight = np.log(turn) - 0.5 * (z / sigma) ** 2 - math.log(sigma * math.sqrt(2 * math.pi))
        exponent = u[:, None] * self._log_ratio(z)
        return log_weight, exponent if v is None else exponent - v[:, None] * self._log_ratio(-z)

    def _log_ratio(self, x: np.ndarray) -> np.ndarray:
        """Y(x) on the sheet that continues the real line, below the branch point or to the right of it."""
        q = self.sampling_rate
        a = (2 * x - 1) / (2 * self.noise_multiplier**2)
        odds = a + math.log(q) - math.log1p(-q)
        rising = odds.real > 0
        small = np.exp(np.where(rising, -odds, odds))
        # log(1 - q) + log(1 + e^odds), except that at small q and a the two nearly cancel
        near = np.abs(small) < 0.5
        direct = log1p(q * np.expm1(np.where(near & ~rising, a, 0)))
        falling = np.where(near, direct, math.log1p(-q) + log1p(small))
        return np.where(rising, math.log(q) + a + log1p(small), falling)

    def _best_paths(self, u: np.ndarray, v: np.ndarray | None, x: np.ndarray) -> tuple[_Paths, int, int]:
        """The best path per row and the range of x that counts."""
        candidates = self._candidates(u, v)
        best, chosen = np.full(len(u), math.inf), candidates[0]
        profile = np.empty((len(u), len(x)))
        for paths in candidates:
            log_weight, exponent = self._integrand(u, v, x, paths)
            modulus = (log_weight + exponent).real
            better = modulus.max(axis=1) < best
            best, profile = np.where(better, modulus.max(axis=1), best), np.where(better[:, None], modulus, profile)
            chosen = chosen.where(better, paths)
        counts = np.flatnonzero((profile > best[:, None] - _DEEP).any(axis=0))
        return chosen, max(0, int(counts[0]) - 1), int(counts[-1]) + 2

    def _candidates(self, u: np.ndarray, v: np.ndarray | None) -> list[_Paths]:
        sigma, q = self.noise_multiplier, self.sampling_rate
        ceiling = np.minimum(u.imag + (0 if v is None else v.imag), 0.9 * math.pi * sigma**2)
        softness = 0.5 * min(sigma, sigma**2)
        start = 0.5 + sigma**2 * (math.log1p(-q) - math.log(q)) + 2 * softness
        climbs = (False, True) if v is None and (u.real > start).any() else (False,)
        found = []
        for height in (fraction * ceiling for fraction in _HEIGHTS):
            for climb in climbs:
                ahead = np.maximum(u.real - start, 1e-3)
                slope = np.where(u.real > start, np.clip((u.imag - height) / ahead, 0, 3), 0) * climb
                found.append(_Paths(height=height, slope=slope, start=start, stop=start + ahead, softness=softness))
        return found


def log_mean_exp(log_weight: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """log sum_j weight_j e^exponent_j per row, the weights of each row summing to one.

    After many steps every moment is close to 1 and its logarithm must keep its relative accuracy: sum
    e^exponent - 1 there, and plain exponentials where the moment is small or would overflow, or where the weights
    are complex and only their sum is one.
    """
    weight = np.exp(log_weight)
    with np.errstate(over="ignore", invalid="ignore"):
        excess = (weight * np.expm1(exponent)).sum(axis=1)
        near_one = log1p(excess)
    accurate = (exponent.real.max(axis=1) < 300) & (np.abs(weight).sum(axis=1) < 10) & (np.abs(1 + excess) > 0.1)
    total = log_weight + exponent
    top = total.real.max(axis=1)
    with np.errstate(divide="ignore"):
        plain = np.log(np.exp(total - top[:, None]).sum(axis=1)) + top
    return np.where(accurate, near_one, plain)


def log1p(z: np.ndarray) -> np.ndarray:
    """log(1 + z) for complex z, accurate for small z (numpy's loses the real part)."""
    a, b = z.real, z.imag
    with np.errstate(divide="ignore", invalid="ignore"):
        return 0.5 * np.log1p(a * (2 + a) + b * b) + 1j * np.arctan2(b, 1 + a)
