"""Recursions of correlated noise: how y = C^-1 z follows, step by step, from independent noise z.

A `Recursion` says how y_t follows from z_t and earlier steps, and which matrix C that makes:

`Bands`    C has a few bands; y_t needs the last few y
`Buffers`  C's column is a sum of geometric series; y_t needs one vector per series
`Window`   C^-1 has a few bands; y_t needs the last few z, which are drawn again

A recursion's coefficients are those that are applied, in single precision. So the sensitivity that is computed from its
column is the sensitivity of the noise that is really added.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.training.noise.factorisation import Array, inverse, inverse_series

if TYPE_CHECKING:  # a plan is made without torch, such as by `hush plan`
    from torch import Tensor

Single = tuple[float, ...]
Draw = Callable[[int, float], "Tensor"]  # from a step and a scale to independent noise, in new memory each time


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
        # C y = z row by row: (y_t + sum_j taps_j y_(t-j)) / gain = z_t.
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
            oldest = memory.pop() if len(memory) == len(self.taps) else result.new_empty(result.shape)
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
        # Before step t, u_i is the sum of decays_i^(k-1) y_(t-k) over k >= 1. So C y = z has these c_k.
        powers = np.array(self.decays)[:, None] ** np.arange(num_steps - 1)
        return np.concatenate([[1.0], np.array(self.weights) @ powers]) / self.gain

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the buffers, then update them."""
        result = draw(step, self.gain)
        if not memory:
            memory.extend(result.new_zeros(result.shape) for _ in self.weights)
        for weight, buffer in zip(self.weights, memory, strict=True):
            result.add_(buffer, alpha=-weight)
        # Only after all buffers were used: for the next step, u_i includes y_t, with the factor decays_i^0.
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
        # A step has only as many steps before it as its number.
        for lag, tap in enumerate(self.taps[:step], 1):
            result.add_(draw(step - lag, 1.0), alpha=tap)
        return result
