"""Gaussian noise on the integers: the floor of a real Gaussian variable, exactly, as a function of key, step, element.

*Why integers.* Floating-point noise added to a floating-point sum leaks it: small noise values lie on a coarse
lattice, and the sum's bits lie below it (Mironov 2012). Here a sum is an integer n on a public grid, and the noise is
floor(X) for a real Gaussian X. As n + floor(X) = floor(n + X), a release is a function of n + X, the textbook
mechanism's output: every theorem about that mechanism holds as it stands, in any dimension and for any number of steps.

*How.* An element reads 16 bits that pick a box of a histogram below the Gaussian curve (`histogram`), and further
bits that pick an integer of the box's cell. In 98 of 100 cases the box is below the curve everywhere, and that is all.
Otherwise the box is an edge: a point of it is tested against the curve, in double precision where that is certain, and
exactly where it is not. If the point is above the curve, the element starts over, with bits of its own.

    boxes    16 bits for each element
    places   16, 32 or 64 bits for each element, as many as a cell needs
    edges    a block for each element on an edge, for two tries. A try reads 63 bits for a cell, one for the side, 64
             for the place and 64 for the height; then 64 for another box and a place in it, if the point is rejected
    private  streams of single elements, for what these do not settle: one element on an edge in 15,000

Whether an element starts over depends on its own bits only, so elements are independent. A *lane* is a block of boxes,
of 32 elements, which come in pairs. A *tile* is 128 lanes: first the first pairs of all its lanes, then the second
ones. So the threads of a GPU, one for each lane, write to neighbouring places, and a CPU reads plain streams.

Every word comes from ChaCha20's stream under the key, with the step and the purpose as nonce. All decisions are those
of exact arithmetic. So a CPU and a GPU draw the same integers, and the first ones do not depend on how many follow.

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

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hush.errors import InvalidArgument, check_count, check_positive
from hush.randomness import KeyedSource, Uniform, chacha20
from hush.training.noise.histogram import BOXES, CELLS, SMALLEST_RHO, Histogram

if TYPE_CHECKING:
    from hush.training.kernels.noise_cuda import BoxTables

MIN_STDDEV, MAX_STDDEV = 2 * SMALLEST_RHO, 2.0**54
_LANES, _PAIRS = 128, 16  # lanes in a tile, pairs of elements in a lane
TILE = 2 * _LANES * _PAIRS
_CHUNK = 32  # tiles at a time, so that a chunk stays in the processor's cache
_UNSURE = 2.0**-36  # the relative distance from the curve within which double precision does not decide
_MAX_STEP = 1 << 48
_BOXES, _PLACES, _EDGES = 0, 1, 2  # purposes of streams
_CPU = torch.device("cpu")
_Words = NDArray[np.uint64]


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
    [-611, -486, 74, -683]
    """
    if not check_count("step", step, minimum=0) < _MAX_STEP:
        raise InvalidArgument("step", step, "less than 2^48")
    if not MIN_STDDEV <= check_positive("stddev", stddev) <= MAX_STDDEV:
        raise InvalidArgument("stddev", stddev, "between 2^7 and 2^54", "Choose another grid")
    draw = Draw(key, step, BoxLaw.of(stddev))
    if check_count("size", size, minimum=0) and device is not None and device.type == "cuda":
        return draw.on_gpu(size, device)
    return draw.on_cpu(size, out).to(device or _CPU)


@dataclass(frozen=True, slots=True, eq=False)
class BoxLaw:
    """A histogram, and how many integers a cell has: 2^shift.

    Attributes:
        histogram: The boxes.
        shift: The logarithm of the number of integers in a cell.
    """

    histogram: Histogram
    shift: int

    @staticmethod
    def of(stddev: float) -> BoxLaw:
        """Return the law of a standard deviation: rho times 2^shift, exactly."""
        mantissa, exponent = math.frexp(stddev)
        return BoxLaw(Histogram.of(mantissa * 2 * SMALLEST_RHO), exponent - 7)

    @property
    def place_bits(self) -> int:
        """The number of bits that an element reads for its place in a cell."""
        return next(bits for bits in (16, 32, 64) if self.shift <= bits)

    @property
    def num_full(self) -> int:
        """The number of boxes that are below the curve everywhere."""
        return BOXES - self.histogram.num_edges


@lru_cache(maxsize=16)
def middles(histogram: Histogram, shift: int) -> Tensor:
    """Return the middle of each box's cell, to which a signed place is added; 0 for edges."""
    # As int32 where all sums fit, which takes less time: they are below 2^(11 + shift).
    table = np.zeros(BOXES, dtype=np.int64)
    cells = histogram.cells()
    table[: len(cells)] = (cells << shift) + (1 << (shift - 1))
    return torch.from_numpy(table.astype(np.int32) if shift < 20 else table)


@lru_cache(maxsize=16)
def edge_tables(histogram: Histogram) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the cumulative parts of cells; and for each cell, its full boxes and the height of its edge.

    Two rows follow the cells: no height is certain in the tail, and every height is too large in the spare share.
    """
    bases = np.append(histogram.full.astype(np.float64), [math.nan, math.inf])
    rooms = np.append(histogram.parts[:CELLS].astype(np.float64) * (histogram.num_edges / 2 * 2.0**-63), [0.0, 0.0])
    return np.cumsum(histogram.parts), bases, rooms


@lru_cache(maxsize=16)
def _tables_on(histogram: Histogram, device: torch.device) -> list[Tensor]:
    """Return the cell of each box, the tables of edges, and the curve, on a device."""
    cells = np.zeros(BOXES, dtype=np.int16)
    full = histogram.cells()
    cells[: len(full)] = full
    curve = np.array([histogram.height, histogram.rho])
    return [torch.from_numpy(table).to(device) for table in (cells, *edge_tables(histogram), curve)]


@lru_cache(maxsize=16)
def _guide(histogram: Histogram) -> NDArray[np.int64]:
    """Return the cells of the multiples of 2^50, and of 2^63 - 1: most numbers lie between two of the same cell."""
    bounds = np.append(np.arange(1 << 13) << 50, 2**63 - 1)
    return np.searchsorted(edge_tables(histogram)[0], bounds, side="right")


def _cells(histogram: Histogram, parts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the cells of numbers below 2^63: how many cumulative parts there are up to each."""
    guide = _guide(histogram)
    slots = parts >> 50
    cells: NDArray[np.int64] = guide[slots]
    unsure = np.flatnonzero(guide[slots + 1] != cells)
    cells[unsure] = np.searchsorted(edge_tables(histogram)[0], parts[unsure], side="right")
    return cells


@dataclass(frozen=True, slots=True)
class Draw:
    """One vector of noise, as a function of key, step and law."""

    key: bytes
    step: int
    law: BoxLaw

    def stream(self, purpose: int) -> KeyedSource:
        """Return the stream of a purpose."""
        return KeyedSource(self.key, self.step + (purpose << 48))

    def on_cpu(self, size: int, out: Tensor | None = None) -> Tensor:
        """Return the first ``size`` elements."""
        result = _memory(size, out)
        elements = self.quick(result)
        blocks = self.stream(_EDGES).words(8 * len(elements)).reshape(-1, 8)
        values = self.settled(elements, blocks)
        inside = np.flatnonzero(elements < size)
        result.numpy()[elements[inside]] = values[inside]
        return result

    def on_gpu(self, size: int, device: torch.device) -> Tensor:
        """Return the same on a GPU; what its kernels leave open is settled here."""
        from hush.training.kernels.noise_cuda import draw

        result, opened = draw(self.key, self.step, size, self.tables(device))
        if opened is None:
            return self.on_cpu(size).to(device)
        if opened:
            elements, ranks = np.array(opened).T
            values = self.settled(elements, np.stack([self.block(_EDGES, int(rank)) for rank in ranks]))
            result[torch.from_numpy(elements).to(device)] = torch.from_numpy(values).to(device)
        return result

    def tables(self, device: torch.device) -> BoxTables:
        """Return the law's tables for the GPU's kernels."""
        from hush.training.kernels.noise_cuda import BoxTables

        cells, cumulative, bases, rooms, curve = _tables_on(self.law.histogram, device)
        return BoxTables(cells, self.law.shift, self.law.place_bits, self.law.num_full, cumulative, bases, rooms, curve)

    def quick(self, result: Tensor) -> NDArray[np.int64]:
        """Write one integer per element; return the elements on edges, whose integers mean nothing yet, lane by lane.

        These may lie beyond the end: the last lanes are whole.
        """
        boxes, places = self.stream(_BOXES), self.stream(_PLACES)
        num_whole = len(result) // TILE * TILE
        starts = [*range(0, num_whole, _CHUNK * TILE), num_whole]
        edges = [
            self._quick_chunk(boxes, places, result[start:end]) + start
            for start, end in zip(starts, [*starts[1:], len(result)], strict=True)
        ]
        numbers = np.concatenate(edges)
        # In a tile, five bits of the pair and the half follow seven bits of the lane; elements have the pair's first.
        order = (numbers >> 1 & 15) << 8 | (numbers >> 5 & 127) << 1 | numbers & 1
        return numbers & -TILE | order

    def _quick_chunk(self, boxes: KeyedSource, places: KeyedSource, out: Tensor) -> NDArray[np.int64]:
        """Do so for whole tiles, or for the beginning of one; return the edges' numbers in the stream."""
        num_tiles = max(len(out) // TILE, 1)
        num_lanes = min(-(-len(out) // 2), _LANES)  # of a tile that is cut short, only so many lanes are read
        pairs = (num_tiles, num_lanes, _PAIRS)
        drawn_boxes = boxes.words(num_tiles * num_lanes * _PAIRS // 2).view(np.uint32)
        chosen = np.ascontiguousarray(drawn_boxes.reshape(pairs).transpose(0, 2, 1)).view(np.uint16)
        offsets = self._offsets(places, pairs)
        flat = torch.from_numpy(chosen.reshape(-1)[: len(out)].astype(np.int32))
        torch.add(middles(self.law.histogram, self.law.shift).index_select(0, flat), offsets[: len(out)], out=out)
        return np.flatnonzero(drawn_boxes.view(np.uint16) >= self.law.num_full)

    def _offsets(self, places: KeyedSource, pairs: tuple[int, int, int]) -> Tensor:
        """Return the elements' places, from minus half a cell to half a cell, in the order of elements."""
        bits = self.law.place_bits
        pair: Any = {16: np.uint32, 32: np.uint64, 64: np.complex128}[bits]  # a type of the size of two places
        words = places.words(math.prod(pairs) * bits // 32).view(pair).reshape(pairs)
        signed = np.ascontiguousarray(words.transpose(0, 2, 1)).view(f"int{bits}").reshape(-1)
        signed >>= bits - self.law.shift  # arithmetic, which keeps the sign
        return torch.from_numpy(signed.astype(np.int32) if bits == 16 else signed)

    def settled(self, elements: NDArray[np.int64], blocks: _Words) -> NDArray[np.int64]:
        """Return the integers of elements on edges.

        Args:
            elements: Their numbers.
            blocks: The block of each: [len(elements), 8].
        """
        result = np.empty(len(elements), dtype=np.int64)
        rows = np.arange(len(elements))  # those that are still open, with their words
        for attempt in itertools.count():
            is_second = attempt % 2
            words = blocks[:, 4:] if is_second else blocks[:, :4]
            # What is still open is overwritten later: writing it, too, is faster than leaving it out.
            result[rows], is_below = self.points(words[:, :3], elements[rows], attempt)
            still = np.flatnonzero(~is_below)
            rows, blocks, boxes = rows[still], blocks[still], words[still, 3]
            result[rows] = self._of_boxes(boxes)
            still = np.flatnonzero((boxes & np.uint64(BOXES - 1)) >= self.law.num_full)
            rows, blocks = rows[still], blocks[still]
            if not len(rows):
                break
            if is_second:
                blocks = np.stack([self._private_block(int(element), attempt // 2) for element in elements[rows]])
        return result

    def _of_boxes(self, words: _Words) -> NDArray[np.int64]:
        """Return the integers of words that hold a full box and a place in its cell."""
        table = middles(self.law.histogram, self.law.shift).numpy()
        chosen: NDArray[np.int64] = table[(words & np.uint64(BOXES - 1)).astype(np.int64)]
        return chosen + (words.view(np.int64) >> (64 - self.law.shift))

    def points(
        self, words: _Words, elements: NDArray[np.int64], attempt: int
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the integers of points of edges, and which of the points are below the curve.

        Args:
            words: Three for each: the cell and the side, the place and the height.
            elements: The elements that they belong to, and
            attempt: which of their points this is: where to find further bits, if double precision does not decide.
        """
        _, bases, rooms = edge_tables(self.law.histogram)
        shift, histogram = self.law.shift, self.law.histogram
        first, second, third = (np.ascontiguousarray(words[:, column]) for column in range(3))
        cells = _cells(self.law.histogram, (first >> np.uint64(1)).view(np.int64))
        place, height = ((word >> np.uint64(11)).astype(np.float64) * 2.0**-53 for word in (second, third))
        curve = histogram.height * np.exp(((cells + place) / histogram.rho) ** 2 * -0.5)
        excess = bases[cells] + rooms[cells] * height - curve
        is_below = excess < 0
        values = (cells << shift) + (second >> np.uint64(64 - shift)).view(np.int64)
        for row in np.flatnonzero(~(np.abs(excess) > _UNSURE * curve)).tolist():  # NaN is the tail's
            point = int(cells[row]), int(second[row]), int(third[row])
            integer = self._settle(*point, int(elements[row]), attempt)
            is_below[row] = integer is not None
            values[row] = _wrapped(integer or 0)
        return values ^ -(first & np.uint64(1)).view(np.int64), is_below

    def _settle(self, cell: int, place: int, height: int, element: int, attempt: int) -> int | None:
        """Return the integer of a point that is too close to the curve for double precision; None if above it."""
        source = self.stream(_private(element, 1 + attempt))
        return self.law.histogram.settle(
            cell, Uniform(source, place, 64), Uniform(source, height, 64), self.law.shift, source
        )

    def block(self, purpose: int, number: int) -> _Words:
        """Return one block of a stream, as eight words."""
        stream = chacha20(self.key, self.step + (purpose << 48), block=number)
        return np.frombuffer(stream.update(bytes(64)), dtype="<u8")

    def _private_block(self, element: int, number: int) -> _Words:
        return self.block(_private(element, 0), number)


def _private(element: int, use: int) -> int:
    """Return the purpose of a stream of one element: 0 for further tries, others for further bits of a point."""
    return 1 << 47 | element << 7 | use


def _memory(size: int, out: Tensor | None) -> Tensor:
    """Return memory for the result: that of an earlier one, if it has the same size."""
    if out is not None and out.untyped_storage().nbytes() == 8 * size:
        return out.as_strided((size,), (1,), 0)
    return torch.empty(size, dtype=torch.int64)


def _wrapped(value: int) -> int:
    """Return an integer modulo 2^64, as int64 does it: a tail that long is never seen, and wrapping is private."""
    return (value + 2**63) % 2**64 - 2**63
