"""Laplace noise on a metric scale: points on a line, in the plane or in space, with noise that falls with distance.

point    rounded to a lattice whose step is about 2^-40 of the noise, which adds to every distance
noise    on the lattice, with probability proportional to e^(-epsilon |noise|), exactly: discrete Laplace noise in each
         coordinate, accepted with the ratio of the two
release  point plus noise, in integers, times the step
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from hush.errors import InvalidArgument, check_confidence, check_count, check_positive
from hush.numerics import as_floats, quiet_numpy, round_up
from hush.randomness import (
    ExactInterval,
    Grid,
    RandomSource,
    assumptions_of,
    discrete_laplace,
    exp_interval,
    flip,
    source_or_default,
)
from hush.stability.metric_guarantee import MetricGuarantee

_MOST_DIMENSIONS = 3  # beyond it, proposals are rarely accepted
_ONE_RELEASE = "each point is released once"


@dataclass(frozen=True, slots=True)
class MetricRelease:
    """Points with noise, and their guarantee.

    >>> MetricRelease(np.zeros((1, 2)), MetricLaplace(epsilon_per_unit=1.0).guarantee()).value.shape
    (1, 2)

    Attributes:
        value: One noisy point per row.
        guarantee: The guarantee of each point.
    """

    value: NDArray[np.float64]
    guarantee: MetricGuarantee


@dataclass(frozen=True, kw_only=True)
class MetricLaplace:
    """Noise that hides a point among those nearby: geo-indistinguishability in the plane.

    Each row is the point of another person, such as a place in metres, or features in which people are to be treated
    alike. The density of the noise falls by e^epsilon_per_unit per unit of Euclidean distance. Use it where a point
    cannot be hidden among all points, because nothing would be left, and is to be hidden among those around it. Read as
    individual fairness: decisions by the noisy points treat similar people alike.

    >>> from hush.randomness import TestSource
    >>> mechanism = MetricLaplace(epsilon_per_unit=math.log(4) / 200, unit="m")  # a factor of 4 at 200 m
    >>> places = np.array([[0.0, 0.0], [1500.0, -300.0]])
    >>> mechanism.release(places, TestSource(1)).value.shape, round(mechanism.accuracy())
    ((2, 2), 684)

    Args:
        epsilon_per_unit: The logarithm of the factor per unit of distance.
        dimensions: The number of coordinates of a point: 1, 2 or 3.
        unit: The unit of the coordinates, in words.

    Guarantee:
        Metric privacy (d-privacy) for the Euclidean metric: see `MetricGuarantee`. It is no ordinary differential
        privacy: no accountant, filter or ledger accepts it, and there is no ``budget``.

    Assumes:
        Each point is released once (the caller's duty: compose `MetricGuarantee` otherwise; a person's path of many
        points is not hidden). The metric is that of the coordinates, so project places from degrees to metres first
        (the caller's duty). NaN counts as 0 (checked here).

    References:
        Andres, Bordenabe, Chatzikokolakis & Palamidessi 2013 (planar Laplace noise); Chatzikokolakis, Andres, Bordenabe
        & Palamidessi 2013 (d-privacy). Variant: the noise is discrete and sampled exactly, and what rounding adds to
        distances is stated, where theirs is a continuous density with a correction for rounding.
    """

    epsilon_per_unit: float
    dimensions: int = 2
    unit: str = "unit"
    noise_scale: float = field(init=False, repr=False, compare=False)
    _grid: Grid = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        scale = round_up(1 / check_positive("epsilon_per_unit", self.epsilon_per_unit))
        if not check_count("dimensions", self.dimensions) <= _MOST_DIMENSIONS:
            raise InvalidArgument("dimensions", self.dimensions, f"at most {_MOST_DIMENSIONS}")
        object.__setattr__(self, "noise_scale", scale)
        object.__setattr__(self, "_grid", Grid.for_scale(scale))
        self.guarantee()  # checks the unit

    def guarantee(self, source: RandomSource | None = None) -> MetricGuarantee:
        """Return the guarantee of each point."""
        return MetricGuarantee(
            epsilon_per_unit=self.epsilon_per_unit,
            metric="Euclidean distance",
            unit=self.unit,
            # Each coordinate is rounded by at most half a step, for both of two points.
            resolution=round_up(math.sqrt(self.dimensions)) * self._grid.spacing,
            assumptions=(_ONE_RELEASE, *assumptions_of(source_or_default(source))),
        )

    @quiet_numpy
    def release(self, points: Any, source: RandomSource | None = None) -> MetricRelease:
        """Return each point with noise.

        Args:
            points: One point per row. NaN counts as 0, infinity as the largest number.
            source: The random bits; by default the process's own source.
        """
        exact = as_floats("points", points)
        if exact.ndim != 2 or exact.shape[1] != self.dimensions:
            raise InvalidArgument("points.shape", exact.shape, f"(rows, {self.dimensions})", "Shapes are public")
        random_source = source_or_default(source)
        noise = metric_noise(random_source, self.noise_scale / self._grid.spacing, len(exact), self.dimensions)
        # Both are integers, and their sum is rounded once: a function of what the exact mechanism releases.
        released = self._grid.real(self._grid.integers(exact) + noise)
        return MetricRelease(released, self.guarantee(random_source))

    def accuracy(self, confidence: float = 0.95) -> float:
        """Return a distance that, with this confidence, a noisy point does not exceed."""
        failure = 1 - check_confidence("confidence", confidence)
        # The distance over the scale has a Gamma distribution; the lattice and the rounding are within 4 steps.
        quantile = float(gammainccinv(self.dimensions, failure * (1 - 1e-9)))
        return quantile * self.noise_scale + 4 * self._grid.spacing


def metric_noise(source: RandomSource, scale: float, size: int, dimensions: int) -> NDArray[np.int64]:
    """Return rows of integers k, with probabilities proportional to e^(-|k| / scale) in Euclidean norm, exactly."""
    wider = _wider(scale, dimensions)
    accepted = np.empty((0, dimensions), dtype=np.int64)
    while len(accepted) < size:
        count = (size - len(accepted)) * 7 // 4 + 8
        proposals = discrete_laplace(source, wider, count * dimensions).reshape(count, dimensions)
        kept = proposals if dimensions == 1 else proposals[_accepted(source, proposals, scale, wider)]
        accepted = np.concatenate([accepted, kept])
    return accepted[:size]


def _wider(scale: float, dimensions: int) -> float:
    """Return a scale of at least sqrt(dimensions) times ``scale``: |k|_1 / wider <= |k|_2 / scale for every k."""
    if dimensions == 1:
        return scale
    wider = math.sqrt(dimensions) * scale
    while Fraction(wider) ** 2 < dimensions * Fraction(scale) ** 2:
        wider = math.nextafter(wider, math.inf)
    return wider


def _accepted(source: RandomSource, proposals: NDArray[np.int64], scale: float, wider: float) -> NDArray[np.bool_]:
    """Accept proposals k with probability e^-(|k|_2 / scale - |k|_1 / wider), exactly."""
    floats = proposals.astype(np.float64)
    exponents = np.sqrt((floats * floats).sum(axis=1)) / scale - np.abs(floats).sum(axis=1) / wider

    def enclosure(index: int, digits: int) -> ExactInterval:
        row = [abs(number) for number in proposals[index].tolist()]
        if not any(row):
            return Fraction(1), Fraction(1)
        # The root of an integer, between two fractions.
        unit = 10**digits
        root = math.isqrt(sum(number * number for number in row) * unit * unit)
        known = Fraction(sum(row)) / Fraction(wider)
        low, high = (max(Fraction(end, unit) / Fraction(scale) - known, Fraction(0)) for end in (root, root + 1))
        return exp_interval((-high, -low), digits)

    return flip(source, np.exp(-np.maximum(exponents, 0.0)), enclosure)
