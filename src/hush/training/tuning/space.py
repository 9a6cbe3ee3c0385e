"""What a private search searches: settings that are drawn at random, always from the same law."""

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

Settings = dict[str, Any]

_MOST = 1000


@dataclass(frozen=True, slots=True)
class Range(ABC):
    """Numbers between two ends. What a run costs must not depend on them: `cost` does not get to see them.

    Attributes:
        low: The smallest number.
        high: The largest.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        """Check the ends."""
        self._check()
        if not -math.inf < self.low < self.high < math.inf:
            raise InvalidArgument("low", self.low, f"a finite number below high={self.high}")

    def draw(self, source: RandomSource) -> float:
        """Draw one number."""
        number = self._at((source.word() >> 11) * 2.0**-53)
        return min(max(number, self.low), self.high)

    def _check(self) -> None:
        for name in ("low", "high"):
            value = getattr(self, name)
            if isinstance(value, bool):
                raise InvalidArgument(name, value, "a number")
            check_instance(name, value, (int, float))

    @abstractmethod
    def _at(self, share: float) -> float:
        """Return what lies at a share of the way."""


@dataclass(frozen=True, slots=True)
class UniformRange(Range):
    """Numbers between two ends, all equally likely."""

    def _at(self, share: float) -> float:
        return self.low + share * (self.high - self.low)


@dataclass(frozen=True, slots=True)
class LogRange(Range):
    """Positive numbers between two ends, whose logarithms are equally likely: for rates and scales."""

    def _check(self) -> None:
        check_positive("low", self.low)
        check_positive("high", self.high)

    def _at(self, share: float) -> float:
        return math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))


@dataclass(frozen=True, slots=True)
class Space:
    """A law of settings: one of the ``listed`` ones, and a number from every range.

    Attributes:
        listed: All combinations that a run's cost may depend on; one of them is drawn, all equally likely.
        ranges: By name, the numbers that it does not depend on.
    """

    listed: tuple[Settings, ...]
    ranges: Mapping[str, Range]

    def draw(self, source: RandomSource) -> tuple[int, Settings]:
        """Draw settings; return which of the listed ones they are, and all of them, as a copy."""
        index = int(uniform_below(source, len(self.listed), 1)[0])
        settings = copy.deepcopy(self.listed[index])
        for name, numbers in self.ranges.items():
            settings[name] = numbers.draw(source)
        return index, settings


def as_space(space: Any) -> Space:
    """Return a space: of a list of settings, or of the values or the range of each setting."""
    if isinstance(space, Space):
        return space
    if isinstance(space, Mapping):
        return _product(space)
    if (
        not isinstance(space, Sequence)
        or isinstance(space, (str, bytes))
        or not all(isinstance(one, Mapping) for one in space)
    ):
        raise InvalidArgument(
            "space",
            type(space).__name__,
            "a list of settings, or a mapping from their names to values",
            'Such as {"learning_rate": LogRange(0.1, 10), "batch_size": [256, 1024]}',
        )
    _check_size(len(space))
    for one in space:
        _check_names(one)
    return Space(tuple(copy.deepcopy(dict(one)) for one in space), {})


def _product(space: Mapping[Any, Any]) -> Space:
    _check_names(space)
    ranges = {name: values for name, values in space.items() if isinstance(values, Range)}
    choices = {name: values for name, values in space.items() if not isinstance(values, Range)}
    for name, values in choices.items():
        if not isinstance(values, (list, tuple)) or not values:
            raise InvalidArgument(
                "space", name, "a list of values or a range for each name", "Put a single value in a list"
            )
    _check_size(math.prod(len(values) for values in choices.values()) if space else 0)
    combined = product(*choices.values())
    return Space(tuple(copy.deepcopy(dict(zip(choices, values, strict=True))) for values in combined), ranges)


def _check_names(settings: Mapping[Any, Any]) -> None:
    for name in settings:
        check_instance("space", name, str, "Settings have names")


def _check_size(count: int) -> None:
    if not 1 <= count <= _MOST:
        raise InvalidArgument(
            "space",
            f"{count} combinations",
            f"between 1 and {_MOST}",
            "What the cost does not depend on may be a LogRange or a UniformRange",
        )
