"""A grid for released numbers: multiples of a power of two that follows from the noise, never from the data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.errors import InvalidArgument, check_positive

_RESOLUTION = 40
_MAX_INTEGER = 2.0**900


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``spacing``, a power of two.

    >>> grid = Grid.for_scale(3.0)
    >>> grid.spacing == 2.0**-39, float(grid.real(grid.integers([0.1]))[0])
    (True, 0.1000000000003638)
    """

    spacing: float

    def __post_init__(self) -> None:
        """Check that it is a power of two with room on both sides."""
        if not (2.0**-900 <= self.spacing <= 2.0**900 and math.frexp(self.spacing)[0] == 0.5):
            raise InvalidArgument("spacing", self.spacing, "a power of two between 2^-900 and 2^900")

    @staticmethod
    def for_scale(scale: float) -> Grid:
        """Return the grid for noise of a scale: its spacing is between scale / 2^40 and scale / 2^41."""
        check_positive("scale", scale)
        if not 1e-200 <= scale <= 1e200:
            raise InvalidArgument("scale", scale, "between 1e-200 and 1e200", "Give the data another unit")
        return Grid(math.ldexp(1.0, math.frexp(scale)[1] - 1 - _RESOLUTION))

    def integers(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the nearest multiples, counted, as whole floats: exact, as the spacing is a power of two.

        NaN counts as 0, and infinity as the largest number: what is in the data must not decide whether there is an
        answer. Rounding moves each value by at most half the spacing, so two of them differ by at most one more.
        """
        numbers = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        limit = min(_MAX_INTEGER * self.spacing, 1e300)
        return np.rint(np.clip(numbers, -limit, limit) / self.spacing)

    def integer(self, value: float) -> float:
        """Return the same for one number, without NumPy."""
        limit = min(_MAX_INTEGER * self.spacing, 1e300)
        return 0.0 if value != value else float(round(min(max(value, -limit), limit) / self.spacing))

    def real(self, integers: ArrayLike) -> NDArray[np.float64]:
        """Return the numbers that counted multiples stand for."""
        return np.asarray(integers, dtype=np.float64) * self.spacing
