"""Gaussian noise on a GPU: ChaCha20's key stream in a Triton kernel, a function of key, step and element.

From bits to an update of the weights:

words    block c of the stream is 16 words of 32 bits, the same as `hush.randomness.KeyedSource` gives
uniforms every two words make a radius of 40 bits and an angle of 24
pairs    Box and Muller turn radius and angle into two normal draws
values   four draws at a time are mixed orthogonally, so that each value depends on four radii
         (`hush.randomness.bulk_noise` explains why)
update   a value, times the noise's standard deviation, joins the clipped sum in the optimizer's step

One block makes sixteen values. A radius has 40 bits, 8 of them from its angle's word, so a draw reaches 7.5 standard
deviations; one in 10^12 would have gone further. `update` never writes the noise or the noisy gradient to memory.

Names: w0 to w10 are the words of key and nonce; r and a are words for radii and angles.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra.cuda import libdevice

_LANES = 256  # blocks of the stream per program; another number would give other noise for the same key
TILE = 16 * _LANES  # values per program


def key_words(key: bytes, step: int) -> list[int]:
    """Return the key and the nonce, which is the step, as eleven signed words."""
    # The step is the nonce: no two steps share a block of the stream, so no noise is drawn twice under a key.
    return [int(word) for word in np.frombuffer(key + step.to_bytes(12, "little"), dtype=np.int32)]


def gaussian(key: bytes, step: int, size: int, device: torch.device, scale: float = 1.0) -> Tensor:
    """Return ``size`` normal values of mean 0 and standard deviation ``scale``, in single precision."""
    result = torch.empty(size, device=device)
    with torch.cuda.device(device):
        _write_noise[(triton.cdiv(size, TILE),)](result, size, scale, *key_words(key, step), LANES=_LANES, num_warps=4)
    return result


def update(
    tiles: Tensor,
    pointers: Tensor,
    words: list[int],
    scale: float,
    noise: float,
    settings: dict[str, float],
    kind: str,
) -> None:
    """Take one step of SGD or Adam with the gradient ``scale`` * sum + ``noise`` * z, for fresh normal z.

    Args:
        tiles: For each tile: its parameter's number, the tile's start in it, and the tile's number in the noise.
        pointers: For each parameter: the addresses of its values, its clipped sum and its two optimizer states, and
            its size.
        words: Key and nonce, from `key_words`.
        scale: One over the batch size.
        noise: The standard deviation of the noise.
        settings: The optimizer's numbers: ``lr``, ``decay`` (weight decay), ``first`` and ``second`` (momentum and
            dampening, or Adam's betas), ``eps``, ``correct1`` and ``correct2`` (Adam's bias corrections),
            ``nesterov``, and ``begin`` for a parameter without a state.
        kind: "sgd", "adam" or "adamw".
    """
    numbers = [settings.get(name, 0.0) for name in ("lr", "decay", "first", "second", "eps", "correct1", "correct2")]
    with torch.cuda.device(tiles.device):
        _update[(len(tiles),)](
            tiles,
            pointers,
            scale,
            noise,
            *numbers,
            *words,
            KIND={"sgd": 0, "adam": 1, "adamw": 2}[kind],
            MOMENTUM=settings.get("first", 0.0) != 0,
            NESTEROV=bool(settings.get("nesterov", False)),
            BEGIN=bool(settings.get("begin", False)),
            LANES=_LANES,
            num_warps=4,
        )


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
def _box_muller(radius, angle):
    """Return two normal draws of standard deviation 1/2: the sum of four of them has standard deviation 1."""
    # u = (32 bits + (8 bits + 1/2) / 2^8) / 2^32: never 0, whose logarithm is infinite.
    uniform = (radius.to(tl.float32) + ((angle & 255).to(tl.float32) + 0.5) * 0.00390625) * 2.3283064365386963e-10
    # The fast logarithm of a u next to 1 may come out above 0, and would have no root.
    length = tl.sqrt(tl.maximum(-0.5 * libdevice.fast_logf(uniform), 0.0))  # half of sqrt(-2 ln u)
    # 24 bits with a sign: from -pi to pi, where the fast cosine and sine err least.
    turn = (angle.to(tl.int32, bitcast=True) >> 8).to(tl.float32) * 3.7450702829239495e-07  # 2 pi / 2^24
    return length * libdevice.fast_cosf(turn), length * libdevice.fast_sinf(turn)


@triton.jit
def _mix_four(a, b, c, d):
    """Return four signed sums of four draws: the rows of a Hadamard matrix, orthogonal to each other."""
    # An orthogonal map of independent normal draws gives independent normal draws. Its factor 1/2 is in `_box_muller`.
    e, f, g, h = a + b, a - b, c + d, c - d
    return e + g, f + h, e - g, f - h


@triton.jit
def _eight_normals(r0, a0, r1, a1, r2, a2, r3, a3):
    """Return eight standard normal values from four pairs of words."""
    x0, y0 = _box_muller(r0, a0)
    x1, y1 = _box_muller(r1, a1)
    x2, y2 = _box_muller(r2, a2)
    x3, y3 = _box_muller(r3, a3)
    x0, x1, x2, x3 = _mix_four(x0, x1, x2, x3)
    y0, y1, y2, y3 = _mix_four(y0, y1, y2, y3)
    return x0, x1, x2, x3, y0, y1, y2, y3


@triton.jit
def _as_word(zero, value):
    """Return a signed word as an unsigned one, for every lane."""
    return zero + value.to(tl.uint32, bitcast=True)


@triton.jit
def _sixteen_normals(counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10):
    """Return sixteen standard normal values from one block of the stream, for each lane's counter."""
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
    v0, v1, v2, v3, v4, v5, v6, v7 = _eight_normals(
        x0 + c0, x1 + c1, x2 + c2, x3 + c3, x4 + k0, x5 + k1, x6 + k2, x7 + k3
    )
    u0, u1, u2, u3, u4, u5, u6, u7 = _eight_normals(
        x8 + k4, x9 + k5, x10 + k6, x11 + k7, x12 + counter, x13 + n0, x14 + n1, x15 + n2
    )
    return v0, v1, v2, v3, v4, v5, v6, v7, u0, u1, u2, u3, u4, u5, u6, u7


# A fresh key or step must not compile the kernels again.
_WORDS = [f"w{number}" for number in range(11)]


@triton.jit(do_not_specialize=_WORDS)
def _write_noise(out, size, scale, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10, LANES: tl.constexpr):
    tile = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    counter = (tile * LANES + lane).to(tl.uint32)
    v0, v1, v2, v3, v4, v5, v6, v7, u0, u1, u2, u3, u4, u5, u6, u7 = _sixteen_normals(
        counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    # A lane's sixteen values lie LANES apart, so that neighbouring lanes write neighbouring addresses.
    at = tile * (16 * LANES) + lane
    tl.store(out + at, v0 * scale, mask=at < size)
    tl.store(out + at + LANES, v1 * scale, mask=at + LANES < size)
    tl.store(out + at + 2 * LANES, v2 * scale, mask=at + 2 * LANES < size)
    tl.store(out + at + 3 * LANES, v3 * scale, mask=at + 3 * LANES < size)
    tl.store(out + at + 4 * LANES, v4 * scale, mask=at + 4 * LANES < size)
    tl.store(out + at + 5 * LANES, v5 * scale, mask=at + 5 * LANES < size)
    tl.store(out + at + 6 * LANES, v6 * scale, mask=at + 6 * LANES < size)
    tl.store(out + at + 7 * LANES, v7 * scale, mask=at + 7 * LANES < size)
    tl.store(out + at + 8 * LANES, u0 * scale, mask=at + 8 * LANES < size)
    tl.store(out + at + 9 * LANES, u1 * scale, mask=at + 9 * LANES < size)
    tl.store(out + at + 10 * LANES, u2 * scale, mask=at + 10 * LANES < size)
    tl.store(out + at + 11 * LANES, u3 * scale, mask=at + 11 * LANES < size)
    tl.store(out + at + 12 * LANES, u4 * scale, mask=at + 12 * LANES < size)
    tl.store(out + at + 13 * LANES, u5 * scale, mask=at + 13 * LANES < size)
    tl.store(out + at + 14 * LANES, u6 * scale, mask=at + 14 * LANES < size)
    tl.store(out + at + 15 * LANES, u7 * scale, mask=at + 15 * LANES < size)


@triton.jit
def _optimize(
    at,
    size,
    value,
    param,
    total,
    state1,
    state2,
    scale,
    noise,
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
    # The clipped sum and the noise meet here only: neither the noise nor the noisy gradient is ever in memory.
    g = tl.load(total + at, mask=inside, other=0.0) * scale + value * noise
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


@triton.jit(do_not_specialize=_WORDS)
def _update(
    tiles,
    pointers,
    scale,
    noise,
    lr,
    decay,
    first,
    second,
    eps,
    correct1,
    correct2,
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
    KIND: tl.constexpr,
    MOMENTUM: tl.constexpr,
    NESTEROV: tl.constexpr,
    BEGIN: tl.constexpr,
    LANES: tl.constexpr,
):
    # A tile's number in the noise, not its address, decides which values it gets.
    entry = tiles + tl.program_id(0).to(tl.int64) * 3
    row = pointers + tl.load(entry) * 5
    start = tl.load(entry + 1)
    tile = tl.load(entry + 2)
    param = tl.load(row).to(tl.pointer_type(tl.float32))
    total = tl.load(row + 1).to(tl.pointer_type(tl.float32))
    state1 = tl.load(row + 2).to(tl.pointer_type(tl.float32))
    state2 = tl.load(row + 3).to(tl.pointer_type(tl.float32))
    size = tl.load(row + 4)
    lane = tl.arange(0, LANES)
    counter = (tile * LANES + lane).to(tl.uint32)
    v0, v1, v2, v3, v4, v5, v6, v7, u0, u1, u2, u3, u4, u5, u6, u7 = _sixteen_normals(
        counter, w0, w1, w2, w3, w4, w5, w6, w7, w8, w9, w10
    )
    at = start + lane
    # fmt: off
    _optimize(at, size, v0, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + LANES, size, v1, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 2 * LANES, size, v2, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 3 * LANES, size, v3, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 4 * LANES, size, v4, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 5 * LANES, size, v5, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 6 * LANES, size, v6, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 7 * LANES, size, v7, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 8 * LANES, size, u0, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 9 * LANES, size, u1, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 10 * LANES, size, u2, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 11 * LANES, size, u3, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 12 * LANES, size, u4, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 13 * LANES, size, u5, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 14 * LANES, size, u6, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    _optimize(at + 15 * LANES, size, u7, param, total, state1, state2, scale, noise, lr, decay, first, second, eps,
              correct1, correct2, KIND, MOMENTUM, NESTEROV, BEGIN)
    # fmt: on
