"""Correlated noise, step by step: y = C^-1 z, with z drawn again from (key, step) and nothing of it in a checkpoint.

A `Recursion` says how y_t follows from z_t and earlier steps, and which matrix C that makes:

`Bands`    C has a few bands; y_t needs the last few y
`Buffers`  C's column is a sum of geometric series; y_t needs one vector per series
`Window`   C^-1 has a few bands; y_t needs the last few z, which are drawn again

A recursion's coefficients are those that are applied, in single precision. So the sensitivity that is computed from its
column is the sensitivity of the noise that is really added. `NoiseStream` runs a recursion over the steps of a run.
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
Draw = Callable[[int, float], Tensor]  # from a step and a scale to independent noise, in new memory each time


def single(values: Iterable[float]) -> Single:
    """Return the numbers rounded to single precision, as torch will apply them."""
    return tuple(float(np.float32(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Recursion(ABC):
    """How correlated noise y follows from independent noise z.

    Recursions compare by value: they are equal only if they make the same noise. A stored run refuses to go on with
    another one.

    Attributes:
        gain: The factor of the step's own independent noise: 1 / c_0, for the first coefficient c_0 of C's column.
    """

    gain: float

    @property
    def bands(self) -> int | None:
        """How many leading coefficients of C's column may differ from 0; None if all may."""
        return None

    @property
    def remembers(self) -> bool:
        """Whether a step needs the memory that earlier steps have left."""
        return True

    @abstractmethod
    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        return inverse_series(self.column(num_steps))

    @abstractmethod
    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Return the correlated noise of a step.

        Args:
            step: The step's number.
            draw: Draws independent noise.
            memory: What earlier steps have left: empty before step 0. It is changed for the next step.
        """


@dataclass(frozen=True, slots=True)
class Bands(Recursion):
    """A banded C: y_t = gain z_t - sum_j taps_j y_(t-j) for j = 1, 2, ...

    The first column of C is (1, taps_1, taps_2, ...) / gain.
    """

    taps: Single

    @property
    def bands(self) -> int:
        """The number of taps, and one more for the diagonal."""
        return 1 + len(self.taps)

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        taps = np.array([1.0, *self.taps])[:num_steps] / self.gain
        return np.concatenate([taps, np.zeros(num_steps - len(taps))])

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        return inverse(self.column(self.bands), num_steps)

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the last y, latest first; this one takes the place of the oldest in memory."""
        result = draw(step, self.gain)
        for tap, earlier in zip(self.taps, memory, strict=False):  # the first steps have fewer before them
            result.add_(earlier, alpha=-tap)
        if self.taps:
            oldest = memory.pop() if len(memory) == len(self.taps) else torch.empty_like(result)
            memory.insert(0, oldest.copy_(result))
        return result


@dataclass(frozen=True, slots=True)
class Buffers(Recursion):
    """A sum of geometric series: y_t = gain z_t - sum_i weights_i u_i, then u_i becomes decays_i u_i + y_t.

    The first column of C is c_0 = 1 / gain and c_k = sum_i weights_i decays_i^(k-1) / gain.
    """

    weights: Single
    decays: Single

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        powers = np.array(self.decays)[:, None] ** np.arange(num_steps - 1)
        return np.concatenate([[1.0], np.array(self.weights) @ powers]) / self.gain

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the buffers, then update them."""
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
    """A banded inverse: y_t = gain z_t + sum_j taps_j z_(t-j) for j = 1, 2, ...

    The first column of C^-1 is (gain, taps_1, taps_2, ...).
    """

    taps: Single

    @property
    def remembers(self) -> bool:
        """False: earlier independent noise is drawn again."""
        return False

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        return inverse(np.array([self.gain, *self.taps]), num_steps)

    def inverse(self, num_steps: int) -> Array:
        """Return the first column of C^-1."""
        taps = np.array([self.gain, *self.taps])[:num_steps]
        return np.concatenate([taps, np.zeros(num_steps - len(taps))])

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Add the independent noise of earlier steps, one at a time: two vectors of memory, whatever the window."""
        result = draw(step, self.gain)
        for lag, tap in enumerate(self.taps[:step], 1):
            result.add_(draw(step - lag, 1.0), alpha=tap)
        return result


class NoiseStream:
    """Correlated noise of unit scale, as a function of the keys and the step: ``stream(step)``.

    With a `Window`, each step draws the independent noise of as many steps again, and nothing is kept. With another
    recursion, a step draws once and keeps a few vectors of the noise's size in memory: the last y, or the buffers. They
    are never stored. A step out of turn, such as the first one after a run was resumed, draws all earlier steps again.
    On the same kind of device the result is the same to the last bit.

    Keys may change during a run. With ``((0, first), (100, second))``, the independent noise of the steps from 100 on
    is drawn under the second key. Earlier independent noise, which the new noise is correlated with, stays under the
    first. So a resumed run gets fresh noise, and its mechanism is that of a run that was never interrupted. If two runs
    continue from one state under two new keys, all independent noise since then is independent: together they are as
    private as their common steps and both continuations, composed.

    Assumes:
        A step's noise is used for one sum only (the caller's duty: count the step before you use its noise). Keys are
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
        """Prepare a stream; nothing is drawn yet.

        Args:
            recursion: How the noise is correlated: ``factor.recursion``.
            keys: One key for all steps, or pairs of a first step and the key that holds from there on.
            size: The number of elements of the noise.
            num_steps: The number of steps that are accounted for; later ones are refused.
            device: Where to draw the noise; a CPU, if omitted.
        """
        check_instance("recursion", recursion, Recursion, "Pass factor.recursion")
        self._keys = [(0, keys)] if isinstance(keys, bytes) else sorted(keys, key=lambda pair: pair[0])
        if not self._keys or self._keys[0][0] != 0 or len({first for first, _ in self._keys}) != len(self._keys):
            raise InvalidArgument(
                "keys", [first for first, _ in self._keys], "one key from step 0 on, and at most one for any later step"
            )
        self.recursion, self._size, self._device = recursion, check_count("size", size), device
        self._num_steps = check_count("num_steps", num_steps)
        self._memory: list[Tensor] = []
        self._next = 0  # the step that the memory is ready for

    def __call__(self, step: int) -> Tensor:
        """Return y_t for t = ``step``, in single precision and in memory of its own: you may change it."""
        check_count("step", step, minimum=0)
        if not step < self._num_steps:
            raise InvalidArgument(
                "step", step, f"less than {self._num_steps}, the number of steps that are accounted for"
            )
        begin, self._next = self._next, 0  # if a draw fails, the next call starts over
        if not self.recursion.remembers:
            return self.recursion.follow(step, self._draw, [])
        if begin == 0 or step < begin:
            self._memory, begin = [], 0
        for skipped in range(begin, step):
            self.recursion.follow(skipped, self._draw, self._memory)
        result = self.recursion.follow(step, self._draw, self._memory)
        self._next = step + 1
        return result

    def _draw(self, step: int, scale: float) -> Tensor:
        key = next(key for first, key in reversed(self._keys) if first <= step)
        return gaussian(key, step, self._size, self._device, scale=scale)
