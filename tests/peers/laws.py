"""The two output distributions of a mechanism with one-dimensional noise, as functions of the outcome x.

    removed    P = (1 - q) noise(x) + q noise(x + s), Q = noise(x)
    added      P = noise(x), Q = (1 - q) noise(x) + q noise(x - s)
    replaced   P = (1 - q) noise(x) + q noise(x + s), Q = (1 - q) noise(x) + q noise(x - s)

In all of them the loss log P(x) / Q(x) falls as x grows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import logsumexp

from peers.facts import Row

Function = Callable[[float], float]


@dataclass(frozen=True)
class Noise:
    """A noise distribution: log density (or log mass) and distribution function."""

    log_density: Function
    cdf: Function
    is_discrete: bool = False
    has_atoms: bool = False  # of the loss


@dataclass(frozen=True)
class Law:
    """P and Q, each a mixture of shifted noise: pairs of weight and shift."""

    noise: Noise
    first: tuple[tuple[float, float], ...]
    second: tuple[tuple[float, float], ...]

    def first_cdf(self, x: float) -> float:
        """Return P(X <= x)."""
        return self._cdf(self.first, x)

    def second_cdf(self, x: float) -> float:
        """Return Q(X <= x)."""
        return self._cdf(self.second, x)

    def loss(self, x: float) -> float:
        """Return log P(x) / Q(x)."""
        return self._log_density(self.first, x) - self._log_density(self.second, x)

    def _cdf(self, mixture: tuple[tuple[float, float], ...], x: float) -> float:
        return sum(weight * self.noise.cdf(x + shift) for weight, shift in mixture)

    def _log_density(self, mixture: tuple[tuple[float, float], ...], x: float) -> float:
        logs = [math.log(weight) + self.noise.log_density(x + shift) for weight, shift in mixture]
        return float(logsumexp(logs))


def law(mechanism: str, row: Row) -> Law:
    """Return the law of a mechanism of additive noise under the row's direction."""
    if mechanism == "mixture":
        noise = gaussian(row["stddev"])
        sampled = tuple((w, s) for w, s in zip(row["weights"], row["shifts"], strict=True) if w > 0)
    else:
        noise, rate = NOISE[mechanism](row), row["rate"]
        sampled = tuple((w, s) for w, s in ((1 - rate, 0.0), (rate, row["sensitivity"])) if w > 0)
    opposite = tuple((weight, -shift) for weight, shift in sampled)
    pure = ((1.0, 0.0),)
    first, second = {"add": (pure, opposite), "remove": (sampled, pure), "replace": (sampled, opposite)}[
        row["direction"]
    ]
    return Law(noise, first, second)


def gaussian(stddev: float) -> Noise:
    """Normal noise."""
    return Noise(lambda x: float(stats.norm.logpdf(x, scale=stddev)), lambda x: float(stats.norm.cdf(x, scale=stddev)))


def laplace(scale: float) -> Noise:
    """Laplace noise."""
    return Noise(
        lambda x: -abs(x) / scale - math.log(2 * scale),
        lambda x: float(stats.laplace.cdf(x, scale=scale)),
        has_atoms=True,
    )


def discrete_laplace(exponent: float) -> Noise:
    """Integers with masses proportional to e^(-exponent |x|)."""

    def cdf(x: float) -> float:
        if math.isinf(x):
            return 1.0 if x > 0 else 0.0
        tail = math.exp(-exponent * abs(math.floor(x))) / (1 + math.exp(-exponent))
        return 1 - tail * math.exp(-exponent) if x >= 0 else tail

    return Noise(lambda x: -exponent * abs(x) + math.log(math.tanh(exponent / 2)), cdf, True, True)


def discrete_gaussian(sigma: float) -> Noise:
    """Integers with masses proportional to e^(-x^2 / (2 sigma^2))."""
    reach = math.ceil(60 * sigma)
    points = np.arange(-reach, reach + 1)
    logs = -0.5 * (points / sigma) ** 2
    total = float(logsumexp(logs))
    sums = np.cumsum(np.exp(logs - total))

    def cdf(x: float) -> float:
        return float(sums[int(min(max(math.floor(x), -reach), reach)) + reach]) if math.isfinite(x) else float(x > 0)

    return Noise(lambda x: -0.5 * (x / sigma) ** 2 - total, cdf, True, True)


NOISE: dict[str, Callable[[Row], Noise]] = {
    "gaussian": lambda row: gaussian(row["stddev"]),
    "laplace": lambda row: laplace(row["scale"]),
    "discrete-laplace": lambda row: discrete_laplace(row["exponent"]),
    "discrete-gaussian": lambda row: discrete_gaussian(row["sigma"]),
}
