"""Null distributions with their noise: draws of noisy totals, and p-values that count them.

A p-value compares the statistic with draws of the same statistic from a model of the null hypothesis: rows at random,
totals, and then the very noise that the release had. What the model does not fix (group sizes, a common mean, a
variance) is private, too, and is estimated from the noisy totals. Because an estimate can be wrong, a p-value is the
largest over several settings of these nuisances (Berger & Boos 1994, without their correction term): the estimate, and
values further out than its noise is likely to go. And a p-value counts the observation itself, (1 + hits) / (1 +
draws), so that finitely many draws cannot make it too small (Davison & Hinkley 1997).

Draws protect nobody, as they depend on nothing but released numbers. They come from NumPy's generator, with a seed from
the release's source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.statistics.noise.release import LaplaceNoise, NoisePlan

Floats = NDArray[np.float64]

_POINTS = 5
_MAX_NUMBERS = 1 << 22  # that are drawn at once: 32 MiB, of which a statistic needs about ten times as much


@dataclass(frozen=True, slots=True)
class NoiseModel:
    """The noise of a release, to be drawn again in simulations.

    Attributes:
        plan: The noise, of one block.
        unit: The size of one integer step, in rows.
    """

    plan: NoisePlan
    unit: float

    @property
    def variance(self) -> float:
        """The variance of the noise on each total, in squared rows."""
        scale = self.plan.block_scales[0]
        if not isinstance(self.plan.noise, LaplaceNoise):
            return float(scale**2 * self.unit**2)
        if not self.plan.blocks[0].whole:
            return float(2 * scale**2 * self.unit**2)
        ratio = np.exp(-1 / scale)  # the discrete Laplace distribution
        return float(2 * ratio / (1 - ratio) ** 2)

    def draw(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Return fresh noise, in rows."""
        scale = self.plan.block_scales[0]
        if not isinstance(self.plan.noise, LaplaceNoise):
            normal = rng.normal(0.0, scale, shape)
            return np.rint(normal) * self.unit
        if self.plan.blocks[0].whole:
            # The difference of two geometric variables is a discrete Laplace variable (Inusah & Kozubowski 2006).
            end = -np.expm1(-1 / scale)
            return (rng.geometric(end, shape) - rng.geometric(end, shape)).astype(np.float64)
        return rng.laplace(0.0, scale * self.unit, shape)


def p_value(
    observed: float,
    nulls: Iterable[Callable[[int, np.random.Generator], Floats]],
    draws: int,
    rng: np.random.Generator,
    *,
    num_totals: int,
) -> float:
    """Return the largest p-value over the settings of the nuisances.

    Args:
        observed: The statistic; larger is further from the null hypothesis.
        nulls: For each setting, a function that draws so many statistics.
        draws: How many statistics to draw.
        rng: The generator.
        num_totals: How many totals a dataset has. Many of them are simulated in parts, so that memory is enough: a
            test that fails here has been paid for.
    """
    part = max(_MAX_NUMBERS // num_totals, 1)
    sizes = [min(part, draws - start) for start in range(0, draws, part)]
    least = observed * (1 - 1e-12)
    hits = [sum(int(np.count_nonzero(null(size, rng) >= least)) for size in sizes) for null in nulls]
    return (1 + max(hits)) / (1 + draws)


@dataclass(frozen=True, slots=True)
class RowValues:
    """A distribution on [0, 1] with few values, from which sums of any number of rows are drawn exactly.

    Attributes:
        points: The values.
        chances: Their probabilities.
    """

    points: Floats
    chances: Floats

    @classmethod
    def coin(cls, mean: float) -> RowValues:
        """Return the distribution of a value that is 0 or 1."""
        return cls(np.array([0.0, 1.0]), np.array([1 - mean, mean]))

    @classmethod
    def beta(cls, mean: float, variance: float) -> RowValues:
        """Return the Gauss-Jacobi points of a beta distribution: five values that share its first nine moments.

        So sums have the skewness and the tails of sums of beta variables, also where the central limit theorem is
        far from true: few rows, or values that are nearly always 0.

        >>> uniform = RowValues.beta(0.5, 1 / 12)
        >>> float(uniform.chances @ uniform.points**4).__round__(6)
        0.2

        Args:
            mean: The mean.
            variance: The variance; from mean (1 - mean) on, the values are 0 and 1.

        References:
            Golub & Welsch 1969.
        """
        mean = min(max(mean, 0.0), 1.0)
        largest = mean * (1 - mean)
        if not largest > 0 or variance >= largest * (1 - 1e-6):
            return cls.coin(mean)
        total = min(largest / max(variance, largest * 1e-6) - 1, 1e6)  # a + b of the beta distribution
        a, b = mean * total - 1, (1 - mean) * total - 1
        n = np.arange(1, _POINTS)
        twice = 2 * n + a + b
        diagonal = np.concatenate([[(a - b) / (a + b + 2)], (a * a - b * b) / (twice * (twice + 2))])
        beside = np.empty(_POINTS - 1)
        beside[0] = 4 * (1 + a) * (1 + b) / ((2 + a + b) ** 2 * (3 + a + b))
        later = n[1:]
        beside[1:] = 4 * later * (later + a) * (later + b) * (later + a + b)
        beside[1:] /= twice[1:] ** 2 * (twice[1:] ** 2 - 1)
        roots = np.sqrt(np.maximum(beside, 0.0))
        values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(roots, 1) + np.diag(roots, -1))
        chances = vectors[0] ** 2
        return cls(np.clip((1 + values) / 2, 0.0, 1.0), chances / chances.sum())

    def weights(self, columns: int) -> Floats:
        """Return the weights of each value: (1 - s, s), or ((1 - s)^2, 2 s (1 - s), s^2)."""
        s = self.points
        return np.stack([1 - s, s] if columns == 2 else [(1 - s) ** 2, 2 * s * (1 - s), s**2], axis=-1)


def totals_of(size: int, chances: Floats, weights: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the total of so many rows, each of which is one of a few kinds.

    Args:
        size: The number of rows.
        chances: The probability of each kind.
        weights: What a row of each kind adds to the totals.
        draws: How many totals to draw.
        rng: The generator.
    """
    return np.asarray(rng.multinomial(size, chances, draws) @ weights)
