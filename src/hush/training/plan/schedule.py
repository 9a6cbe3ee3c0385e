"""Schedules: noise, clip norm and batch size that change over a run, as part of its plan.

A schedule is public and fixed in advance. Noise is always a multiple of the clip norm of its step: the two cannot drift
apart.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

from hush.errors import InvalidArgument, check_count, check_instance, check_positive

_STAIRS = 64  # of a ramp: each is an event of its own, and a thousand of them would take long to account for


class Curve(ABC):
    """By what a number of the plan is multiplied in a step."""

    @abstractmethod
    def at(self, step: int) -> float:
        """Return the factor of a step."""


@dataclass(frozen=True, slots=True)
class PiecewiseCurve(Curve):
    """Constant from each of some steps on: ``PiecewiseCurve({0: 1.0, 500: 2.0})``."""

    starts: tuple[tuple[int, float], ...]

    def __init__(self, starts: Mapping[int, float]) -> None:
        """Take factors by the step from which they hold."""
        check_instance("starts", starts, Mapping, "Such as {0: 1.0, 500: 2.0}")
        pairs = sorted(
            (check_count("step", step, minimum=0), check_positive("factor", f)) for step, f in starts.items()
        )
        if not pairs or pairs[0][0] != 0:
            raise InvalidArgument("starts", dict(starts), "factors from step 0 on")
        object.__setattr__(self, "starts", tuple(pairs))

    def at(self, step: int) -> float:
        return next(factor for start, factor in reversed(self.starts) if start <= step)


@dataclass(frozen=True, slots=True)
class _Ramp(Curve):
    start: float
    end: float
    num_steps: int

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_positive("start", self.start)
        check_positive("end", self.end)
        check_count("num_steps", self.num_steps)

    def _share(self, step: int) -> float:
        return min(step * _STAIRS // self.num_steps, _STAIRS) / _STAIRS


@dataclass(frozen=True, slots=True)
class LinearCurve(_Ramp):
    """From ``start`` to ``end`` within so many steps, in 64 stairs, and ``end`` from there on."""

    def at(self, step: int) -> float:
        return self.start + (self.end - self.start) * self._share(step)


@dataclass(frozen=True, slots=True)
class ExponentialCurve(_Ramp):
    """The same by equal ratios."""

    def at(self, step: int) -> float:
        return float(self.start * (self.end / self.start) ** self._share(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How noise multiplier, clip norm and batch size change over the steps, each relative to the plan's number.

    The noise on a sum is noise multiplier times clip norm: both move it.
    """

    noise_multiplier: Curve | None = None
    clip_norm: Curve | None = None
    batch_size: Curve | None = None

    def __post_init__(self) -> None:
        """Check that they are curves."""
        for name in ("noise_multiplier", "clip_norm", "batch_size"):
            if (curve := getattr(self, name)) is not None:
                check_instance(name, curve, Curve, "Such as Piecewise({0: 1.0, 500: 2.0})")

    def factor(self, name: str, step: int) -> float:
        """Return by what one of the three is multiplied in a step."""
        curve: Curve | None = getattr(self, name)
        return 1.0 if curve is None else curve.at(step)
