"""Recursions of correlated noise: how y = C^-1 z follows, step by step, from independent noise z.

Noise lives on a grid, so y is a vector of integers. It is the sum of the step's own integer noise and of what earlier
steps carry over, which is combined in double precision and rounded *after that*. (Weighted sums of integers would leave
what the weights leave: with weights 1 and -1/2, parity tells which sum the noise was added to.)

Rounding is part of the mechanism, and the data do not decide it: y is a function of z alone. Written the other way, the
own noise of step t is y_t plus a rounded sum over earlier y, or z. So where an example changes the sums, and a release
stays what it is, the own noise changes by C x and by at most 1 for each rounding. `Recursion.rounding_gain` bounds what
all of them add up to, and the spacing of the grid makes room for it (`noise_grid`).

A `Recursion` says how y_t follows from z_t and earlier steps, and which matrix C that makes:

`Bands`    C has a few bands; y_t needs the last few y
`Buffers`  C's column is a sum of geometric series; y_t needs one vector per series
`Window`   C^-1 has a few bands; y_t needs the last few z, which are drawn again

A recursion's coefficients are those that are applied, in single precision. So the sensitivity that is computed from its
column is the sensitivity of the noise that is really added.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hush.training.noise.factorisation import Array, inverse, inverse_series

if TYPE_CHECKING:  # a plan is made without torch, such as by `hush plan`
    from torch import Tensor

Single = tuple[float, ...]
Draw = Callable[[int], "Tensor"]  # from a step to its own noise: integers in double precision, in new memory each time


def single(values: Iterable[float]) -> Single:
    """Return the numbers rounded to single precision, as torch will apply them."""
    return tuple(float(np.float32(value)) for value in values)


@dataclass(frozen=True, slots=True)
class Recursion(ABC):
    """How correlated noise y follows from independent noise z.

    Recursions compare by value: they are equal only if they make the same noise. A stored run refuses to go on with
    another one.

    Attributes:
        gain: The factor of the step's own independent noise: 1 / c_0, for the first coefficient c_0 of C's column. The
            integers that a step draws have this factor in their standard deviation already.
    """

    gain: float

    def rounding_gain(self, num_steps: int) -> float:
        """Return a bound on how far the roundings of all steps move C y, in spacings, per root of an entry of y."""
        # A rounding moves by 1 at most, and by 1 more where double precision errs by less than 1/2 (`largest_stddev`).
        # It enters the own noise directly, or through C, whose operator norm is at most the sum of its coefficients.
        return 2 * float(np.abs(self.column(num_steps)).sum()) * math.sqrt(num_steps)

    @property
    def largest_stddev(self) -> float:
        """Up to which standard deviation, in spacings, double precision errs by less than 1/2 in a step."""
        # n sums of terms below 2^6 standard deviations (which noise never reaches) err by n 2^-53 times their total.
        weights = [abs(weight) for weight in self.weights_of_earlier]
        return 2.0**46 / ((1 + len(weights)) * (1 + sum(weights)) * self.gain)

    @property
    @abstractmethod
    def weights_of_earlier(self) -> Single:
        """The factors of earlier vectors in a step's noise."""

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
        """Return the correlated noise of a step, as integers in double precision.

        Args:
            step: The step's number.
            draw: Draws a step's own noise.
            memory: What earlier steps have left: empty before step 0. It is changed for the next step.
        """


@dataclass(frozen=True, slots=True)
class Bands(Recursion):
    """A banded C: y_t = gain z_t - sum_j taps_j y_(t-j) for j = 1, 2, ...

    The first column of C is (1, taps_1, taps_2, ...) / gain.
    """

    taps: Single

    @property
    def weights_of_earlier(self) -> Single:
        """The taps."""
        return self.taps

    @property
    def bands(self) -> int:
        """The number of taps, and one more for the diagonal."""
        return 1 + len(self.taps)

    def rounding_gain(self, num_steps: int) -> float:
        """Return a bound that does not grow with the run."""
        # A contribution changes the own noise of as many steps as there are bands, and no rounding beyond them: there,
        # the noise follows from releases alone. Each rounding enters the own noise directly, divided by the gain.
        return 2 * math.sqrt(min(self.bands, num_steps)) / self.gain

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
        result = draw(step)
        if not self.taps:
            return result
        carried = result.new_zeros(result.shape)
        for tap, earlier in zip(self.taps, memory, strict=False):  # the first steps have fewer before them
            carried.add_(earlier, alpha=-tap)
        result.add_(carried.round_())
        oldest = memory.pop() if len(memory) == len(self.taps) else carried
        memory.insert(0, oldest.copy_(result))
        return result


@dataclass(frozen=True, slots=True)
class Buffers(Recursion):
    """A sum of geometric series: y_t = gain z_t - sum_i weights_i u_i, then u_i becomes decays_i u_i + y_t.

    The first column of C is c_0 = 1 / gain and c_k = sum_i weights_i decays_i^(k-1) / gain.
    """

    weights: Single
    decays: Single

    @property
    def weights_of_earlier(self) -> Single:
        """The weights of the buffers."""
        return self.weights

    def column(self, num_steps: int) -> Array:
        """Return the first column of C."""
        # Before step t, u_i is the sum of decays_i^(k-1) y_(t-k) over k >= 1. So C y = z has these c_k.
        powers = np.array(self.decays)[:, None] ** np.arange(num_steps - 1)
        return np.concatenate([[1.0], np.array(self.weights) @ powers]) / self.gain

    def follow(self, step: int, draw: Draw, memory: list[Tensor]) -> Tensor:
        """Subtract the buffers, then update them."""
        result = draw(step)
        if not memory:
            memory.extend(result.new_zeros(result.shape) for _ in self.weights)
        carried = result.new_zeros(result.shape)
        for weight, buffer in zip(self.weights, memory, strict=True):
            carried.add_(buffer, alpha=-weight)
        result.add_(carried.round_())
        # Only after all buffers were used: for the next step, u_i includes y_t, with the factor decays_i^0. Rounded, so
        # that errors do not grow beyond double precision: a rounding of u_i moves later steps by weights_i decays_i^k.
        for decay, buffer in zip(self.decays, memory, strict=True):
            buffer.mul_(decay).round_().add_(result)
        return result


@dataclass(frozen=True, slots=True)
class Window(Recursion):
    """A banded inverse: y_t = gain z_t + sum_j taps_j z_(t-j) for j = 1, 2, ...

    The first column of C^-1 is (gain, taps_1, taps_2, ...).
    """

    taps: Single

    @property
    def weights_of_earlier(self) -> Single:
        """The taps, for own noise that has the gain in it."""
        return tuple(tap / self.gain for tap in self.taps)

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
        result = draw(step)
        carried = result.new_zeros(result.shape)
        # A step has only as many steps before it as its number.
        for lag, tap in enumerate(self.taps[:step], 1):
            carried.add_(draw(step - lag), alpha=tap / self.gain)
        return result.add_(carried.round_())
