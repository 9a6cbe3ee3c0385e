"""Which form of a kernel for integer noise, of its meeting with the sum, and of sums of products is fastest on a GPU?

Variants of kernels, next to the ones that hush uses; nothing here is part of the package. Prints a table.

    PYTHONPATH=src python3 benchmarks/noise_kernels.py [profile draw update sums products[:TOTALS]]
"""

# A laboratory that goes once its question is answered; its lambdas run where they are made.
# ruff: noqa
# mypy: ignore-errors

from __future__ import annotations

import statistics
import sys
import traceback
from collections.abc import Callable

import torch
import triton
import triton.language as tl

from hush.training.kernels import noise_cuda
from hush.training.noise import integer_gaussian as plain

SIZE = 124_439_808  # the parameters of GPT-2 small
KEY = bytes(range(32))
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
WARM = "--warm" in sys.argv  # compile only: several processes may do so at once


def milliseconds(run: Callable[[], object], repetitions: int = 15) -> float:
    """Return the median time of a run, measured on the device, after warming up."""
    if WARM:
        run()
        return float("nan")
    for _ in range(3):
        run()
    pairs = []
    for _ in range(repetitions):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        pairs.append((start, end))
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


def report(name: str, run: Callable[[], object], base: float = 0.0) -> None:
    """Print the time of a variant; or why there is none."""
    try:
        time = milliseconds(run)
        print(f"{name:60} {time:8.3f} ms" + (f" {time / base:6.2f}x" if base else ""), flush=True)
    except Exception as error:
        print(f"{name:60} {type(error).__name__}: {str(error)[:200]}", flush=True)


@triton.jit
def _words16(counter, key, stream: tl.constexpr, ROUNDS: tl.constexpr):
    """Return a block of ChaCha with any number of rounds; the key's eleven words lie in memory."""
    zero = counter ^ counter
    k0 = zero + tl.load(key).to(tl.uint32, bitcast=True)
    k1 = zero + tl.load(key + 1).to(tl.uint32, bitcast=True)
    k2 = zero + tl.load(key + 2).to(tl.uint32, bitcast=True)
    k3 = zero + tl.load(key + 3).to(tl.uint32, bitcast=True)
    k4 = zero + tl.load(key + 4).to(tl.uint32, bitcast=True)
    k5 = zero + tl.load(key + 5).to(tl.uint32, bitcast=True)
    k6 = zero + tl.load(key + 6).to(tl.uint32, bitcast=True)
    k7 = zero + tl.load(key + 7).to(tl.uint32, bitcast=True)
    n0 = zero + tl.load(key + 8).to(tl.uint32, bitcast=True) + stream
    n1 = zero + tl.load(key + 9).to(tl.uint32, bitcast=True)
    n2 = zero + tl.load(key + 10).to(tl.uint32, bitcast=True)
    c0, c1, c2, c3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    x0, x1, x2, x3 = c0, c1, c2, c3
    x4, x5, x6, x7, x8, x9, x10, x11 = k0, k1, k2, k3, k4, k5, k6, k7
    x12, x13, x14, x15 = counter, n0, n1, n2
    for _ in range(ROUNDS // 2):
        x0, x4, x8, x12 = noise_cuda._quarter_round(x0, x4, x8, x12)
        x1, x5, x9, x13 = noise_cuda._quarter_round(x1, x5, x9, x13)
        x2, x6, x10, x14 = noise_cuda._quarter_round(x2, x6, x10, x14)
        x3, x7, x11, x15 = noise_cuda._quarter_round(x3, x7, x11, x15)
        x0, x5, x10, x15 = noise_cuda._quarter_round(x0, x5, x10, x15)
        x1, x6, x11, x12 = noise_cuda._quarter_round(x1, x6, x11, x12)
        x2, x7, x8, x13 = noise_cuda._quarter_round(x2, x7, x8, x13)
        x3, x4, x9, x14 = noise_cuda._quarter_round(x3, x4, x9, x14)
    return (x0 + c0, x1 + c1, x2 + c2, x3 + c3, x4 + k0, x5 + k1, x6 + k2, x7 + k3,
            x8 + k4, x9 + k5, x10 + k6, x11 + k7, x12 + counter, x13 + n0, x14 + n1, x15 + n2)  # fmt: skip


@triton.jit
def _value(box, place, table, shift, TABLE: tl.constexpr, ZERO: tl.constexpr):
    """Return the integer of a box and a place: the table is missing, has cells, or has middles."""
    if TABLE == 0:
        cell = box.to(tl.int32) - 32768
    else:
        cell = tl.load(table + box).to(tl.int32)
    # A place of 32 bits: its upper `shift` bits are the integer's lower ones.
    return (cell.to(tl.int64) << shift) + (place >> (32 - shift)).to(tl.int64)


@triton.jit
def _pair(
    out,
    size,
    at,
    lane,
    low_at: tl.constexpr,
    word,
    a,
    b,
    table,
    shift,
    num_full,
    places,
    rank,
    room,
    mode: tl.constexpr,
    LANES: tl.constexpr,
    TABLE: tl.constexpr,
    LIST: tl.constexpr,
):
    """Write two elements, and list those on edges; return how many a lane has listed."""
    low, high = word & 0xFFFF, word >> 16
    first = _value(low, a, table, shift, TABLE, 0)
    second = _value(high, b, table, shift, TABLE, 0)
    if mode == 32:
        first, second = first.to(tl.int32), second.to(tl.int32)
    here, there = at + low_at * LANES, at + (low_at + 1) * LANES
    tl.store(out + here, first, mask=here < size)
    tl.store(out + there, second, mask=there < size)
    if LIST:
        edge = (low >= num_full).to(tl.int32)
        tl.store(places + rank, (low_at * LANES + lane).to(tl.int16), mask=(edge > 0) & (rank < room))
        rank += edge
        edge = (high >= num_full).to(tl.int32)
        tl.store(places + rank, ((low_at + 1) * LANES + lane).to(tl.int16), mask=(edge > 0) & (rank < room))
        rank += edge
    return rank


@triton.jit
def _count(word, num_full):
    return ((word & 0xFFFF) >= num_full).to(tl.int32) + ((word >> 16) >= num_full).to(tl.int32)


@triton.jit
def _planes(
    out,
    size,
    key,
    table,
    shift,
    num_full,
    places,
    counts,
    LANES: tl.constexpr,
    ROUNDS: tl.constexpr,
    TABLE: tl.constexpr,
    LIST: tl.constexpr,
    MODE: tl.constexpr,
    ROOM: tl.constexpr,
):
    """48 bits per element: two blocks of places and one of boxes for 32 elements of a lane, LANES apart."""
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    counter = (tl.program_id(0) * LANES + lane).to(tl.uint32)
    b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15 = _words16(counter, key, 0, ROUNDS)
    at = tile * (32 * LANES) + lane
    rank = lane * 0
    mine = places + tile * ROOM
    if LIST:
        num = (_count(b0, num_full) + _count(b1, num_full) + _count(b2, num_full) + _count(b3, num_full)
               + _count(b4, num_full) + _count(b5, num_full) + _count(b6, num_full) + _count(b7, num_full)
               + _count(b8, num_full) + _count(b9, num_full) + _count(b10, num_full) + _count(b11, num_full)
               + _count(b12, num_full) + _count(b13, num_full) + _count(b14, num_full) + _count(b15, num_full))  # fmt: skip
        rank = tl.cumsum(num, 0) - num
        tl.store(counts + tile, tl.sum(num, 0))
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _words16(counter * 2, key, 1, ROUNDS)
    rank = _pair(out, size, at, lane, 0, b0, p0, p1, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST)
    rank = _pair(out, size, at, lane, 2, b1, p2, p3, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST)
    rank = _pair(out, size, at, lane, 4, b2, p4, p5, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST)
    rank = _pair(out, size, at, lane, 6, b3, p6, p7, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST)
    rank = _pair(out, size, at, lane, 8, b4, p8, p9, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST)
    rank = _pair(
        out, size, at, lane, 10, b5, p10, p11, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 12, b6, p12, p13, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 14, b7, p14, p15, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _words16(counter * 2 + 1, key, 1, ROUNDS)
    rank = _pair(
        out, size, at, lane, 16, b8, p0, p1, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 18, b9, p2, p3, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 20, b10, p4, p5, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 22, b11, p6, p7, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 24, b12, p8, p9, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 26, b13, p10, p11, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 28, b14, p12, p13, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )
    rank = _pair(
        out, size, at, lane, 30, b15, p14, p15, table, shift, num_full, mine, rank, ROOM, MODE, LANES, TABLE, LIST
    )


@triton.jit
def _cell_of(part, cumulative, inside, LENGTH: tl.constexpr, BITS: tl.constexpr):
    cell = (part ^ part).to(tl.int32)
    for power in tl.static_range(0, BITS):
        probe = cell + (1 << (BITS - 1 - power))
        is_part = probe <= LENGTH
        bound = tl.load(cumulative + probe - 1, mask=inside & is_part, other=0)
        cell = tl.where(is_part & (bound <= part), probe, cell)
    return cell


@triton.jit
def _tried(
    inside, w0, w1, w2, w3, w4, w5, cumulative, bases, rooms, curve, shift, LENGTH: tl.constexpr, BITS: tl.constexpr
):
    """Return the integer of a point of an edge, whether it is below the curve, and whether that is unsure."""
    first = noise_cuda._long(w0, w1)
    second = noise_cuda._long(w2, w3).to(tl.uint64, bitcast=True)
    third = noise_cuda._long(w4, w5).to(tl.uint64, bitcast=True)
    part = (first.to(tl.uint64, bitcast=True) >> 1).to(tl.int64, bitcast=True)
    cell = _cell_of(part, cumulative, inside, LENGTH, BITS)
    place = (second >> 11).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16
    level = (third >> 11).to(tl.int64).to(tl.float64) * 1.1102230246251565e-16
    x = (cell.to(tl.float64) + place) * tl.load(curve + 1)
    height = tl.load(curve) * tl.exp(x * x * -0.5)
    base = tl.load(bases + cell, mask=inside, other=0.0)
    room = tl.load(rooms + cell, mask=inside, other=0.0)
    excess = base + room * level - height
    is_sure = tl.abs(excess) > 1.4551915228366852e-11 * (height + room)
    value = (cell.to(tl.int64) << shift) + (second >> (64 - shift)).to(tl.int64, bitcast=True)
    return value ^ -(first & 1), excess < 0, inside & ~is_sure


@triton.jit
def _again(w0, w1, table, shift, num_full, inside):
    """Return the integer of another box, and whether the box is full."""
    box = w0 & 0xFFFF
    cell = tl.load(table + box, mask=inside, other=0).to(tl.int64)
    return (cell << shift) + (w1 >> (32 - shift)).to(tl.int64), box < num_full


@triton.jit
def _edges(
    out,
    key,
    table,
    shift,
    num_full,
    places,
    counts,
    unsure,
    cumulative,
    bases,
    rooms,
    curve,
    size,
    LANES: tl.constexpr,
    ROUNDS: tl.constexpr,
    ROOM: tl.constexpr,
    MODE: tl.constexpr,
    LENGTH: tl.constexpr,
    BITS: tl.constexpr,
):
    """Settle a tile's elements on edges: each reads a block, for up to two points and two more boxes."""
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, ROOM)
    count = tl.load(counts + tile)
    inside = lane < count
    place = tl.load(places + tile * ROOM + lane, mask=inside, other=0).to(tl.int64) & 0xFFFF
    at = tile * (32 * LANES) + place
    w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = _words16(
        (tl.program_id(0) * ROOM + lane).to(tl.uint32), key, 2, ROUNDS
    )
    value, done, is_unsure = _tried(
        inside, w0, w1, w2, w3, w4, w5, cumulative, bases, rooms, curve, shift, LENGTH, BITS
    )
    other, full = _again(w6, w7, table, shift, num_full, inside & ~done)
    value = tl.where(done, value, other)
    done |= full
    left = inside & ~done
    if tl.sum(left.to(tl.int32), 0) > 0:
        other, below, doubtful = _tried(
            left, w8, w9, w10, w11, w12, w13, cumulative, bases, rooms, curve, shift, LENGTH, BITS
        )
        is_unsure |= left & doubtful
        value = tl.where(done, value, other)
        done |= below
        other, full = _again(w14, w15, table, shift, num_full, inside & ~done)
        value = tl.where(done, value, other)
        done |= full
    if MODE == 32:
        tl.store(out + at, value.to(tl.int32), mask=inside & (at < size))
    else:
        tl.store(out + at, value, mask=inside & (at < size))
    # A product would draw further blocks for these; here they are counted, as are too long lists.
    bad = tl.sum((is_unsure | (inside & ~done)).to(tl.int32), 0) + (count > ROOM).to(tl.int32)
    if bad > 0:
        tl.atomic_add(unsure, bad)


@triton.jit
def _raw(out, size, key, LANES: tl.constexpr, ROUNDS: tl.constexpr, BLOCKS: tl.constexpr, STORED: tl.constexpr):
    """The words of a stream, STORED of the 16 words of BLOCKS blocks as int64: what the cipher alone costs."""
    lane = tl.arange(0, LANES)
    counter = (tl.program_id(0) * LANES + lane).to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _words16(counter, key, 0, ROUNDS)
    if BLOCKS == 2:
        y0, y1, y2, y3, y4, y5, y6, y7, y8, y9, y10, y11, y12, y13, y14, y15 = _words16(counter, key, 1, ROUNDS)
        x0, x1, x2, x3, x4, x5, x6, x7 = x0 ^ y0, x1 ^ y1, x2 ^ y2, x3 ^ y3, x4 ^ y4, x5 ^ y5, x6 ^ y6, x7 ^ y7
        x8, x9, x10, x11, x12, x13, x14, x15 = (
            x8 ^ y8,
            x9 ^ y9,
            x10 ^ y10,
            x11 ^ y11,
            x12 ^ y12,
            x13 ^ y13,
            x14 ^ y14,
            x15 ^ y15,
        )
    at = out + tl.program_id(0).to(tl.int64) * (16 * LANES) + lane
    if STORED:
        tl.store(at, x0.to(tl.int64))
        tl.store(at + LANES, x1.to(tl.int64))
        tl.store(at + 2 * LANES, x2.to(tl.int64))
        tl.store(at + 3 * LANES, x3.to(tl.int64))
        tl.store(at + 4 * LANES, x4.to(tl.int64))
        tl.store(at + 5 * LANES, x5.to(tl.int64))
        tl.store(at + 6 * LANES, x6.to(tl.int64))
        tl.store(at + 7 * LANES, x7.to(tl.int64))
        tl.store(at + 8 * LANES, x8.to(tl.int64))
        tl.store(at + 9 * LANES, x9.to(tl.int64))
        tl.store(at + 10 * LANES, x10.to(tl.int64))
        tl.store(at + 11 * LANES, x11.to(tl.int64))
        tl.store(at + 12 * LANES, x12.to(tl.int64))
        tl.store(at + 13 * LANES, x13.to(tl.int64))
        tl.store(at + 14 * LANES, x14.to(tl.int64))
        tl.store(at + 15 * LANES, x15.to(tl.int64))
    else:
        tl.store(at, (x0 ^ x1 ^ x2 ^ x3 ^ x4 ^ x5 ^ x6 ^ x7 ^ x8 ^ x9 ^ x10 ^ x11 ^ x12 ^ x13 ^ x14 ^ x15).to(tl.int64))


class Tables:
    """A law's tables on the device."""

    def __init__(self, stddev: float, device: torch.device = DEVICE) -> None:
        law = plain._BoxLaw.of(stddev)
        self.law, self.shift, self.num_full = law, law.shift, law.num_full
        cells = torch.zeros(65536, dtype=torch.int16)
        drawn = torch.from_numpy(law.histogram.cells())
        cells[: len(drawn)] = drawn.to(torch.int16)
        self.cells = cells.to(device)
        self.cumulative, self.bases, self.rooms = (
            torch.from_numpy(table).to(device) for table in plain._edge_tables(law.histogram, torch.device("cpu"))[:3]
        )
        self.curve = torch.tensor([law.histogram.height, 1 / law.histogram.rho], dtype=torch.float64, device=device)
        self.key = torch.tensor(noise_cuda._key_words(KEY, 3), dtype=torch.int32, device=device)


def planes(t: Tables, out: torch.Tensor, lanes: int, rounds: int, table: torch.Tensor | None, listed: bool, warps: int, places: torch.Tensor, counts: torch.Tensor) -> None:  # fmt: skip
    """Start the kernel that draws boxes and places."""
    size = len(out)
    _planes[(triton.cdiv(size, 32 * lanes),)](
        out, size, t.key, t.cells if table is None else table, t.shift, t.num_full, places, counts, LANES=lanes,
        ROUNDS=rounds, TABLE=0 if table is None else 1, LIST=listed, MODE=32 if out.dtype is torch.int32 else 64,
        ROOM=lanes, num_warps=warps,
    )  # fmt: skip


def edges(t: Tables, out: torch.Tensor, lanes: int, rounds: int, warps: int, places: torch.Tensor, counts: torch.Tensor, unsure: torch.Tensor) -> None:  # fmt: skip
    """Start the kernel that settles elements on edges."""
    size = len(out)
    _edges[(triton.cdiv(size, 32 * lanes),)](
        out, t.key, t.cells, t.shift, t.num_full, places, counts, unsure, t.cumulative, t.bases, t.rooms, t.curve,
        size, LANES=lanes, ROUNDS=rounds, ROOM=lanes, MODE=32 if out.dtype is torch.int32 else 64,
        LENGTH=len(t.cumulative), BITS=len(t.cumulative).bit_length(), num_warps=warps,
    )  # fmt: skip


def draw() -> None:
    """Time the drawing of noise for GPT-2 small."""
    base = milliseconds(lambda: torch.randn(SIZE, device=DEVICE))
    print(f"{'torch.randn':60} {base:8.3f} ms")
    out64, out32 = (torch.empty(SIZE, dtype=dtype, device=DEVICE) for dtype in (torch.int64, torch.int32))
    report("copy of int64", lambda: out64.copy_(out64.roll(0)) if False else out64.clone(), base)
    report("fill of int64", lambda: out64.zero_(), base)
    report("hush today, stddev 2^24", lambda: plain.integer_gaussian(KEY, 0, SIZE, stddev=2.0**24, device=DEVICE), base)
    report(
        "hush today, stddev 2^22 (narrow)",
        lambda: plain.integer_gaussian(KEY, 0, SIZE, stddev=2.0**22, device=DEVICE),
        base,
    )
    t = Tables(2.0**24)
    middles = plain.middles(t.law.histogram, t.shift, DEVICE)
    report(
        "hush today, its kernel `quick` alone",
        lambda: noise_cuda.quick(KEY, 0, SIZE, middles, t.shift, t.num_full),
        base,
    )
    room = SIZE // 16 // 256 * 256
    for rounds in (20, 12, 8):
        for blocks, stored, lanes in (
            (1, True, 128),
            (2, True, 128),
            *(((2, False, 128), (2, True, 256)) if rounds == 20 else ()),
        ):
            grid = (SIZE // (16 * lanes),)
            report(
                f"cipher alone, {rounds} rounds, {blocks} words, stored {stored}, lanes {lanes}",
                lambda: _raw[grid](
                    out64, room, t.key, LANES=lanes, ROUNDS=rounds, BLOCKS=blocks, STORED=stored, num_warps=lanes // 32
                ),
                base,
            )
    tables = {"none": None, "int16": t.cells, "int32": t.cells.int(), "int64": t.cells.long()}
    for name, table in tables.items():
        lanes = 128
        places = torch.empty(triton.cdiv(SIZE, 32 * lanes), lanes, dtype=torch.int16, device=DEVICE)
        counts = torch.empty(len(places), dtype=torch.int32, device=DEVICE)
        report(
            f"planes, 48 bits, 20 rounds, table {name}, no list, int64",
            lambda: planes(t, out64, 128, 20, table, False, 4, places, counts),
            base,
        )
    unsure = torch.zeros(1, dtype=torch.int32, device=DEVICE)
    for lanes, warps in ((64, 2), (128, 4), (256, 8)):
        places = torch.empty(triton.cdiv(SIZE, 32 * lanes), lanes, dtype=torch.int16, device=DEVICE)
        counts = torch.empty(len(places), dtype=torch.int32, device=DEVICE)
        for out in (out64, out32):
            report(
                f"planes, list, lanes {lanes}, warps {warps}, {out.dtype}",
                lambda: planes(t, out, lanes, 20, t.cells, True, warps, places, counts),
                base,
            )
        for warps_of_edges in (1, 4):
            report(
                f"   edges, room {lanes}, warps {warps_of_edges}, int64",
                lambda: edges(t, out64, lanes, 20, warps_of_edges, places, counts, unsure),
                base,
            )

        def both(out: torch.Tensor, rounds: int) -> None:
            planes(t, out, lanes, rounds, t.cells, True, warps, places, counts)
            edges(t, out, lanes, rounds, min(warps, 4), places, counts, unsure)

        for rounds in (20, 12, 8) if lanes == 128 else (20,):
            report(f"planes and edges, lanes {lanes}, {rounds} rounds, int64", lambda: both(out64, rounds), base)
        report(f"planes and edges, lanes {lanes}, 20 rounds, int32", lambda: both(out32, 20), base)
        unsure.zero_()
        both(out64, 20)
        values = out64.double()
        fourth = (values / 2.0**24).pow_(4).mean().item()
        print(
            f"   not settled {unsure.item()}, most edges {counts.max().item()}, mean {values.mean().item() / 2**24:.2e}, stddev {values.std().item() / 2**24:.6f}, fourth moment {fourth:.5f}"
        )
        del values


@triton.jit
def _adamw(param, total, state1, state2, scales, lr, beta1, beta2, at, inside, noise):
    """Take AdamW's step for one value per lane, with noise from registers."""
    rounded = noise_cuda._rounded(tl.load(total + at, mask=inside, other=0.0).to(tl.float64) * tl.load(scales))
    g = ((rounded + noise.to(tl.float64)) * tl.load(scales + 1)).to(tl.float32)
    p = tl.load(param + at, mask=inside, other=0.0) * (1.0 - lr * 0.01)
    m = tl.load(state1 + at, mask=inside, other=0.0)
    v = tl.load(state2 + at, mask=inside, other=0.0)
    m += (1.0 - beta1) * (g - m)
    v = beta2 * v + (1.0 - beta2) * g * g
    tl.store(state1 + at, m, mask=inside)
    tl.store(state2 + at, v, mask=inside)
    tl.store(param + at, p - lr * m / (tl.sqrt(v) + 1e-8), mask=inside)


@triton.jit
def _two(
    param,
    total,
    state1,
    state2,
    scales,
    lr,
    beta1,
    beta2,
    at,
    size,
    low_at: tl.constexpr,
    word,
    a,
    b,
    table,
    shift,
    num_full,
    places,
    rank,
    LANES: tl.constexpr,
    LIST: tl.constexpr,
):
    low, high = word & 0xFFFF, word >> 16
    first = _value(low, a, table, shift, 1, 0)
    second = _value(high, b, table, shift, 1, 0)
    here, there = at + low_at * LANES, at + (low_at + 1) * LANES
    is_first, is_second = here < size, there < size
    if LIST:
        lane = tl.arange(0, LANES)
        edge = low >= num_full
        tl.store(places + rank, (low_at * LANES + lane).to(tl.int16), mask=edge & (rank < LANES))
        rank += edge.to(tl.int32)
        is_first &= ~edge
        edge = high >= num_full
        tl.store(places + rank, ((low_at + 1) * LANES + lane).to(tl.int16), mask=edge & (rank < LANES))
        rank += edge.to(tl.int32)
        is_second &= ~edge
    _adamw(param, total, state1, state2, scales, lr, beta1, beta2, here, is_first, first)
    _adamw(param, total, state1, state2, scales, lr, beta1, beta2, there, is_second, second)
    return rank


@triton.jit
def _fused(
    param,
    total,
    state1,
    state2,
    scales,
    lr,
    beta1,
    beta2,
    size,
    key,
    table,
    shift,
    num_full,
    places,
    unsure,
    cumulative,
    bases,
    rooms,
    curve,
    LANES: tl.constexpr,
    ROUNDS: tl.constexpr,
    LIST: tl.constexpr,
    LENGTH: tl.constexpr,
    BITS: tl.constexpr,
):
    """Draw noise and take AdamW's step with it, in one pass; elements on edges follow at the end of their tile."""
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    counter = (tl.program_id(0) * LANES + lane).to(tl.uint32)
    b0, b1, b2, b3, b4, b5, b6, b7, b8, b9, b10, b11, b12, b13, b14, b15 = _words16(counter, key, 0, ROUNDS)
    at = tile * (32 * LANES) + lane
    mine = places + tile * LANES
    rank = lane * 0
    count = 0
    if LIST:
        num = (
            _count(b0, num_full)
            + _count(b1, num_full)
            + _count(b2, num_full)
            + _count(b3, num_full)
            + _count(b4, num_full)
            + _count(b5, num_full)
            + _count(b6, num_full)
            + _count(b7, num_full)
            + _count(b8, num_full)
            + _count(b9, num_full)
            + _count(b10, num_full)
            + _count(b11, num_full)
            + _count(b12, num_full)
            + _count(b13, num_full)
            + _count(b14, num_full)
            + _count(b15, num_full)
        )
        rank = tl.cumsum(num, 0) - num
        count = tl.sum(num, 0)
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _words16(counter * 2, key, 1, ROUNDS)
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        0,
        b0,
        p0,
        p1,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        2,
        b1,
        p2,
        p3,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        4,
        b2,
        p4,
        p5,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        6,
        b3,
        p6,
        p7,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        8,
        b4,
        p8,
        p9,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        10,
        b5,
        p10,
        p11,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        12,
        b6,
        p12,
        p13,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        14,
        b7,
        p14,
        p15,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15 = _words16(counter * 2 + 1, key, 1, ROUNDS)
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        16,
        b8,
        p0,
        p1,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        18,
        b9,
        p2,
        p3,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        20,
        b10,
        p4,
        p5,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        22,
        b11,
        p6,
        p7,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        24,
        b12,
        p8,
        p9,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        26,
        b13,
        p10,
        p11,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        28,
        b14,
        p12,
        p13,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    rank = _two(
        param,
        total,
        state1,
        state2,
        scales,
        lr,
        beta1,
        beta2,
        at,
        size,
        30,
        b15,
        p14,
        p15,
        table,
        shift,
        num_full,
        mine,
        rank,
        LANES,
        LIST,
    )
    if LIST:
        tl.debug_barrier()
        inside = lane < count
        place = tl.load(mine + lane, mask=inside, other=0).to(tl.int64) & 0xFFFF
        at = tile * (32 * LANES) + place
        w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, w11, w12, w13, w14, w15 = _words16(counter, key, 2, ROUNDS)
        value, done, is_unsure = _tried(
            inside, w0, w1, w2, w3, w4, w5, cumulative, bases, rooms, curve, shift, LENGTH, BITS
        )
        other, full = _again(w6, w7, table, shift, num_full, inside & ~done)
        value = tl.where(done, value, other)
        done |= full
        left = inside & ~done
        if tl.sum(left.to(tl.int32), 0) > 0:
            other, below, doubtful = _tried(
                left, w8, w9, w10, w11, w12, w13, cumulative, bases, rooms, curve, shift, LENGTH, BITS
            )
            is_unsure |= left & doubtful
            value = tl.where(done, value, other)
            done |= below
            other, full = _again(w14, w15, table, shift, num_full, inside & ~done)
            value = tl.where(done, value, other)
            done |= full
        bad = tl.sum((is_unsure | (inside & ~done)).to(tl.int32), 0) + (count > LANES).to(tl.int32)
        if bad > 0:
            tl.atomic_add(unsure, bad)
        _adamw(param, total, state1, state2, scales, lr, beta1, beta2, at, inside & (at < size), value)


def update() -> None:
    """Time the meeting of noise and sum, in AdamW's step, for GPT-2 small."""
    t = Tables(2.0**24)
    param, state1, state2 = (torch.rand(SIZE, device=DEVICE) for _ in range(3))
    noise = plain.integer_gaussian(KEY, 0, SIZE, stddev=2.0**24, device=DEVICE)
    total = torch.randn(SIZE, device=DEVICE, dtype=torch.float64)
    single = total.float()
    half = noise.int()
    scales = torch.tensor([2.0**24, 2.0**-24 / 32], dtype=torch.float64, device=DEVICE)
    scheme = torch.arange(0, SIZE, noise_cuda.TILE, device=DEVICE, dtype=torch.int64)
    tiles = torch.stack([torch.zeros_like(scheme), scheme], 1).contiguous()
    weight = torch.nn.Parameter(param.clone())
    weight.grad = single.clone()
    fused_adamw = torch.optim.AdamW([weight], fused=True)
    report("torch's fused AdamW", fused_adamw.step)
    del fused_adamw, weight
    settings = {"lr": 1e-3, "decay": 0.01, "first": 0.9, "second": 0.999, "eps": 1e-8, "correct1": 1.0, "correct2": 1.0}
    for name, values in (("fp64", total), ("fp32", single)):
        rows = [param.data_ptr(), values.data_ptr(), noise.data_ptr(), state1.data_ptr(), state2.data_ptr(), SIZE]
        pointers = torch.tensor([rows], dtype=torch.int64, device=DEVICE)
        report(
            f"hush's update today, {name} sums, int64 noise",
            lambda: noise_cuda.update(tiles, pointers, 2.0**-24, 32.0, settings, "adamw", double=name == "fp64"),
        )
    for name, values in (("fp64", total), ("fp32", single)):
        for kind, drawn in (("int64", noise), ("int32", half)):
            for width, warps in ((1024, 4), (1024, 8)):
                report(
                    f"update, direct pointers, {name} sums, {kind} noise, {width}, warps {warps}",
                    lambda: _plain_update[(triton.cdiv(SIZE, width),)](
                        param,
                        values,
                        state1,
                        state2,
                        drawn,
                        scales,
                        1e-3,
                        0.9,
                        0.999,
                        SIZE,
                        WIDTH=width,
                        num_warps=warps,
                    ),
                )
    for lanes, warps in ((64, 2), (128, 4), (256, 8)):
        places = torch.empty(triton.cdiv(SIZE, 32 * lanes), lanes, dtype=torch.int16, device=DEVICE)
        unsure = torch.zeros(1, dtype=torch.int32, device=DEVICE)
        for rounds in (20, 12, 8) if lanes == 128 else (20,):
            for listed in (False, True):

                def run() -> None:
                    _fused[(len(places),)](
                        param,
                        total,
                        state1,
                        state2,
                        scales,
                        1e-3,
                        0.9,
                        0.999,
                        SIZE,
                        t.key,
                        t.cells,
                        t.shift,
                        t.num_full,
                        places,
                        unsure,
                        t.cumulative,
                        t.bases,
                        t.rooms,
                        t.curve,
                        LANES=lanes,
                        ROUNDS=rounds,
                        LIST=listed,
                        LENGTH=len(t.cumulative),
                        BITS=len(t.cumulative).bit_length(),
                        num_warps=warps,
                    )

                report(f"noise drawn within the update, {rounds} rounds, edges {listed}, lanes {lanes}", run)


@triton.jit
def _plain_update(param, total, state1, state2, noise, scales, lr, beta1, beta2, size, WIDTH: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * WIDTH + tl.arange(0, WIDTH)
    inside = at < size
    _adamw(
        param, total, state1, state2, scales, lr, beta1, beta2, at, inside, tl.load(noise + at, mask=inside, other=0)
    )


@triton.jit
def _product_plain(
    g,
    x,
    parts,
    size,
    split_size,
    positions,
    outputs,
    inputs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    JOINED: tl.constexpr,
    TOTAL: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Sums of products: a loop over examples and one over positions; JOINED examples are added up in fp32.

    TOTAL says how examples are added up: 0 not at all (one fp32 accumulator), 1 in fp64, 2 in two fp32 by two-sum.
    """
    columns = tl.cdiv(inputs, COLUMNS)
    rows = tl.cdiv(outputs, ROWS)
    # Tiles that run together share rows and columns of the inputs in the L2 cache.
    number = tl.program_id(0)
    per_group = GROUP * columns
    first_row = number // per_group * GROUP
    height = tl.minimum(rows - first_row, GROUP)
    p = (first_row + number % per_group % height) * ROWS + tl.arange(0, ROWS)
    d = number % per_group // height * COLUMNS + tl.arange(0, COLUMNS)
    first = tl.program_id(1) * split_size
    last = tl.minimum(first + split_size, size)
    total = tl.zeros((ROWS, COLUMNS), tl.float64 if TOTAL == 1 else tl.float32)
    rest = tl.zeros((ROWS, COLUMNS), tl.float32)
    whole = tl.zeros((ROWS, COLUMNS), tl.int32)
    SCALE: tl.constexpr = 8192.0 if TOTAL == 4 else 262144.0
    for begin in range(first, last, JOINED):
        product = tl.zeros((ROWS, COLUMNS), tl.float32)
        start = begin * positions
        # Positions of joined examples are simply put next to each other.
        count = tl.minimum(last - begin, JOINED) * positions
        for step in range(0, count, DEPTH):
            t = step + tl.arange(0, DEPTH)
            g_block = tl.load(
                g + (start + t)[:, None] * outputs + p[None, :],
                mask=(t[:, None] < count) & (p[None, :] < outputs),
                other=0.0,
            )
            x_block = tl.load(
                x + (start + t)[:, None] * inputs + d[None, :],
                mask=(t[:, None] < count) & (d[None, :] < inputs),
                other=0.0,
            )
            product = tl.dot(tl.trans(g_block), x_block, product)
        if TOTAL == 1:
            total += product.to(tl.float64)
        elif TOTAL == 2:
            high = total + product
            virtual = high - total
            rest += (total - (high - virtual)) + (product - virtual)
            total = high
        elif TOTAL == 3:  # fixed point
            whole += (product * SCALE).to(tl.int32)
        elif TOTAL == 4:  # fixed point of 23 bits: the lower bits of a floating-point number near 1.5 * 2^23
            whole += (product * SCALE + 12582912.0).to(tl.int32, bitcast=True) - 0x4B400000
        else:
            total += product
    if TOTAL >= 3:
        total = whole.to(tl.float64) * (1.0 / SCALE)
    out = parts + tl.program_id(1).to(tl.int64) * outputs * inputs + p[:, None].to(tl.int64) * inputs + d[None, :]
    result = total.to(tl.float64)
    if TOTAL == 2:
        result += rest.to(tl.float64)
    tl.store(out, result, mask=(p[:, None] < outputs) & (d[None, :] < inputs))


@triton.jit
def _product_tma(
    g,
    x,
    parts,
    size,
    split_size,
    positions,
    outputs,
    inputs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr,
    TOTAL: tl.constexpr,
    GROUP: tl.constexpr,
    FLAT: tl.constexpr,
):
    """The same by tensor descriptors [B, T, p] and [B, T, d], which pad with zeros."""
    columns = tl.cdiv(inputs, COLUMNS)
    rows = tl.cdiv(outputs, ROWS)
    number = tl.program_id(0)
    per_group = GROUP * columns
    first_row = number // per_group * GROUP
    height = tl.minimum(rows - first_row, GROUP)
    p = (first_row + number % per_group % height) * ROWS
    d = number % per_group // height * COLUMNS
    first = tl.program_id(1) * split_size
    last = tl.minimum(first + split_size, size)
    total = tl.zeros((ROWS, COLUMNS), tl.float64 if TOTAL == 1 else tl.float32)
    rest = tl.zeros((ROWS, COLUMNS), tl.float32)
    whole = tl.zeros((ROWS, COLUMNS), tl.int32)
    SCALE: tl.constexpr = 8192.0 if TOTAL == 4 else 262144.0
    if FLAT:
        blocks = tl.cdiv(positions, DEPTH)
        product = tl.zeros((ROWS, COLUMNS), tl.float32)
        for step in range((last - first) * blocks):
            example = first + step // blocks
            t = step % blocks * DEPTH
            g_block = g.load([example, t, p]).reshape(DEPTH, ROWS)
            x_block = x.load([example, t, d]).reshape(DEPTH, COLUMNS)
            product = tl.dot(tl.trans(g_block), x_block, product)
            if step % blocks == blocks - 1:
                if TOTAL == 1:
                    total += product.to(tl.float64)
                else:
                    high = total + product
                    virtual = high - total
                    rest += (total - (high - virtual)) + (product - virtual)
                    total = high
                product = tl.zeros((ROWS, COLUMNS), tl.float32)
    else:
        for example in range(first, last):
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
            for t in range(0, positions, DEPTH):
                g_block = g.load([example, t, p]).reshape(DEPTH, ROWS)
                x_block = x.load([example, t, d]).reshape(DEPTH, COLUMNS)
                product = tl.dot(tl.trans(g_block), x_block, product)
            if TOTAL == 1:
                total += product.to(tl.float64)
            elif TOTAL == 2:
                high = total + product
                virtual = high - total
                rest += (total - (high - virtual)) + (product - virtual)
                total = high
            elif TOTAL == 3:
                whole += (product * SCALE).to(tl.int32)
            elif TOTAL == 4:
                whole += (product * SCALE + 12582912.0).to(tl.int32, bitcast=True) - 0x4B400000
            else:
                total += product
    if TOTAL >= 3:
        total = whole.to(tl.float64) * (1.0 / SCALE)
    out = (
        parts
        + tl.program_id(1).to(tl.int64) * outputs * inputs
        + (p + tl.arange(0, ROWS))[:, None].to(tl.int64) * inputs
        + (d + tl.arange(0, COLUMNS))[None, :]
    )
    inside = ((p + tl.arange(0, ROWS))[:, None] < outputs) & ((d + tl.arange(0, COLUMNS))[None, :] < inputs)
    result = total.to(tl.float64)
    if TOTAL == 2:
        result += rest.to(tl.float64)
    tl.store(out, result, mask=inside)


def products(only: str = "01234") -> None:
    """Time sums of products for one block of ViT-B/16 with a batch of 64."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    from hush.training.kernels import products_cuda

    size, positions = 64, 197
    shapes = [(2304, 768), (768, 768), (3072, 768), (768, 3072)]
    inputs = {
        width: torch.randn(size, positions, width, device=DEVICE, dtype=torch.bfloat16) for width in (768, 2304, 3072)
    }
    layers = [(inputs[outputs], inputs[width] * 0.5) for outputs, width in shapes]
    exact = [torch.einsum("btp,btd->pd", g[:, :, :64].double(), x.double()) for g, x in layers]
    flops = sum(2 * size * positions * p * d for p, d in shapes)

    def check(results: list[torch.Tensor]) -> str:
        return f"{max(((part[:64] - truth).norm() / truth.norm()).item() for part, truth in zip(results, exact, strict=True)):.1e}"

    def show(name: str, one: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> None:
        try:
            error = check([one(g, x) for g, x in layers])
            time = milliseconds(lambda: [one(g, x) for g, x in layers])
            print(
                f"{name:72} {time:7.3f} ms {flops / time / 1e9:6.0f} TFLOP/s, error {error}, 12 blocks {12 * time:6.2f} ms",
                flush=True,
            )
        except Exception as problem:
            print(f"{name:72} {type(problem).__name__}: {str(problem)[:160]}", flush=True)

    show(
        "torch, one bf16 product over all positions (single precision, unsafe)",
        lambda g, x: g.flatten(0, 1).mT @ x.flatten(0, 1),
    )
    show("torch, bmm in bf16, then a sum in fp64", lambda g, x: torch.bmm(g.mT, x).sum(0, dtype=torch.float64))
    show("torch, bmm in bf16 alone", lambda g, x: torch.bmm(g.mT, x)[0])
    show("hush today", products_cuda.product_sum)

    def launch(kernel: object, g: torch.Tensor, x: torch.Tensor, rows: int, columns: int, depth: int, splits: int | None, descriptors: bool, options: dict) -> torch.Tensor:  # fmt: skip
        p, d = g.shape[2], x.shape[2]
        tiles = triton.cdiv(p, rows) * triton.cdiv(d, columns)
        # 132 processors: the number of parts that leaves the fewest of them idle at the end.
        per = options.pop("per", 1)
        best = min(range(1, 9), key=lambda n: triton.cdiv(tiles * n, 132 * per) * triton.cdiv(size, n) * (1 + 0.01 * n))
        splits = splits or best
        parts = torch.empty(splits, p, d, device=DEVICE, dtype=torch.float64)
        arguments = [g, x]
        if descriptors:
            arguments = [
                TensorDescriptor.from_tensor(g, [1, depth, rows]),
                TensorDescriptor.from_tensor(x, [1, depth, columns]),
            ]
        kernel[(tiles, splits)](
            *arguments,
            parts,
            size,
            triton.cdiv(size, splits),
            positions,
            p,
            d,
            ROWS=rows,
            COLUMNS=columns,
            DEPTH=depth,
            **options,
        )
        return parts[0] if splits == 1 else parts.sum(0)

    names = ("fp32, unsafe", "fp64", "two-sum", "int32", "int32 of 23 bits")
    for total in map(int, only):
        shapes_of_tiles = [(128, 128, 64, 8, 3, 1), (128, 64, 64, 4, 3, 2)]
        if total in (0, 3, 4):
            shapes_of_tiles += [(128, 256, 64, 8, 3, 1), (128, 128, 64, 4, 3, 2)]
        for rows, columns, depth, warps, stages, per in shapes_of_tiles:
            tile = f"{names[total]}, {rows}x{columns}x{depth}, warps {warps}, stages {stages}"
            options = {"TOTAL": total, "GROUP": 8, "num_warps": warps, "num_stages": stages, "per": per}
            show(
                f"loops, {tile}",
                lambda g, x: launch(_product_plain, g, x, rows, columns, depth, None, False, options | {"JOINED": 1}),
            )
            show(
                f"TMA, {tile}",
                lambda g, x: launch(_product_tma, g, x, rows, columns, depth, None, True, options | {"FLAT": False}),
            )
    options = {"TOTAL": 1, "GROUP": 8, "FLAT": True, "num_warps": 8, "num_stages": 3}
    show(
        "TMA, one loop, fp64, 128x128x64, warps 8, stages 3",
        lambda g, x: launch(_product_tma, g, x, 128, 128, 64, None, True, dict(options)),
    )
    for joined in (2, 4):
        show(
            f"loops, fp64, 128x128x64, {joined} examples joined in fp32",
            lambda g, x: launch(
                _product_plain,
                g,
                x,
                128,
                128,
                64,
                None,
                False,
                {"JOINED": joined, "TOTAL": 1, "GROUP": 8, "num_warps": 8, "num_stages": 3},
            ),
        )


@triton.jit
def _weighted(values, factors, out, size, length, COLUMNS: tl.constexpr, ROWS: tl.constexpr, TOTAL: tl.constexpr):
    """Sums of factor times gradient of one tensor: in fp32, in fp64, or exact products in fp32 and fp64 sums."""
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = at < length
    total = tl.zeros((ROWS, COLUMNS), tl.float64 if TOTAL else tl.float32)
    for begin in range(0, size, ROWS):
        example = begin + tl.arange(0, ROWS)
        factor = tl.load(factors + example, mask=example < size, other=0.0)
        needed = inside[None, :] & (factor > 0)[:, None]
        value = tl.load(values + example[:, None].to(tl.int64) * length + at[None, :], mask=needed, other=0.0)
        if TOTAL == 1:
            total += factor[:, None].to(tl.float64) * value.to(tl.float64)
        elif TOTAL == 2:  # the product is rounded to fp32: a function of the example alone
            total += (factor[:, None] * value.to(tl.float32)).to(tl.float64)
        else:
            total += factor[:, None] * value.to(tl.float32)
    tl.store(out + at, tl.sum(total, 0).to(tl.float64), mask=inside)


@triton.jit
def _weighted_two(values, factors, out, size, length, COLUMNS: tl.constexpr, ROWS: tl.constexpr):
    """The same in two fp32 numbers by two-sum, joined at the end in fp64."""
    at = tl.program_id(0).to(tl.int64) * COLUMNS + tl.arange(0, COLUMNS)
    inside = at < length
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    rest = tl.zeros((ROWS, COLUMNS), tl.float32)
    for begin in range(0, size, ROWS):
        example = begin + tl.arange(0, ROWS)
        factor = tl.load(factors + example, mask=example < size, other=0.0)
        needed = inside[None, :] & (factor > 0)[:, None]
        value = tl.load(values + example[:, None].to(tl.int64) * length + at[None, :], mask=needed, other=0.0)
        product = factor[:, None] * value.to(tl.float32)
        high = total + product
        virtual = high - total
        rest += (total - (high - virtual)) + (product - virtual)
        total = high
    tl.store(out + at, tl.sum(total.to(tl.float64) + rest.to(tl.float64), 0), mask=inside)


def sums() -> None:
    """Time the weighted sums of 32 dense gradients in bf16, of GPT-2's size without its tables."""
    from hush.training.kernels import sums_cuda

    length, size = 85_000_000 // 16384 * 16384, 32
    values = torch.randn(size, length, device=DEVICE, dtype=torch.bfloat16)
    factors = torch.rand(1, size, device=DEVICE) + 0.1
    out = torch.empty(length, device=DEVICE, dtype=torch.float64)
    bytes_moved = values.nbytes + out.nbytes
    truth = factors[0].double() @ values[:, :4096].double()

    def show(name: str, run: Callable[[], torch.Tensor]) -> None:
        try:
            error = ((run()[:4096] - truth).norm() / truth.norm()).item()
            time = milliseconds(run)
            print(f"{name:60} {time:7.3f} ms {bytes_moved / time / 1e9:6.2f} TB/s, error {error:.1e}", flush=True)
        except Exception as problem:
            print(f"{name:60} {type(problem).__name__}: {str(problem)[:160]}", flush=True)

    def start(kernel: object, columns: int, rows: int, **options: int) -> torch.Tensor:
        kernel[(triton.cdiv(length, columns),)](
            values, factors, out, size, length, COLUMNS=columns, ROWS=rows, **options
        )
        return out

    show("hush today", lambda: sums_cuda.weighted_sums([values], [0], factors)[0])
    for columns, rows, warps in ((1024, 8, 4), (1024, 4, 4), (512, 4, 4), (1024, 1, 4), (2048, 1, 4), (2048, 2, 8)):
        for total in (0, 1, 2):
            show(
                f"{('fp32', 'fp64', 'fp64 of fp32 products')[total]}, columns {columns}, rows {rows}, warps {warps}",
                lambda: start(_weighted, columns, rows, TOTAL=total, num_warps=warps),
            )
        show(
            f"two-sum, columns {columns}, rows {rows}, warps {warps}",
            lambda: start(_weighted_two, columns, rows, num_warps=warps),
        )


def profile() -> None:
    """Print where the time of today's noise goes."""
    for stddev in (2.0**24, 2.0**22):
        plain.integer_gaussian(KEY, 0, SIZE, stddev=stddev, device=DEVICE)
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
            for _ in range(3):
                plain.integer_gaussian(KEY, 0, SIZE, stddev=stddev, device=DEVICE)
            torch.cuda.synchronize()
        kernels = sorted(profiler.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
        print(f"stddev {stddev}: {sum(kernel.self_device_time_total for kernel in kernels) / 3e3:.3f} ms")
        for kernel in kernels[:14]:
            print(f"{kernel.self_device_time_total / 3e3:9.3f} {kernel.count // 3:4} {kernel.key[:90]}")


if __name__ == "__main__":
    sections = {"profile": profile, "draw": draw, "update": update, "products": products, "sums": sums}
    for name in [name for name in sys.argv[1:] if name != "--warm"] or sections:
        print(f"== {name}")
        section, *only = name.split(":")
        try:
            sections[section](*only)
        except Exception:  # the other sections are still of interest
            traceback.print_exc()
