"""Correlated noise, step by step: y = C^-1 z, with z regenerated from counters and nothing of it in a checkpoint.

Each recursion says how y follows from z, and which matrix C that makes: its coefficients are those that are applied,
in single precision, so that the sensitivity computed from its column is that of the noise that is really added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hush.errors import InvalidArgument, check_count, check_instance
from hush.training.noise.factorisation import Array, inverse, inverse_series
from hush.training.noise.gaussian import gaussian

Single = tuple[float, ...]
Draw = Callable[[int, float], Tensor]  # of a step and a scale: independent noise, new memory each time


def single(values: Iterable[float]) -> Single:
    """Return numbers of single precision, as they will be multiplied with."""
    return tuple(float(np.float32(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Recursion(ABC):
    """How correlated noise follows from independent noise; a value, equal only if the noise is the same.

    Attributes:
        gain: With what the independent noise of the step itself is multiplied: 1 / c_0.
    """

    gain: float

    @property
    def bands(self) -> int | None:
        """From which place on the column of C is zero, if it is so for any number of steps."""
        return None

    @property
    def remembers(self) -> bool:
        """Whether a step needs what earlier steps have left."""
        return True

    @abstractmethod
    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        return inverse_series(self.column(num_steps))

    @abstractmethod
    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Return the correlated noise of a step, and change the memory, empty before the first one, for the next."""


@dataclass(frozen=True, slots=True)
class Bands(Recursion):
    """y_t = gain z_t - sum_j taps_j y_(t-j), for j = 1, ...: C has the bands 1 / gain, taps_1 / gain, ..."""

    taps: Single

    @property
    def bands(self) -> int:
        """One more than there are taps: the diagonal."""
        return 1 + len(self.taps)

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        taps = np.array([1.0, *self.taps])[:num_steps] / self.gain
        return np.concatenate([taps, np.zeros(num_steps - len(taps))])

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        return inverse(self.column(self.bands), num_steps)

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the last y, latest first, and remember this one instead of the oldest."""
        result = draw(step, self.gain)
        for tap, before in zip(self.taps, memory, strict=False):  # fewer, in the first steps
            result.add_(before, alpha=-tap)
        if self.taps:
            oldest = memory.pop() if len(memory) == len(self.taps) else torch.empty_like(result)
            memory.insert(0, oldest.copy_(result))
        return result


@dataclass(frozen=True, slots=True)
class Buffers(Recursion):
    """y_t = gain z_t - sum_i weights_i u_i, where u_i becomes decays_i u_i + y_t: c_k = weights decays^(k-1) / gain."""

    weights: Single
    decays: Single

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        powers = np.array(self.decays)[:, None] ** np.arange(num_steps - 1)
        return np.concatenate([[1.0], np.array(self.weights) @ powers]) / self.gain

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the buffers, and then move them on."""
        result = draw(step, self.gain)
        if not memory:
            memory.extend(torch.zeros_like(result) for _ in self.weights)
        for weight, buffer in zip(self.weights, memory, strict=True):
            result.add_(buffer, alpha=-weight)
        for decay, buffer in zip(self.decays, memory, strict=True):
            buffer.mul_(decay).add_(result)
        return result


@dataclass(frozen=True, slots=True)
class Window(Recursion):
    """y_t = gain z_t + sum_j taps_j z_(t-j), for j = 1, ...: the bands are those of C^-1."""

    taps: Single

    @property
    def remembers(self) -> bool:
        """It does not: what it needs is drawn again."""
        return False

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        return inverse(np.array([self.gain, *self.taps]), num_steps)

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        taps = np.array([self.gain, *self.taps])[:num_steps]
        return np.concatenate([taps, np.zeros(num_steps - len(taps))])

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Add the independent noise of earlier steps, drawn again one at a time: two vectors, whatever the window."""
        result = draw(step, self.gain)
        for lag, tap in enumerate(self.taps[:step], 1):
            result.add_(draw(step - lag, 1.0), alpha=tap)
        return result


class NoiseStream:
    """Correlated noise of unit scale, as a function of the keys and the step: ``stream(step)``.

    With a window, each step draws the independent noise of as many steps anew, and nothing is kept at all. Otherwise a
    step draws once, and keeps a few vectors of the noise's size in memory: the last y of a banded factor, or the
    buffers. They are never stored. A step out of turn, such as the first one after a run was resumed, draws all steps
    before it again, with the same result to the last bit on the same kind of device.

    Keys may change on the way: with ``((0, first), (100, second))`` the independent noise of the steps from 100 on is
    drawn under the second key, and that of the steps before, which it is correlated with, still under the first. So a
    resumed run gets fresh noise, and its mechanism is that of a run which was never interrupted. Of two runs that go on
    from one state, under two new keys, all independent noise since then is independent: together they are as private
    as their common steps and both continuations, composed.

    Assumes:
        A step's noise is used for one sum only (the caller's duty: count the step before using its noise). Keys are
        secret, random, and used for nothing else (the caller's duty).
    """

    def __init__(
        self,
        recursion: Recursion,
        keys: bytes | Sequence[tuple[int, bytes]],
        size: int,
        *,
        num_steps: int,
        device: torch.device | None = None,
    ) -> None:
        """Take the recursion of a factor, one key or from which step on each holds, and the number of elements."""
        check_instance("recursion", recursion, Recursion, "As factor.recursion")
        self._keys = [(0, keys)] if isinstance(keys, bytes) else sorted(keys, key=lambda pair: pair[0])
        if not self._keys or self._keys[0][0] != 0 or len({first for first, _ in self._keys}) != len(self._keys):
            raise InvalidArgument("keys", [first for first, _ in self._keys], "one from step 0 on, and later ones")
        self.recursion, self._size, self._device = recursion, check_count("size", size), device
        self._num_steps = check_count("num_steps", num_steps)
        self._memory: list[Tensor] = []
        self._next = 0  # the step that the memory is for

    def __call__(self, step: int) -> Tensor:
        """Return y of a step, in single precision; the caller may change it."""
        check_count("step", step, minimum=0)
        if not step < self._num_steps:
            raise InvalidArgument("step", step, f"less than the {self._num_steps} steps that are accounted for")
        begin, self._next = self._next, 0  # should this fail half-way, the next call begins anew
        if not self.recursion.remembers:
            return self.recursion.follow(step, self._draw, [])
        if begin == 0 or step < begin:
            self._memory, begin = [], 0
        for each in range(begin, step):
            self.recursion.follow(each, self._draw, self._memory)
        result = self.recursion.follow(step, self._draw, self._memory)
        self._next = step + 1
        return result

    def _draw(self, step: int, scale: float) -> Tensor:
        key = next(key for first, key in reversed(self._keys) if first <= step)
        return gaussian(key, step, self._size, self._device, scale=scale)
