"""The search space: settings that are drawn at random, independently and always from the same distribution."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from hush.errors import InvalidArgument, check_instance, check_positive
from hush.randomness import RandomSource, uniform_below

Hyperparameters = dict[str, Any]

_MAX_COMBINATIONS = 1000


@dataclass(frozen=True, slots=True)
class Range(ABC):
    """Numbers between two ends: `uniform` or `logarithmic`. The cost of a run must not depend on them.

    >>> from hush.randomness import TestSource
    >>> 0.0 <= Range.uniform(0.0, 0.5).draw(TestSource(0)) <= 0.5
    True

    Attributes:
        low: The smallest number.
        high: The largest number.
    """

    low: float
    high: float

    @staticmethod
    def uniform(low: float, high: float) -> Range:
        """Return numbers that are uniformly distributed."""
        return UniformRange(low, high)

    @staticmethod
    def logarithmic(low: float, high: float) -> Range:
        """Return positive numbers whose logarithms are uniformly distributed: for rates and scales.

        >>> from hush.randomness import TestSource
        >>> 0.01 <= Range.logarithmic(0.01, 10.0).draw(TestSource(0)) <= 10.0
        True
        """
        return LogRange(low, high)

    def __post_init__(self) -> None:
        """Check the ends."""
        self._check_ends()
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidArgument("low", self.low, f"a finite number below high={self.high}")

    def draw(self, source: RandomSource) -> float:
        """Draw a number."""
        number = self._at((source.word() >> 11) * 2.0**-53)  # 53 random bits: a uniform float in [0, 1)
        return min(max(number, self.low), self.high)

    def _check_ends(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool):
                raise InvalidArgument(name, value, "a number")
            check_instance(name, value, (int, float))

    @abstractmethod
    def _at(self, fraction: float) -> float:
        """Return the number at a fraction of the way from low to high."""


@dataclass(frozen=True, slots=True)
class UniformRange(Range):
    """Numbers between two ends, uniformly distributed."""

    def _at(self, fraction: float) -> float:
        return self.low + fraction * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class LogRange(Range):
    """Positive numbers between two ends whose logarithms are uniformly distributed."""

    def _check_ends(self) -> None:
        check_positive("low", self.low)
        check_positive("high", self.high)

    def _at(self, fraction: float) -> float:
        return math.exp(math.log(self.low) + fraction * (math.log(self.high) - math.log(self.low)))


@dataclass(frozen=True, slots=True)
class Space:
    """A distribution of settings: one of the ``listed`` combinations, and a number from every range.

    Attributes:
        listed: All combinations that the cost of a run may depend on. One is drawn, uniformly.
        ranges: By name, the numbers that the cost must not depend on.
    """

    listed: tuple[Hyperparameters, ...]
    ranges: Mapping[str, Range]

    def draw(self, source: RandomSource) -> tuple[int, Hyperparameters]:
        """Draw settings. Return the index of the listed combination, and a copy of all settings."""
        index = int(uniform_below(source, len(self.listed), 1)[0])
        settings = copy.deepcopy(self.listed[index])
        for name, numbers in self.ranges.items():
            settings[name] = numbers.draw(source)
        return index, settings


def as_space(space: Any) -> Space:
    """Return the space of a list of settings, or of a mapping from names to lists of values and ranges."""
    if isinstance(space, Space):
        return space
    if isinstance(space, Mapping):
        return _product(space)
    if (
        not isinstance(space, Sequence)
        or isinstance(space, (str, bytes))
        or not all(isinstance(settings, Mapping) for settings in space)
    ):
        raise InvalidArgument(
            "space",
            type(space).__name__,
            "a list of settings, or a mapping from names to values",
            'Such as {"learning_rate": LogRange(0.1, 10), "batch_size": [256, 1024]}',
        )
    _check_size(len(space))
    for settings in space:
        _check_names(settings)
    return Space(tuple(copy.deepcopy(dict(settings)) for settings in space), {})


def _product(space: Mapping[Any, Any]) -> Space:
    """Return all combinations of the listed values, next to the ranges."""
    _check_names(space)
    ranges = {name: values for name, values in space.items() if isinstance(values, Range)}
    choices = {name: values for name, values in space.items() if not isinstance(values, Range)}
    for name, values in choices.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise InvalidArgument(
                "space", name, "a list of values or a range for each name", "Put a single value in a list"
            )
    _check_size(math.prod(len(values) for values in choices.values()) if space else 0)
    combinations = product(*choices.values())
    return Space(tuple(copy.deepcopy(dict(zip(choices, values, strict=True))) for values in combinations), ranges)


def _check_names(settings: Mapping[Any, Any]) -> None:
    for name in settings:
        check_instance("space", name, str, "Every setting has a name")


def _check_size(count: int) -> None:
    if not 1 <= count <= _MAX_COMBINATIONS:
        raise InvalidArgument(
            "space",
            f"{count} combinations",
            f"between 1 and {_MAX_COMBINATIONS}",
            "Use a LogRange or a UniformRange for numbers that the cost does not depend on",
        )
