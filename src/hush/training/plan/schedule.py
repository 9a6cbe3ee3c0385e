"""Schedules: noise multiplier, clip norm and batch size that change over the steps of a run.

A schedule is part of the plan, so it is public and fixed in advance. It holds factors on the plan's numbers. The noise
on a sum is always noise multiplier times clip norm of the same step, so a schedule of clip norms needs no extra
accounting.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from hush.errors import InvalidArgument, check_count, check_instance, check_positive

# A ramp is a staircase of this many levels. Every level is a separate event, and a thousand of them would take long
# to account for.
_LEVELS = 64


class Curve(ABC):
    """A factor for each step, by which a number of the plan is multiplied: `linear`, `exponential` or `piecewise`.

    >>> curve = Curve.piecewise({0: 1.0, 500: 2.0})
    >>> curve.at(499), curve.at(500)
    (1.0, 2.0)
    """

    @staticmethod
    def linear(start: float, end: float, *, num_steps: int) -> Curve:
        """Return a factor that moves from ``start`` to ``end`` in 64 equal differences, and then stays there."""
        return LinearCurve(start, end, num_steps)

    @staticmethod
    def exponential(start: float, end: float, *, num_steps: int) -> Curve:
        """Return a factor that moves from ``start`` to ``end`` in 64 equal ratios, and then stays there."""
        return ExponentialCurve(start, end, num_steps)

    @staticmethod
    def piecewise(starts: Mapping[int, float]) -> Curve:
        """Return a constant factor from each of the listed steps on."""
        return PiecewiseCurve(starts)

    @abstractmethod
    def at(self, step: int) -> float:
        """Return the factor of a step, counted from 0."""


@dataclass(frozen=True, slots=True)
class PiecewiseCurve(Curve):
    """A constant factor from each of the listed steps on.

    >>> curve = PiecewiseCurve({0: 1.0, 500: 2.0})
    >>> curve.at(499), curve.at(500)
    (1.0, 2.0)
    """

    starts: tuple[tuple[int, float], ...]

    def __init__(self, starts: Mapping[int, float]) -> None:
        """Take factors by the step from which they hold."""
        check_instance("starts", starts, Mapping, "Such as {0: 1.0, 500: 2.0}")
        pairs = sorted(
            (check_count("step", step, minimum=0), check_positive("factor", factor)) for step, factor in starts.items()
        )
        if not pairs or pairs[0][0] != 0:
            raise InvalidArgument("starts", dict(starts), "factors from step 0 on")
        object.__setattr__(self, "starts", tuple(pairs))

    def at(self, step: int) -> float:
        return next(factor for start, factor in reversed(self.starts) if start <= step)


@dataclass(frozen=True, slots=True)
class _Ramp(Curve):
    """A move from ``start`` to ``end`` within ``num_steps`` steps."""

    start: float
    end: float
    num_steps: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("start", self.start)
        check_positive("end", self.end)
        check_count("num_steps", self.num_steps)

    def _progress(self, step: int) -> float:
        """Return the fraction of the way that is done, from 0 to 1, rounded down to a multiple of 1/64."""
        return min(step * _LEVELS // self.num_steps, _LEVELS) / _LEVELS


@dataclass(frozen=True, slots=True)
class LinearCurve(_Ramp):
    """A factor that moves from ``start`` to ``end`` in 64 equal differences, and then stays there.

    >>> curve = LinearCurve(start=1.0, end=2.0, num_steps=640)
    >>> curve.at(0), curve.at(320), curve.at(10_000)
    (1.0, 1.5, 2.0)
    """

    def at(self, step: int) -> float:
        return self.start + (self.end - self.start) * self._progress(step)


@dataclass(frozen=True, slots=True)
class ExponentialCurve(_Ramp):
    """A factor that moves from ``start`` to ``end`` in 64 equal ratios, and then stays there.

    >>> curve = ExponentialCurve(start=1.0, end=4.0, num_steps=640)
    >>> curve.at(0), curve.at(320), curve.at(10_000)
    (1.0, 2.0, 4.0)
    """

    def at(self, step: int) -> float:
        # start (end / start)^p, for p from 0 to 1: a straight line in the logarithm.
        return float(self.start * (self.end / self.start) ** self._progress(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Curves for the noise multiplier, the clip norm and the batch size, relative to the plan's numbers.

    Attributes:
        noise_multiplier: Factors on the noise multiplier; None leaves it constant.
        clip_norm: Factors on the clip norm. They scale the noise, too.
        batch_size: Factors on the expected batch size.

    >>> schedule = Schedule(noise_multiplier=Curve.linear(1.0, 0.5, num_steps=100))
    >>> schedule.factor("noise_multiplier", 100), schedule.factor("batch_size", 100)
    (0.5, 1.0)
    """

    noise_multiplier: Curve | None = None
    clip_norm: Curve | None = None
    batch_size: Curve | None = None

    def __post_init__(self) -> None:
        """Check that they are curves."""
        for name in ("noise_multiplier", "clip_norm", "batch_size"):
            if (curve := getattr(self, name)) is not None:
                check_instance(name, curve, Curve, "Such as Curve.piecewise({0: 1.0, 500: 2.0})")

    def factor(self, name: str, step: int) -> float:
        """Return the factor of one of the three numbers in a step."""
        curve: Curve | None = getattr(self, name)
        return 1.0 if curve is None else curve.at(step)
