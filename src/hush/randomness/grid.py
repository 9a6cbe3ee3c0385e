"""The grid on which real-valued releases live: multiples of a power of two.

Floating-point noise added to a floating-point value leaks the value through its low bits (Mironov 2012). Here a
mechanism rounds its value to a grid, adds integer noise from an exact sampler, and returns the multiple of the
spacing. The spacing follows from the noise scale alone, never from the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.errors import InvalidArgument, check_positive

_RESOLUTION = 40  # the noise scale has about this many bits on the grid
_MAX_INTEGER = 2.0**900  # leaves room for the noise below the largest float


@dataclass(frozen=True, slots=True)
class Grid:
    """The multiples of ``spacing``, a power of two between 2^-900 and 2^900.

    >>> grid = Grid.for_scale(3.0)
    >>> grid.spacing == 2.0**-39, float(grid.real(grid.integers([0.1]))[0])
    (True, 0.1000000000003638)
    """

    spacing: float

    def __post_init__(self) -> None:
        """Check that the spacing is a power of two, far enough from overflow and underflow."""
        if not (2.0**-900 <= self.spacing <= 2.0**900 and math.frexp(self.spacing)[0] == 0.5):
            raise InvalidArgument("spacing", self.spacing, "a power of two between 2^-900 and 2^900")

    @staticmethod
    def for_scale(scale: float) -> Grid:
        """Return the grid for noise of this scale. Its spacing is between scale / 2^41 and scale / 2^40."""
        check_positive("scale", scale)
        if not 1e-200 <= scale <= 1e200:
            raise InvalidArgument("scale", scale, "between 1e-200 and 1e200", "Measure the data in a different unit")
        # scale = m 2^e with m in [1/2, 1): the spacing is 2^(e - 1 - 40), from the exponent alone.
        return Grid(math.ldexp(1.0, math.frexp(scale)[1] - 1 - _RESOLUTION))

    def integers(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return the nearest multiples, as integers k in floats that stand for k * spacing.

        Dividing by a power of two is exact. NaN becomes 0 and infinity the largest number, because data must not decide
        whether there is an answer. Rounding moves each value by at most half the spacing, so the difference of two
        values grows by at most one spacing.
        """
        finite = np.nan_to_num(np.asarray(values, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        limit = min(_MAX_INTEGER * self.spacing, 1e300)
        return np.rint(np.clip(finite, -limit, limit) / self.spacing)

    def integer(self, value: float) -> float:
        """Do the same as `integers` for one number, without NumPy's overhead."""
        limit = min(_MAX_INTEGER * self.spacing, 1e300)
        return 0.0 if value != value else float(round(min(max(value, -limit), limit) / self.spacing))

    def real(self, integers: ArrayLike) -> NDArray[np.float64]:
        """Return the real numbers that the integers stand for."""
        return np.asarray(integers, dtype=np.float64) * self.spacing
