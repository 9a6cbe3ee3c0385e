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
    again    elements whose point was above the curve, under another number of the key

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

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.errors import InvalidArgument, check_count, check_positive
from hush.randomness import KeyedSource, Uniform
from hush.training.noise.histogram import BOXES, CELLS, SMALLEST_RHO, Histogram

MIN_STDDEV, MAX_STDDEV = 2 * SMALLEST_RHO, 2.0**54
_NARROW = 16  # a cell of at most 2^16 integers needs no more than 32 bits for a box and a place
_CHUNK = 1 << 17  # elements at a time, so that a chunk stays in the processor's cache
_UNSURE = 2.0**-36  # the relative distance from the curve within which double precision does not decide
_MAX_STEP = 1 << 48
_CPU = torch.device("cpu")


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
    result, edges = draw.quick(check_count("size", size, minimum=0), attempt=0, out=out)
    attempt = 0
    while len(edges):
        values, is_below = draw.edges(edges, attempt)
        result[edges[is_below]] = values[is_below]
        rejected, attempt = edges[~is_below], attempt + 1
        again, edges_again = draw.quick(len(rejected), attempt)
        result[rejected] = again
        edges = rejected[edges_again]
    return result


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


@lru_cache(maxsize=16)
def middles(histogram: Histogram, shift: int, device: torch.device) -> Tensor:
    """Return the middle of each box's cell, to which a signed place is added; 0 for edges."""
    table = np.zeros(BOXES, dtype=np.int64)
    cells = histogram.cells()
    table[: len(cells)] = (cells << shift) + (1 << (shift - 1))
    return torch.from_numpy(table.astype(np.int32) if shift <= _NARROW else table).to(device)


@lru_cache(maxsize=16)
def _edge_tables(histogram: Histogram, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return the cumulative parts of cells; and for each cell, its full boxes, and the height of its edge."""
    rooms = histogram.parts[:CELLS].astype(np.float64) * (histogram.num_edges / 2 * 2.0**-63)
    arrays = np.cumsum(histogram.parts), histogram.full.astype(np.float64), rooms
    cumulative, full, room = (torch.from_numpy(array).to(device) for array in arrays)
    return cumulative, full, room


@dataclass(frozen=True, slots=True)
class _Draw:
    """One vector of noise."""

    key: bytes
    step: int
    law: _BoxLaw
    device: torch.device

    def quick(self, size: int, attempt: int, out: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return one integer per element, and the sorted numbers of the elements whose box is an edge."""
        number = self.step + (2 * attempt << 48)
        table = middles(self.law.histogram, self.law.shift, self.device)
        if self.device.type == "cuda":
            from hush.training.kernels.noise_cuda import quick

            return quick(self.key, number, size, table, self.law.shift, self.law.num_full)
        source = KeyedSource(self.key, number)
        result = torch.empty(size, dtype=torch.int64) if out is None or len(out) != size else out
        edges = [np.empty(0, dtype=np.int64)]
        for start in range(0, size, _CHUNK):
            is_edge = self._quick_chunk(source, table, result[start : start + _CHUNK])
            edges.append(np.flatnonzero(is_edge) + start)
        return result, torch.from_numpy(np.concatenate(edges))

    def _quick_chunk(self, source: KeyedSource, table: Tensor, out: Tensor) -> NDArray[np.bool_]:
        """Write one integer per element; return which elements fell on edges."""
        width = 32 if self.law.is_narrow else 64
        words = source.words(-(-len(out) * width // 64))
        drawn = torch.from_numpy(words.view(np.int32 if self.law.is_narrow else np.int64))[: len(out)]
        boxes = drawn & (BOXES - 1)
        # An arithmetic shift: a place from minus half a cell to half a cell.
        places = drawn.bitwise_right_shift_(width - self.law.shift)
        out.copy_(table.index_select(0, boxes).add_(places))
        is_edge: NDArray[np.bool_] = boxes.numpy() >= self.law.num_full
        return is_edge

    def edges(self, elements: Tensor, attempt: int) -> tuple[Tensor, Tensor]:
        """Return an integer for each of these elements, and whether its point is below the curve."""
        cumulative, full, room = _edge_tables(self.law.histogram, self.device)
        number = self.step + ((2 * attempt + 1) << 48)
        drawn = _words(self.key, number, 3 * len(elements), self.device).view(-1, 3)
        cells = torch.searchsorted(cumulative, (drawn[:, 0] >> 1) & (2**63 - 1), right=True)
        is_inner, inner = cells < CELLS, cells.clamp(max=CELLS - 1)
        place, height = (((drawn[:, column] >> 11) & (2**53 - 1)).double() * 2.0**-53 for column in (1, 2))
        curve = self.law.histogram.height * torch.exp(((inner + place) / self.law.histogram.rho).square() * -0.5)
        point = full[inner] + room[inner] * height
        shift = self.law.shift
        values = (inner << shift) + ((drawn[:, 1] >> (64 - shift)) & ((1 << shift) - 1))
        is_below = is_inner & (point < curve)
        unsure = is_inner & ((point - curve).abs() <= _UNSURE * curve) | (cells == CELLS)
        for row in torch.nonzero(unsure).view(-1).tolist():
            settled = self._settle(int(cells[row]), drawn[row].tolist(), int(elements[row]), attempt)
            is_below[row] = settled is not None
            values[row] = _wrapped(settled or 0)
        return values ^ -(drawn[:, 0] & 1), is_below

    def _settle(self, cell: int, drawn: list[int], element: int, attempt: int) -> int | None:
        """Return the integer of a point that is too close to the curve for double precision; None if above it."""
        source = KeyedSource(self.key, self.step + ((1 << 47 | element << 7 | attempt) << 48))
        place, height = (Uniform(source, word % 2**64, 64) for word in drawn[1:])
        return self.law.histogram.settle(cell, place, height, self.law.shift, source)


def _words(key: bytes, number: int, count: int, device: torch.device) -> Tensor:
    """Return words of a key's stream, as signed integers."""
    if device.type == "cuda":
        from hush.training.kernels.noise_cuda import words

        return words(key, number, count, device)
    return torch.from_numpy(KeyedSource(key, number).words(count).view(np.int64))


def _wrapped(value: int) -> int:
    """Return an integer modulo 2^64, as int64 does it: a tail that long is never seen, and wrapping is private."""
    return (value + 2**63) % 2**64 - 2**63
