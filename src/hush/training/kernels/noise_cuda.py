"""Integer Gaussian noise on a GPU: ChaCha20's key stream in a Triton kernel, and the histogram's boxes.

From bits to an update of the weights, with the same integers as on a CPU (`hush.training.noise.integer_gaussian`):

quick    16 bits per element pick a box, and 16, 32 or 64 a place in its cell; elements on edges are listed, by tiles
edges    points of edges, tested against the curve in double precision, with further tries for those above it
update   the clipped sum is rounded to the grid and joins the integer noise in the optimizer's step

The host waits for the device once, for the number of elements that double precision does not decide. About one vector
of 10^8 in 60 has one. These elements are settled exactly on the CPU. `update` never writes noisy gradients to memory.

Names: w0 to w10 are the words of key and nonce; x0 to x15 are a block; b0 to b15 hold two boxes each, p0 to p15 places.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from hush.training.kernels.constants import constant

UPDATE_TILE = 1024  # values of a parameter per program of `update`
_LANES = 128  # of a tile, as in `integer_gaussian`
_TILE = 32 * _LANES
_ROOM = 256  # edges that a tile's list holds; it has 65 to 82 of 4096, with a standard deviation of 9
_WIDTH = 128  # edges that a program settles at once
_OPEN = 64  # elements that are left to the host
_ATTEMPTS = tl.constexpr(8)  # blocks per element: fewer than one element in 10^30 needs more
_UNSURE = tl.constexpr(2.0**-36)  # as in `integer_gaussian`
_UNIT = tl.constexpr(2.0**-53)
_MANY = tl.constexpr(1 << 32)


@dataclass(frozen=True, slots=True)
class BoxTables:
    """A histogram's tables, on the device.

    Attributes:
        cells: The cell of each box, as int16 so that the first cache holds them; 0 for edges.
        shift: A cell has 2^shift integers.
        place_bits: The number of bits that an element reads for its place in a cell.
        num_full: The number of boxes that are not edges.
        cumulative: The cumulative parts of the cells' edges.
        bases: For each cell, how many full boxes it has; NaN for the tail.
        rooms: For each cell, the height of its edge.
        curve: The curve's highest point, in boxes, and its standard deviation, in cells.
    """

    cells: Tensor
    shift: int
    place_bits: int
    num_full: int
    cumulative: Tensor
    bases: Tensor
    rooms: Tensor
    curve: Tensor


def draw(key: bytes, step: int, size: int, tables: BoxTables) -> tuple[Tensor, list[tuple[int, int]] | None]:
    """Return ``size`` integers, at least one, and the elements that are still open.

    The host waits for the device, once.

    Args:
        key: The key.
        step: The number of its streams.
        size: How many integers.
        tables: The histogram.

    Returns:
        The integers, and each open element with its rank among all edges; None if there are more than were listed.
    """
    num_tiles, device = triton.cdiv(size, _TILE), tables.cells.device
    # Whole tiles are written, so that a thread writes two integers at once.
    result = torch.empty(num_tiles * _TILE, dtype=torch.int64, device=device)
    opened = torch.zeros(1 + 2 * _OPEN, dtype=torch.int64, device=device)
    with torch.cuda.device(device):
        _start(_key_words(key, step), result, opened, num_tiles, tables)
    count, *entries = opened.tolist()
    if count > len(entries) // 2:
        return result[:size], None
    pairs = list(zip(entries[: 2 * count : 2], entries[1 : 2 * count : 2], strict=True))
    return result[:size], [pair for pair in pairs if pair[0] < size]


def _start(key: list[int], result: Tensor, opened: Tensor, num_tiles: int, tables: BoxTables) -> None:
    """Start the kernels that write integers, and list those that stay open."""
    places = torch.empty(num_tiles, _ROOM, dtype=torch.int16, device=result.device)
    counts = torch.empty(num_tiles, dtype=torch.int32, device=result.device)
    box = tables.cells, tables.shift, tables.num_full
    _quick[(num_tiles,)](
        result, places, counts, *box, *key, BITS=tables.place_bits, LANES=_LANES, ROOM=_ROOM, num_warps=4
    )
    _edges[(num_tiles,)](
        result,
        places,
        counts,
        counts.cumsum(0, dtype=torch.int64),
        opened,
        *box,
        tables.cumulative,
        tables.bases,
        tables.rooms,
        tables.curve,
        *key,
        TILE=_TILE,
        ROOM=_ROOM,
        WIDTH=min(_WIDTH, _ROOM),
        OPEN=_OPEN,
        LENGTH=len(tables.cumulative),
        SEARCH=len(tables.cumulative).bit_length(),
        num_warps=4,
    )


def update(
    tiles: Tensor,
    pointers: Tensor,
    spacing: float,
    divisor: float,
    settings: dict[str, float],
    kind: str,
    *,
    double: bool,
) -> None:
    """Take one step of SGD or Adam with the gradient (rounded sum + integer noise) * ``spacing`` / ``divisor``.

    Args:
        tiles: For each tile: its parameter's number, and the tile's start in it.
        pointers: For each parameter: the addresses of its values, its clipped sum, its integer noise and its two
            optimizer states, and its size.
        spacing: The spacing of the grid.
        divisor: The batch size.
        settings: The optimizer's numbers: ``lr``, ``decay`` (weight decay), ``first`` and ``second`` (momentum and
            dampening, or Adam's betas), ``eps``, ``correct1`` and ``correct2`` (Adam's bias corrections),
            ``nesterov``, and ``begin`` for a parameter without a state.
        kind: "sgd", "adam" or "adamw".
        double: Whether the clipped sums are in double precision.
    """
    numbers = [settings.get(name, 0.0) for name in ("lr", "decay", "first", "second", "eps", "correct1", "correct2")]
    # A kernel takes Python's numbers in single precision. The grid's are in double precision, as a tensor.
    scales = constant((1 / spacing, spacing / divisor), torch.float64, tiles.device)
    with torch.cuda.device(tiles.device):
        _update[(len(tiles),)](
            tiles,
            pointers,
            scales,
            *numbers,
            KIND={"sgd": 0, "adam": 1, "adamw": 2}[kind],
            MOMENTUM=settings.get("first", 0.0) != 0,
            NESTEROV=bool(settings.get("nesterov", False)),
            BEGIN=bool(settings.get("begin", False)),
            SUM=tl.float64 if double else tl.float32,
            WIDTH=UPDATE_TILE,
        )


def _key_words(key: bytes, number: int) -> list[int]:
    """Return the key and the nonce, which is the number, as eleven signed words."""
    return [int(word) for word in np.frombuffer(key + number.to_bytes(12, "little"), dtype=np.int32)]


@triton.jit
def _rotate_left(x, by: tl.constexpr):
    return (x << by) | (x >> (32 - by))


@triton.jit
def _quarter_round(a, b, c, d):
    """Return ChaCha20's quarter round (RFC 8439, section 2.1)."""
    a = a + b
    d = _rotate_left(d ^ a, 16)
    c = c + d
    b = _rotate_left(b ^ c, 12)
    a = a + b
    d = _rotate_left(d ^ a, 8)
    c = c + d
    b = _rotate_left(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _as_word(zero, value):
    """Return a signed word as an unsigned one, for every lane."""
    return zero + value.to(tl.uint32, bitcast=True)


@triton.jit
def _block(counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10):
    """Return the sixteen words of one block of the stream, for each lane's counter."""
    zero = counter ^ counter
    k0, k1, k2, k3 = _as_word(zero, w0), _as_word(zero, w1), _as_word(zero, w2), _as_word(zero, w3)
    k4, k5, k6, k7 = _as_word(zero, w4), _as_word(zero, w5), _as_word(zero, w6), _as_word(zero, w7)
    n0, n1, n2 = _as_word(zero, w8), _as_word(zero, w9), _as_word(zero, w10)
    # The state of RFC 8439, section 2.3: four constants ("expand 32-byte k"), key, counter and nonce.
    c0, c1, c2, c3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    x0, x1, x2, x3 = c0, c1, c2, c3
    x4, x5, x6, x7, x8, x9, x10, x11 = k0, k1, k2, k3, k4, k5, k6, k7
    x12, x13, x14, x15 = counter, n0, n1, n2
    for _ in range(10):  # a round of columns and a round of diagonals
        x0, x4, x8, x12 = _quarter_round(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter_round(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter_round(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter_round(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter_round(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter_round(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter_round(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter_round(x3, x4, x9, x14)
    # The rounds can be undone step by step. The block cannot, once the state before them is added (section 2.3).
    return (x0 + c0, x1 + c1, x2 + c2, x3 + c3, x4 + k0, x5 + k1, x6 + k2, x7 + k3,
            x8 + k4, x9 + k5, x10 + k6, x11 + k7, x12 + counter, x13 + n0, x14 + n1, x15 + n2)  # fmt: skip


@triton.jit
def _long(low, high):
    """Return a 64-bit word of the stream, as a signed integer."""
    return (low.to(tl.uint64) | (high.to(tl.uint64) << 32)).to(tl.int64, bitcast=True)


@triton.jit
def _value(box, place, cells, shift, BITS: tl.constexpr):
    """Return the integer of a box and of a signed place, which goes from minus half a cell to half a cell."""
    middle = (tl.load(cells + box).to(tl.int64) << shift) + (tl.full((), 1, tl.int64) << (shift - 1))
    return middle + (place >> (BITS - shift)).to(tl.int64)


@triton.jit
def _pair(out, places, rank, at, lane, PAIR: tl.constexpr, boxes, first, second, cells, shift, num_full,
          BITS: tl.constexpr, LANES: tl.constexpr, ROOM: tl.constexpr):  # fmt: skip
    """Write two neighbouring elements of each lane; list those on edges, at these ranks; return the next ranks."""
    low, high = boxes & 0xFFFF, boxes >> 16
    values = tl.join(_value(low, first, cells, shift, BITS), _value(high, second, cells, shift, BITS))
    to = at + PAIR * (2 * LANES) + tl.arange(0, 2 * LANES)
    tl.store(out + to, tl.reshape(values, (2 * LANES,)))
    place = PAIR * (2 * LANES) + lane * 2
    is_edge = low >= num_full
    tl.store(places + rank, place.to(tl.int16), mask=is_edge & (rank < ROOM))
    rank += is_edge.to(tl.int32)
    is_edge = high >= num_full
    tl.store(places + rank, (place + 1).to(tl.int16), mask=is_edge & (rank < ROOM))
    return rank + is_edge.to(tl.int32)


@triton.jit
def _four(out, places, rank, at, lane, PAIR: tl.constexpr, b0, b1, b2, b3, p0, p1, p2, p3, p4, p5, p6, p7,
          cells, shift, num_full, BITS: tl.constexpr, LANES: tl.constexpr, ROOM: tl.constexpr):  # fmt: skip
    """Write four pairs of each lane."""
    rank = _pair(out, places, rank, at, lane, PAIR, b0, p0, p1, cells, shift, num_full, BITS, LANES, ROOM)
    rank = _pair(out, places, rank, at, lane, PAIR + 1, b1, p2, p3, cells, shift, num_full, BITS, LANES, ROOM)
    rank = _pair(out, places, rank, at, lane, PAIR + 2, b2, p4, p5, cells, shift, num_full, BITS, LANES, ROOM)
    return _pair(out, places, rank, at, lane, PAIR + 3, b3, p6, p7, cells, shift, num_full, BITS, LANES, ROOM)


@triton.jit
def _narrow(word):
    """Return the two signed halves of a word, widened."""
    signed = word.to(tl.int32, bitcast=True)
    return (signed << 16) >> 16, signed >> 16


@triton.jit
def _num_edges(boxes, num_full):
    return ((boxes & 0xFFFF) >= num_full).to(tl.int32) + ((boxes >> 16) >= num_full).to(tl.int32)


# A fresh key or step must not compile the kernels again.
_WORDS = [f"w{number}" for number in range(11)]


@triton.jit(do_not_specialize=[*_WORDS, "shift", "num_full"])
def _quick(
    out,
    places,
    counts,
    cells,
    shift,
    num_full,
    w0,
    w1,
    w2,
    w3,
    w4,
    w5,
    w6,
    w7,
    w8,
    w9,
    w10,
    BITS: tl.constexpr,
    LANES: tl.constexpr,
    ROOM: tl.constexpr,
):
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    block = (tile * LANES + lane).to(tl.uint32)
    at = tile * (32 * LANES)
    places += tile * ROOM
    b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15 = _block(
        block, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    num = (_num_edges(b0, num_full) + _num_edges(b1, num_full) + _num_edges(b2, num_full) + _num_edges(b3, num_full)
           + _num_edges(b4, num_full) + _num_edges(b5, num_full) + _num_edges(b6, num_full) + _num_edges(b7, num_full)
           + _num_edges(b8, num_full) + _num_edges(b9, num_full) + _num_edges(b10, num_full)
           + _num_edges(b11, num_full) + _num_edges(b12, num_full) + _num_edges(b13, num_full)
           + _num_edges(b14, num_full) + _num_edges(b15, num_full))  # fmt: skip
    rank = tl.cumsum(num, 0) - num
    tl.store(counts + tile, tl.sum(num, 0))
    n1 = w9 + (1 << 16)  # the stream of places; a step leaves the upper half of this word free
    if BITS == 16:
        p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _block(
            block, w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10
        )
        l0, h0 = _narrow(p0)
        l1, h1 = _narrow(p1)
        l2, h2 = _narrow(p2)
        l3, h3 = _narrow(p3)
        rank = _four(out, places, rank, at, lane, 0, b0, b1, b2, b3, l0, h0, l1, h1, l2, h2, l3, h3,
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        l0, h0 = _narrow(p4)
        l1, h1 = _narrow(p5)
        l2, h2 = _narrow(p6)
        l3, h3 = _narrow(p7)
        rank = _four(out, places, rank, at, lane, 4, b4, b5, b6, b7, l0, h0, l1, h1, l2, h2, l3, h3,
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        l0, h0 = _narrow(p8)
        l1, h1 = _narrow(p9)
        l2, h2 = _narrow(p10)
        l3, h3 = _narrow(p11)
        rank = _four(out, places, rank, at, lane, 8, b8, b9, b10, b11, l0, h0, l1, h1, l2, h2, l3, h3,
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        l0, h0 = _narrow(p12)
        l1, h1 = _narrow(p13)
        l2, h2 = _narrow(p14)
        l3, h3 = _narrow(p15)
        rank = _four(out, places, rank, at, lane, 12, b12, b13, b14, b15, l0, h0, l1, h1, l2, h2, l3, h3,
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
    elif BITS == 32:
        p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _block(
            block * 2, w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10
        )
        rank = _four(out, places, rank, at, lane, 0, b0, b1, b2, b3,
                     _signed(p0), _signed(p1), _signed(p2), _signed(p3),
                     _signed(p4), _signed(p5), _signed(p6), _signed(p7),
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        rank = _four(out, places, rank, at, lane, 4, b4, b5, b6, b7,
                     _signed(p8), _signed(p9), _signed(p10), _signed(p11),
                     _signed(p12), _signed(p13), _signed(p14), _signed(p15),
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _block(
            block * 2 + 1, w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10
        )
        rank = _four(out, places, rank, at, lane, 8, b8, b9, b10, b11,
                     _signed(p0), _signed(p1), _signed(p2), _signed(p3),
                     _signed(p4), _signed(p5), _signed(p6), _signed(p7),
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
        rank = _four(out, places, rank, at, lane, 12, b12, b13, b14, b15,
                     _signed(p8), _signed(p9), _signed(p10), _signed(p11),
                     _signed(p12), _signed(p13), _signed(p14), _signed(p15),
                     cells, shift, num_full, BITS, LANES, ROOM)  # fmt: skip
    else:
        rank = _wide(out, places, rank, at, lane, 0, b0, b1, b2, b3, block * 4, cells, shift, num_full,
                     w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10, LANES, ROOM)  # fmt: skip
        rank = _wide(out, places, rank, at, lane, 4, b4, b5, b6, b7, block * 4 + 1, cells, shift, num_full,
                     w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10, LANES, ROOM)  # fmt: skip
        rank = _wide(out, places, rank, at, lane, 8, b8, b9, b10, b11, block * 4 + 2, cells, shift, num_full,
                     w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10, LANES, ROOM)  # fmt: skip
        rank = _wide(out, places, rank, at, lane, 12, b12, b13, b14, b15, block * 4 + 3, cells, shift, num_full,
                     w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, w10, LANES, ROOM)  # fmt: skip


@triton.jit
def _signed(word):
    return word.to(tl.int32, bitcast=True)


@triton.jit
def _wide(out, places, rank, at, lane, PAIR: tl.constexpr, b0, b1, b2, b3, block, cells, shift, num_full,
          w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, LANES: tl.constexpr, ROOM: tl.constexpr):  # fmt: skip
    """Write four pairs of each lane, with places of 64 bits."""
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _block(
        block, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    return _four(out, places, rank, at, lane, PAIR, b0, b1, b2, b3,
                 _long(p0, p1), _long(p2, p3), _long(p4, p5), _long(p6, p7),
                 _long(p8, p9), _long(p10, p11), _long(p12, p13), _long(p14, p15),
                 cells, shift, num_full, 64, LANES, ROOM)  # fmt: skip


@triton.jit
def _cell(part, cumulative, inside, LENGTH: tl.constexpr, SEARCH: tl.constexpr):
    """Return how many cumulative parts there are up to this one, by bisection."""
    cell = (part ^ part).to(tl.int32)
    for power in tl.static_range(0, SEARCH):
        probe = cell + (1 << (SEARCH - 1 - power))
        is_part = probe <= LENGTH
        bound = tl.load(cumulative + probe - 1, mask=inside & is_part, other=0)
        cell = tl.where(is_part & (bound <= part), probe, cell)
    return cell


@triton.jit
def _try(is_open, value, is_unsure, x0, x1, x2, x3, x4, x5, x6, x7, cells, shift, num_full, cumulative, bases, rooms,
         curve, LENGTH: tl.constexpr, SEARCH: tl.constexpr):  # fmt: skip
    """Test a point, and take another box where it is above the curve; return what is open, the integers, and doubts."""
    first = _long(x0, x1)
    second = _long(x2, x3).to(tl.uint64, bitcast=True)
    third = _long(x4, x5).to(tl.uint64, bitcast=True)
    cell = _cell(
        (first.to(tl.uint64, bitcast=True) >> 1).to(tl.int64, bitcast=True), cumulative, is_open, LENGTH, SEARCH
    )
    place = (second >> 11).to(tl.int64).to(tl.float64) * _UNIT
    level = (third >> 11).to(tl.int64).to(tl.float64) * _UNIT
    x = (cell.to(tl.float64) + place) / tl.load(curve + 1)
    height = tl.load(curve) * tl.exp(x * x * -0.5)
    base = tl.load(bases + cell, mask=is_open, other=0.0)
    room = tl.load(rooms + cell, mask=is_open, other=0.0)
    excess = base + room * level - height
    is_certain = tl.abs(excess) > _UNSURE * (height + room)  # not for NaN, which is the tail's
    is_unsure |= is_open & ~is_certain
    of_point = (cell.to(tl.int64) << shift) + (second >> (64 - shift)).to(tl.int64, bitcast=True)
    is_below = is_certain & (excess < 0)
    value = tl.where(is_open & is_below, of_point ^ -(first & 1), value)
    is_open &= is_certain & ~is_below
    box = x6 & 0xFFFF
    is_full = is_open & (box < num_full)
    value = tl.where(is_full, _value(box, _long(x6, x7), cells, shift, 64), value)
    return is_open & ~is_full, value, is_unsure


@triton.jit(do_not_specialize=[*_WORDS, "shift", "num_full"])
def _edges(
    out,
    places,
    counts,
    ends,
    opened,
    cells,
    shift,
    num_full,
    cumulative,
    bases,
    rooms,
    curve,
    w0,
    w1,
    w2,
    w3,
    w4,
    w5,
    w6,
    w7,
    w8,
    w9,
    w10,
    TILE: tl.constexpr,
    ROOM: tl.constexpr,
    WIDTH: tl.constexpr,
    OPEN: tl.constexpr,
    LENGTH: tl.constexpr,
    SEARCH: tl.constexpr,
):
    tile = tl.program_id(0).to(tl.int64)
    count = tl.load(counts + tile)
    start = tl.load(ends + tile) - count
    if count > ROOM:
        tl.atomic_add(opened, _MANY)  # the list has overflowed
    for begin in range(0, tl.minimum(count, ROOM), WIDTH):
        local = begin + tl.arange(0, WIDTH)
        inside = local < count
        element = tile * TILE + tl.load(places + tile * ROOM + local, mask=inside, other=0).to(tl.int64)
        rank = start + local
        is_open, is_unsure = inside, inside & (element < 0)
        value = element ^ element
        block = rank.to(tl.uint32)
        n1 = (w9 + (2 << 16)) + local * 0
        n2 = w10 + local * 0
        for attempt in range(_ATTEMPTS):
            if tl.sum(is_open.to(tl.int32), 0) > 0:
                x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _block(
                    block, w0, w1, w2, w3, w4, w5, w6, w7, w8, n1, n2
                )
                is_open, value, is_unsure = _try(
                    is_open, value, is_unsure, x0, x1, x2, x3, x4, x5, x6, x7,
                    cells, shift, num_full, cumulative, bases, rooms, curve, LENGTH, SEARCH,
                )  # fmt: skip
                if tl.sum(is_open.to(tl.int32), 0) > 0:
                    is_open, value, is_unsure = _try(
                        is_open, value, is_unsure, x8, x9, x10, x11, x12, x13, x14, x15,
                        cells, shift, num_full, cumulative, bases, rooms, curve, LENGTH, SEARCH,
                    )  # fmt: skip
                # Further blocks are those of the element's private stream: its number is part of the nonce.
                private = (tl.full((), 1, tl.int64) << 47) | (element << 7)
                n1 = (w9 & 0xFFFF) | ((private & 0xFFFF) << 16).to(tl.int32)
                n2 = (private >> 16).to(tl.int32)
                block = (local * 0 + attempt).to(tl.uint32)
        tl.store(out + element, value, mask=inside)
        is_unsure |= is_open
        if tl.sum(is_unsure.to(tl.int32), 0) > 0:
            entry = tl.atomic_add(opened + local * 0, (local * 0 + 1).to(tl.int64), mask=is_unsure)
            is_listed = is_unsure & (entry < OPEN)
            tl.store(opened + 1 + 2 * entry, element, mask=is_listed)
            tl.store(opened + 2 + 2 * entry, rank, mask=is_listed)


@triton.jit
def _rounded(values):
    """Return the nearest integers, halves to even, at most 2^50 in size; NaN counts as 0: as `NoiseGrid` rounds."""
    inside = tl.minimum(tl.maximum(tl.where(values == values, values, 0.0), -1125899906842624.0), 1125899906842624.0)
    # Next to 1.5 * 2^52, neighbouring numbers in double precision are 1 apart.
    return (inside + 6755399441055744.0) - 6755399441055744.0


@triton.jit
def _optimize(
    at,
    size,
    param,
    total,
    noise,
    state1,
    state2,
    scales,
    lr,
    decay,
    first,
    second,
    eps,
    correct1,
    correct2,
    KIND: tl.constexpr,
    MOMENTUM: tl.constexpr,
    NESTEROV: tl.constexpr,
    BEGIN: tl.constexpr,
):
    """Take the optimizer's step for one value per lane, as torch.optim.SGD, Adam and AdamW define it."""
    inside = at < size
    # Rounded sum and noise meet as integers, in double precision, which is exact; then they are scaled, once.
    rounded = _rounded(tl.load(total + at, mask=inside, other=0.0).to(tl.float64) * tl.load(scales))
    integer = rounded + tl.load(noise + at, mask=inside, other=0).to(tl.float64)
    g = (integer * tl.load(scales + 1)).to(tl.float32)
    p = tl.load(param + at, mask=inside, other=0.0)
    if KIND == 0:
        g += decay * p
        if MOMENTUM:
            # torch starts the momentum with the first gradient, without dampening.
            if BEGIN:  # noqa: SIM108
                m = g
            else:
                m = first * tl.load(state1 + at, mask=inside, other=0.0) + (1.0 - second) * g
            tl.store(state1 + at, m, mask=inside)
            if NESTEROV:
                g += first * m
            else:
                g = m
        p -= lr * g
    else:
        if KIND == 1:
            g += decay * p
        else:
            # AdamW shrinks the weights directly, not through the moments (Loshchilov & Hutter 2019).
            p *= 1.0 - lr * decay
        m = tl.load(state1 + at, mask=inside, other=0.0)
        v = tl.load(state2 + at, mask=inside, other=0.0)
        m += (1.0 - first) * (g - m)
        v = second * v + (1.0 - second) * g * g
        tl.store(state1 + at, m, mask=inside)
        tl.store(state2 + at, v, mask=inside)
        # Kingma & Ba 2015, Algorithm 1, with torch's order: sqrt(v) is corrected before eps is added.
        p -= lr / correct1 * m / (tl.sqrt(v) / correct2 + eps)
    tl.store(param + at, p, mask=inside)


@triton.jit
def _update(
    tiles,
    pointers,
    scales,
    lr,
    decay,
    first,
    second,
    eps,
    correct1,
    correct2,
    KIND: tl.constexpr,
    MOMENTUM: tl.constexpr,
    NESTEROV: tl.constexpr,
    BEGIN: tl.constexpr,
    SUM: tl.constexpr,
    WIDTH: tl.constexpr,
):
    entry = tiles + tl.program_id(0).to(tl.int64) * 2
    row = pointers + tl.load(entry) * 6
    at = tl.load(entry + 1) + tl.arange(0, WIDTH)
    param = tl.load(row).to(tl.pointer_type(tl.float32))
    total = tl.load(row + 1).to(tl.pointer_type(SUM))
    noise = tl.load(row + 2).to(tl.pointer_type(tl.int64))
    state1 = tl.load(row + 3).to(tl.pointer_type(tl.float32))
    state2 = tl.load(row + 4).to(tl.pointer_type(tl.float32))
    size = tl.load(row + 5)
    _optimize(at, size, param, total, noise, state1, state2, scales, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)  # fmt: skip
