"""Gaussian noise on the integers: the floor of a real Gaussian variable, exactly, as a function of key, step, element.

*Why integers.* Floating-point noise added to a floating-point sum leaks it: small noise values lie on a coarse
lattice, and the sum's bits lie below it (Mironov 2012). Here a sum is an integer n on a public grid, and the noise is
floor(X) for a real Gaussian X. As n + floor(X) = floor(n + X), a release is a function of n + X, the textbook
mechanism's output: every theorem about that mechanism holds as it stands, in any dimension and for any number of steps.

*How.* An element reads 16 bits that pick a box of a histogram below the Gaussian curve (`histogram`), and further
bits that pick an integer of the box's cell. In 98 of 100 cases the box is below the curve everywhere, and that is all.
Otherwise the point is tested against the curve, in double precision where that is certain, and exactly where it is not.

    quick    one word per element: 16 bits for a box, and the bits of a place in its cell
    edges    boxes that are not full: 63 bits for a cell, one for the side, 64 for the place, 64 for the height
    fill     elements whose point was above the curve take the values of further ones, in order

Accepted candidates are independent of each other and of which others are rejected, so filling in leaves their law.

Every word comes from ChaCha20's stream under the key, with the step, the attempt and the purpose as nonce. All
decisions are those of exact arithmetic. So a CPU and a GPU draw the same integers.

Guarantee:
    The law of an element is that of floor(X) for a real Gaussian X of mean 0 and standard deviation ``stddev``: for
    every shift a, D_alpha(P, P + a) <= (1 + tau) alpha a^2 / (2 stddev^2) with tau = 0, and the same for hockey-stick
    divergences. There is no tail to add to delta: beyond the last cell, boxes go on without end.

Assumes:
    The words are uniform and independent (ChaCha20 under a secret key; the caller's duty is to use no (key, step) for
    two sums). Double precision computes exp with a relative error below 2^-40 (both NumPy's and CUDA's err by at most
    a few units in the last place).

References:
    Mironov 2012, "On Significance of the Least Significant Bits for Differential Privacy"; Marsaglia & Tsang 2000, "The
    Ziggurat Method for Generating Random Variables" (boxes below a curve); Karney 2016, "Sampling Exactly from the
    Normal Distribution" (bits that are drawn only when they decide); Canonne, Kamath & Steinke 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.errors import InvalidArgument, check_count, check_positive
from hush.randomness import KeyedSource, Uniform
from hush.training.kernels.constants import constant
from hush.training.noise.histogram import BOXES, CELLS, SMALLEST_RHO, Histogram

MIN_STDDEV, MAX_STDDEV = 2 * SMALLEST_RHO, 2.0**54
_NARROW = 16  # a cell of at most 2^16 integers needs no more than 32 bits for a box and a place
_CHUNK = 1 << 16  # elements at a time, so that a chunk stays in the processor's cache
_UNSURE = 2.0**-36  # the relative distance from the curve within which double precision does not decide
_MAX_STEP = 1 << 48
_CPU = torch.device("cpu")
_Array = Any  # NumPy's or torch's


def integer_gaussian(
    key: bytes,
    step: int,
    size: int,
    *,
    stddev: float,
    device: torch.device | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``size`` independent integers floor(X), for real Gaussian X of this standard deviation, as int64.

    Args:
        key: 32 secret bytes.
        step: The step's number, below 2^48. Never use a (key, step) for two sums.
        size: How many integers.
        stddev: The standard deviation of X, from 2^7 to 2^54. It is public.
        device: Where to compute them; a CPU, if omitted. The integers are the same everywhere.
        out: The result of an earlier call of this size, whose memory is used again. On a CPU only.

    >>> integer_gaussian(bytes(32), 0, 4, stddev=1000.0).tolist()
    [-615, -1696, 1115, -75]
    """
    if not check_count("step", step, minimum=0) < _MAX_STEP:
        raise InvalidArgument("step", step, "less than 2^48")
    if not MIN_STDDEV <= check_positive("stddev", stddev) <= MAX_STDDEV:
        raise InvalidArgument("stddev", stddev, "between 2^7 and 2^54", "Choose another grid")
    draw = _Draw(key, step, _BoxLaw.of(stddev), device or _CPU)
    return draw.accepted(check_count("size", size, minimum=0), attempt=0, out=out)


@dataclass(frozen=True, slots=True, eq=False)
class _BoxLaw:
    """A histogram, and how many integers a cell has: 2^shift.

    Attributes:
        histogram: The boxes.
        shift: The logarithm of the number of integers in a cell.
    """

    histogram: Histogram
    shift: int

    @staticmethod
    def of(stddev: float) -> _BoxLaw:
        """Return the law of a standard deviation: rho times 2^shift, exactly."""
        mantissa, exponent = math.frexp(stddev)
        return _BoxLaw(Histogram.of(mantissa * 2 * SMALLEST_RHO), exponent - 7)

    @property
    def is_narrow(self) -> bool:
        """Whether a 32-bit word is enough for an element."""
        return self.shift <= _NARROW

    @property
    def num_full(self) -> int:
        """The number of boxes that are below the curve everywhere."""
        return BOXES - self.histogram.num_edges

    def num_candidates(self, size: int) -> int:
        """Return how many candidates leave ``size`` accepted ones, unless more are rejected than nearly ever are."""
        # About half of the points of edges are above the curve: 0.8 % of all. This is 7 standard deviations more.
        expected = size * self.histogram.num_edges / BOXES / 2
        return size + math.ceil(1.03 * expected + 7 * math.sqrt(expected)) + 2


@lru_cache(maxsize=16)
def middles(histogram: Histogram, shift: int, device: torch.device) -> Tensor:
    """Return the middle of each box's cell, to which a signed place is added; 0 for edges."""
    table = np.zeros(BOXES, dtype=np.int64)
    cells = histogram.cells()
    table[: len(cells)] = (cells << shift) + (1 << (shift - 1))
    return torch.from_numpy(table.astype(np.int32) if shift <= _NARROW else table).to(device)


@lru_cache(maxsize=16)
def _edge_tables(histogram: Histogram, device: torch.device) -> tuple[_Array, _Array, _Array, _Array]:
    """Return the cumulative parts of cells; for each cell, its full boxes and the height of its edge; and 2^-53.

    Two rows follow the cells: no height is certain in the tail, and every height is too large in the spare share.
    """
    bases = np.append(histogram.full.astype(np.float64), [math.nan, math.inf])
    rooms = np.append(histogram.parts[:CELLS].astype(np.float64) * (histogram.num_edges / 2 * 2.0**-63), [0.0, 0.0])
    tables = np.cumsum(histogram.parts), bases, rooms, np.array([2.0**-53])
    if device.type == "cpu":
        return tables
    first, second, third, last = (torch.from_numpy(table).to(device) for table in tables)
    return first, second, third, last


@dataclass(frozen=True, slots=True)
class _Draw:
    """One vector of noise. Arrays are NumPy's on a CPU, which are faster if they are small, and torch's on a GPU."""

    key: bytes
    step: int
    law: _BoxLaw
    device: torch.device

    @property
    def _library(self) -> ModuleType:
        return np if self.device.type == "cpu" else torch

    def accepted(self, size: int, attempt: int, out: Tensor | None = None) -> Tensor:
        """Return ``size`` candidates that are below the curve: others give way to those that are left, in order."""
        if self.device.type == "cuda" and (drawn := self._drawn_by_kernels(size, attempt)) is not None:
            return drawn
        result, edges = self.quick(self.law.num_candidates(size), attempt, out)
        candidates: _Array = result.numpy() if self.device.type == "cpu" else result
        values, is_below = self.edges(edges, attempt)
        candidates[edges] = values
        rejected = edges[~is_below]
        num_vacant = int((rejected < size).sum())
        is_spare = self._library.ones_like(candidates[size:], dtype=self._library.bool)
        is_spare[rejected[num_vacant:] - size] = False
        vacant, spare = rejected[:num_vacant], candidates[size:][is_spare]
        candidates[vacant[: len(spare)]] = spare[:num_vacant]
        if len(spare) < num_vacant:
            result[vacant[len(spare) :]] = self.accepted(num_vacant - len(spare), attempt + 1)
        return result[:size]

    def _drawn_by_kernels(self, size: int, attempt: int) -> Tensor | None:
        """Return the same on a GPU; None in the rare cases that need further bits or further candidates."""
        from hush.training.kernels.edges_cuda import BoxTables, drawn

        histogram, shift = self.law.histogram, self.law.shift
        cumulative, bases, rooms, _ = _edge_tables(histogram, self.device)
        curve = constant((histogram.height, histogram.rho), torch.float64, self.device)
        tables = BoxTables(
            middles(histogram, shift, self.device), shift, self.law.num_full, cumulative, bases, rooms, curve
        )
        numbers = self.step + (2 * attempt << 48), self.step + ((2 * attempt + 1) << 48)
        return drawn(self.key, numbers, size, self.law.num_candidates(size), tables)

    def quick(self, size: int, attempt: int, out: Tensor | None = None) -> tuple[Tensor, _Array]:
        """Return one integer per element, and the sorted numbers of the elements whose box is an edge."""
        number = self.step + (2 * attempt << 48)
        table = middles(self.law.histogram, self.law.shift, self.device)
        if self.device.type == "cuda":
            from hush.training.kernels.noise_cuda import EDGE, quick

            integers, _ = quick(self.key, number, size, table, self.law.shift, self.law.num_full)
            return integers, torch.nonzero(integers == EDGE).view(-1)
        source = KeyedSource(self.key, number)
        if out is not None and out.untyped_storage().nbytes() == 8 * size:
            result = out.as_strided((size,), (1,), 0)
        else:
            result = torch.empty(size, dtype=torch.int64)
        edges = [
            self._quick_chunk(source, table, result[start : start + _CHUNK]) + start for start in range(0, size, _CHUNK)
        ]
        return result, edges[0] if len(edges) == 1 else np.concatenate(edges)

    def _quick_chunk(self, source: KeyedSource, table: Tensor, out: Tensor) -> NDArray[np.int64]:
        """Write one integer per element; return the numbers of those on edges."""
        width = 32 if self.law.is_narrow else 64
        words = source.words(-(-len(out) * width // 64))
        drawn: _Array = words.view(np.int32 if self.law.is_narrow else np.int64)[: len(out)]
        boxes = drawn & (BOXES - 1)
        # An arithmetic shift: a place from minus half a cell to half a cell.
        drawn >>= width - self.law.shift
        torch.add(table.index_select(0, torch.from_numpy(boxes)), torch.from_numpy(drawn), out=out)
        return np.flatnonzero(boxes >= self.law.num_full)

    def edges(self, elements: _Array, attempt: int) -> tuple[_Array, _Array]:
        """Return an integer for each of these elements, and whether its point is below the curve."""
        cumulative, bases, rooms, unit = _edge_tables(self.law.histogram, self.device)
        number, shift, histogram = self.step + ((2 * attempt + 1) << 48), self.law.shift, self.law.histogram
        words = self._words(number, 3 * len(elements)).reshape(3, -1)
        cells = self._library.searchsorted(cumulative, (words[0] >> 1) & (2**63 - 1), side="right")
        place, height = ((words[1:] >> 11) & (2**53 - 1)) * unit
        curve = histogram.height * self._library.exp(((cells + place) / histogram.rho) ** 2 * -0.5)
        excess = bases[cells] + rooms[cells] * height - curve
        is_below = excess < 0
        values = (cells << shift) + ((words[1] >> (64 - shift)) & ((1 << shift) - 1))
        is_certain = abs(excess) > _UNSURE * curve
        if not is_certain.all():
            for row, certain in enumerate(is_certain.tolist()):
                if not certain:
                    settled = self._settle(int(cells[row]), words[:, row].tolist(), int(elements[row]), attempt)
                    is_below[row] = settled is not None
                    values[row] = _wrapped(settled or 0)
        return values ^ -(words[0] & 1), is_below

    def _words(self, number: int, count: int) -> _Array:
        """Return words of the key's stream, as signed integers."""
        if self.device.type == "cuda":
            from hush.training.kernels.noise_cuda import words

            return words(self.key, number, count, self.device)
        return KeyedSource(self.key, number).words(count).view(np.int64)

    def _settle(self, cell: int, drawn: list[int], element: int, attempt: int) -> int | None:
        """Return the integer of a point that is too close to the curve for double precision; None if above it."""
        source = KeyedSource(self.key, self.step + ((1 << 47 | element << 7 | attempt) << 48))
        place, height = (Uniform(source, word % 2**64, 64) for word in drawn[1:])
        return self.law.histogram.settle(cell, place, height, self.law.shift, source)


def _wrapped(value: int) -> int:
    """Return an integer modulo 2^64, as int64 does it: a tail that long is never seen, and wrapping is private."""
    return (value + 2**63) % 2**64 - 2**63
