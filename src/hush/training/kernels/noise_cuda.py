"""Integer Gaussian noise on a GPU: ChaCha20's key stream in a Triton kernel, and the histogram's boxes.

From bits to an update of the weights, with the same integers as on a CPU (`hush.training.noise.integer_gaussian`):

words    block c of the stream is 16 words of 32 bits, the same as `hush.randomness.KeyedSource` gives
quick    one or two words per element pick a box and a place in its cell; elements on edges are listed
update   the clipped sum is rounded to the grid and joins the integer noise in the optimizer's step

`hush.training.kernels.edges_cuda` tests the elements on edges. Everything here is in integers, except that `update`
rounds to the grid and computes the optimizer's step. `update` never writes the noisy gradient to memory.

Names: w0 to w10 are the words of key and nonce; x0 to x15 are a block.
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

_LANES = 256  # blocks of the stream per program
TILE = 1024  # values of a parameter per program of `update`
EDGE = -(2**63)  # the mark of an element on an edge
_EDGE = tl.constexpr(EDGE)


@dataclass(frozen=True, slots=True)
class Edges:
    """The elements on edges, tile by tile: 1.6 % of all, in order.

    Attributes:
        places: For each tile, the places of its edges within the tile: [tiles, room].
        counts: How many edges each tile has. If there are more than the room, the others are missing.
        tile: The number of elements in a tile.
    """

    places: Tensor
    counts: Tensor
    tile: int


def words(key: bytes, number: int, count: int, device: torch.device) -> Tensor:
    """Return 64-bit words of a key's stream, as signed integers."""
    result = torch.empty(count, dtype=torch.int64, device=device)
    if count:
        with torch.cuda.device(device):
            _write_words[(triton.cdiv(count, 8 * _LANES),)](result, count, *_key_words(key, number), LANES=_LANES)
    return result


def quick(key: bytes, number: int, size: int, table: Tensor, shift: int, num_full: int) -> tuple[Tensor, Edges]:
    """Return one integer per element, and which elements' boxes are edges: their integers mean nothing yet.

    Args:
        key: The key.
        number: The number of its stream.
        size: How many elements.
        table: The middle of each box's cell: as int32 if an element reads a 32-bit word, as int64 if it reads 64 bits.
        shift: A cell has 2^shift integers.
        num_full: The number of boxes that are not edges.
    """
    is_narrow = table.dtype is torch.int32
    tile = (16 if is_narrow else 8) * _LANES
    num_tiles, room = triton.cdiv(size, tile), tile // 16
    result = torch.empty(size, dtype=torch.int64, device=table.device)
    places = torch.empty(num_tiles, room, dtype=torch.int16, device=table.device)
    counts = torch.empty(num_tiles, dtype=torch.int32, device=table.device)
    if size:
        with torch.cuda.device(table.device):
            _quick[(num_tiles,)](
                result,
                places,
                counts,
                size,
                table,
                shift,
                num_full,
                *_key_words(key, number),
                NARROW=is_narrow,
                LANES=_LANES,
                ROOM=room,
            )
    return result, Edges(places, counts, tile)


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
            WIDTH=TILE,
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
def _in_line(a, b, c, d, e, f, g, h, LANES: tl.constexpr):
    """Return a lane's eight values next to each other, lane after lane: [8 LANES]."""
    # A join adds a last dimension. The first join is that of the highest bit of a value's number.
    even = tl.join(tl.join(a, e), tl.join(c, g))
    odd = tl.join(tl.join(b, f), tl.join(d, h))
    return tl.reshape(tl.join(even, odd), (8 * LANES,))


@triton.jit
def _element(word, table, shift, num_full, WIDTH: tl.constexpr):
    """Return the integer that a signed word picks, or the mark of an edge."""
    box = word & 0xFFFF
    # A shift of a signed word: a place from minus half a cell to half a cell.
    value = tl.load(table + box).to(tl.int64) + (word >> (WIDTH - shift)).to(tl.int64)
    return tl.where(box < num_full, value, _EDGE)


# A fresh key or step must not compile the kernels again.
_WORDS = [f"w{number}" for number in range(11)]


@triton.jit(do_not_specialize=_WORDS)
def _write_words(out, size, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, LANES: tl.constexpr):
    tile = tl.program_id(0).to(tl.int64)
    counter = (tile * LANES + tl.arange(0, LANES)).to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _block(
        counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    line = _in_line(_long(x0, x1), _long(x2, x3), _long(x4, x5), _long(x6, x7),
                    _long(x8, x9), _long(x10, x11), _long(x12, x13), _long(x14, x15), LANES)  # fmt: skip
    at = tile * (8 * LANES) + tl.arange(0, 8 * LANES)
    tl.store(out + at, line, mask=at < size)


@triton.jit(do_not_specialize=[*_WORDS, "shift", "num_full"])
def _quick(
    out,
    places,
    counts,
    size,
    table,
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
    NARROW: tl.constexpr,
    LANES: tl.constexpr,
    ROOM: tl.constexpr,
):
    tile = tl.program_id(0).to(tl.int64)
    counter = (tile * LANES + tl.arange(0, LANES)).to(tl.uint32)
    x0, x1, x2, x3, x4, x5, x6, x7, x8, x9, x10, x11, x12, x13, x14, x15 = _block(
        counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    line = _in_line(_long(x0, x1), _long(x2, x3), _long(x4, x5), _long(x6, x7),
                    _long(x8, x9), _long(x10, x11), _long(x12, x13), _long(x14, x15), LANES)  # fmt: skip
    if NARROW:
        # Two elements from each 64-bit word, the lower half first.
        low = (line & 0xFFFFFFFF).to(tl.int32)
        high = (line >> 32).to(tl.int32)
        line = tl.reshape(
            tl.join(_element(low, table, shift, num_full, 32), _element(high, table, shift, num_full, 32)),
            (16 * LANES,),
        )
        place = tl.arange(0, 16 * LANES)
        at = tile * (16 * LANES) + place
    else:
        line = _element(line, table, shift, num_full, 64)
        place = tl.arange(0, 8 * LANES)
        at = tile * (8 * LANES) + place
    tl.store(out + at, line, mask=at < size)
    is_edge = ((line == _EDGE) & (at < size)).to(tl.int32)
    rank = tl.cumsum(is_edge, 0) - 1
    tl.store(places + tile * ROOM + rank, place.to(tl.int16), mask=(is_edge > 0) & (rank < ROOM))
    tl.store(counts + tile, tl.sum(is_edge, 0))


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
