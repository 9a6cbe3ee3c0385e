"""The grid on which a noisy sum of training lives, and what rounding to it costs.

A step's clipped sum is divided by a power of two, the spacing h, and rounded to integers; integer noise is added; the
result is turned back into real numbers once. The optimizer, the type of the weights and whatever you read in
``param.grad`` are functions of that integer vector.

*The cost.* Let x and x' be two sums of d entries with |x - x'| <= s. Rounding moves each entry by at most h / 2, so
the integers are at most (s + sqrt(d) h) / h apart. The spacing follows from public numbers alone, such that sqrt(d) h
is at most `SHARE` of the clip norm, and every contribution is clipped to that much less than the clip norm
(`hush.training.per_example.norms.rounding_slack`). So rounding is paid for in full by the sensitivity, and the event of
a plan is that of real-valued noise, to the last digit.

*Correlated noise* is combined at higher precision and rounded after that: weighted sums of integers would leave what
the weights leave, such as parities. Each step then rounds a second time, which the spacing allows for
(`Recursion.rounding_gain`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from hush.errors import InvalidArgument, check_count, check_positive
from hush.training.noise.integer_gaussian import MIN_STDDEV

SHARE = 2.0**-11
"""The share of the clip norm by which rounding to the grid moves a sum at most."""

_MAX_STDDEV = 2.0**44  # noise and sums of this size are exact in double precision
_LARGEST = 2.0**50
_CHUNK = 1 << 15  # entries at a time, so that a chunk stays in the processor's cache


@dataclass(frozen=True, slots=True)
class NoiseGrid:
    """Multiples of a power of two, with noise of a standard deviation that is public.

    Attributes:
        spacing: h, the distance of neighbouring points.
        stddev: The standard deviation of the noise, in spacings.

    >>> grid = NoiseGrid.of_sum(clip_norm=1.0, stddev=10.0, size=1_000_000)
    >>> grid.spacing == 2.0**-21, grid.stddev == 10 * 2.0**21
    (True, True)
    """

    spacing: float
    stddev: float

    @staticmethod
    def of_sum(
        *, clip_norm: float, stddev: float, size: int, smallest_share: float = 1.0, rounding_gain: float = 0.0
    ) -> NoiseGrid:
        """Return the grid of a sum. It depends on public numbers only.

        Args:
            clip_norm: The largest norm of a contribution.
            stddev: The standard deviation of the noise on the sum.
            size: d, the number of entries of the sum.
            smallest_share: The smallest share of the clip norm that a sensitivity counted by the event may have.
            rounding_gain: How far rounding correlated noise moves C x, in spacings per root of an entry.
        """
        check_positive("stddev", stddev)
        roundings = math.sqrt(check_count("size", size)) * (1 + rounding_gain)
        coarsest = min(SHARE * smallest_share * check_positive("clip_norm", clip_norm) / roundings, stddev / MIN_STDDEV)
        # The largest power of two up to there, from the exponent alone.
        spacing = math.ldexp(1.0, math.frexp(coarsest)[1] - 1)
        if not stddev / spacing <= _MAX_STDDEV:
            raise InvalidArgument(
                "noise_multiplier",
                stddev / clip_norm,
                f"at most {_MAX_STDDEV * spacing / clip_norm:.3g} for {size} parameters",
                "The grid that hides rounding would be finer than double precision",
            )
        return NoiseGrid(spacing, stddev / spacing)

    def noisy(self, values: Tensor | None, noise: Tensor, divisor: float, out: Tensor) -> Tensor:
        """Write (integer sum + integer noise) times the spacing over the divisor, rounded to the type of ``out``.

        Args:
            values: The clipped sum, as a vector; zeros, if omitted. NaN counts as 0.
            noise: As many integers, as int64 or in double precision.
            divisor: A public number that the sum is divided by.
            out: Where to write it.
        """
        chunk = _CHUNK if out.device.type == "cpu" else max(len(out), 1)
        for start in range(0, len(out), chunk):
            part = slice(start, start + chunk)
            if values is None:
                integers = noise[part].to(torch.float64, copy=True)
            else:
                # A sum in double precision is a function of the exact sum, also where that has more than 53 bits.
                integers = self._rounded(values[part]).add_(noise[part].double())
            out[part].copy_(integers.mul_(self.spacing / divisor))
        return out

    def _rounded(self, values: Tensor) -> Tensor:
        """Return the nearest multiples, as integers in double precision."""
        # Dividing by a power of two is exact. Clamping moves no two values further apart.
        scaled = values.double() * (1 / self.spacing)
        return scaled.round_().nan_to_num_(0.0).clamp_(-_LARGEST, _LARGEST)
