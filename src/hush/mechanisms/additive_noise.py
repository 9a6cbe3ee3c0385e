"""The common part of all additive noise: values of a public size, accuracy, and the grid.

value     any numbers: NaN counts as 0, infinity as the largest number
grid      rounded to multiples of a power of two, which adds at most one step to the sensitivity
noise     an exact integer sampler, whose scale covers the sensitivity and that step
release   value plus noise, in integers, times the grid's spacing
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.accounting import events
from hush.errors import InvalidArgument, Unsupported, check_confidence
from hush.guarantee import Relation
from hush.mechanisms.mechanism import Mechanism, Release
from hush.numerics import as_floats, quiet_numpy
from hush.randomness import Grid, RandomSource, source_or_default


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise(Mechanism):
    """Base of the mechanisms that add noise to ``size`` numbers."""

    size: int = 1

    @abstractmethod
    def _noisy(self, value: Any, source: RandomSource) -> Any:
        """Return the value with noise."""

    @abstractmethod
    def _tail(self, probability: float) -> float:
        """Return a bound that one coordinate's error exceeds with at most this probability."""

    @quiet_numpy
    def release(self, value: Any, source: RandomSource | None = None) -> Release[Any]:
        """Return the value with noise.

        Args:
            value: A number, or an array of ``size`` numbers. NaN counts as 0, infinity as the largest number: no value
                raises an exception.
            source: The random bits; by default the process's own source.

        Returns:
            A release whose value is a number for a number, and an array for an array.
        """
        random_source = source_or_default(source)
        return self._released(self._noisy(value, random_source), random_source)

    def accuracy(self, confidence: float = 0.95) -> float:
        """Return a bound that, with this confidence, no coordinate's error exceeds."""
        # A union bound over the coordinates.
        return self._tail((1 - check_confidence("confidence", confidence)) / self.size)

    def interval(self, release: Release[Any], confidence: float = 0.95) -> tuple[Any, Any]:
        """Return the confidence interval around a released value, for all coordinates together."""
        if release.is_processed:
            raise Unsupported(
                "the interval of a release after map: the noise is not that of the value",
                "Take the interval of the release first, and map its ends",
            )
        margin = self.accuracy(confidence)
        return release.value - margin, release.value + margin

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        if math.prod(shape) != self.size:
            # The noise was scaled for ``size`` coordinates. Shapes are public, so refusing one reveals nothing.
            raise InvalidArgument("value.shape", shape, f"{self.size} numbers, as configured", "Pass size= to change")


@dataclass(frozen=True, kw_only=True)
class GridNoise(AdditiveNoise):
    """Base of the mechanisms that add floored continuous noise, on multiples of a power of two near scale / 2^40."""

    noise_scale: float = field(init=False, repr=False, compare=False)
    _grid: Grid = field(init=False, repr=False, compare=False)

    def _noisy(self, value: Any, source: RandomSource) -> Any:
        if type(value) is float and self.size == 1:  # the common case, without NumPy's overhead
            # An integer plus an integer, then one product with a power of two: nothing is rounded before the noise is
            # in.
            return (self._grid.integer(value) + int(self._draw(source)[0])) * self._grid.spacing
        is_scalar = isinstance(value, (float, int))
        exact = as_floats("value", value)
        self._check_shape(exact.shape)
        # As many draws as coordinates, whatever they are: the stream of random bits does not depend on the data.
        noise = self._draw(source).reshape(exact.shape)
        released = self._grid.real(self._grid.integers(exact) + noise)
        return float(released) if is_scalar or exact.ndim == 0 else released

    @abstractmethod
    def _draw(self, source: RandomSource) -> NDArray[np.int64]:
        """Return noise for every coordinate, in multiples of the grid's spacing."""


def noise_event(noise: events.Event, relation: Relation) -> events.Event:
    """Return the event of noise that is stated relative to how far one change of the data moves the value.

    For adding and removing, that is what an event of noise states. Under other relations the two differ: see
    `PerChangeEvent`.
    """
    return noise if relation is Relation.ADD_OR_REMOVE else events.PerChangeEvent(noise)


def norm_assumption(norm: str, sensitivity: float) -> tuple[str, ...]:
    """Return the assumption that noise for a norm makes about the value, as text for the guarantee."""
    return (f"between neighbours the value moves by at most {sensitivity:.6g} in {norm} norm",)
