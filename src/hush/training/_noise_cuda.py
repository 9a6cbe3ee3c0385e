"""Gaussian noise on a GPU: ChaCha20's stream in a Triton kernel, a function of key, step and element.

Block c of the stream (16 words, the very ones that `hush.randomness.KeyedSource` gives) makes eight values: four words,
two radii and two angles, make two of them, each the sum of two Box-Muller draws. A radius has 40 bits, 8 of them from
its angle's word: a draw reaches 7.5 standard deviations, and one in 10^13 would have gone further.
"""

# mypy: disable-error-code="no-untyped-def,untyped-decorator,no-untyped-call"

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

_LANES = 256  # blocks of the stream per program: part of the function, not a setting
_VALUES = 8


def gaussian(key: bytes, step: int, size: int, device: torch.device) -> Tensor:
    """Return ``size`` values of mean 0 and variance 1 in single precision."""
    state = np.frombuffer(key + step.to_bytes(12, "little"), dtype=np.int32)
    result = torch.empty(size, device=device)
    programs = triton.cdiv(size, _LANES * _VALUES)
    with torch.cuda.device(device):
        _chacha_gaussian[(programs,)](
            result, size, torch.from_numpy(state.copy()).to(device), LANES=_LANES, num_warps=4
        )
    return result


@triton.jit
def _rotated(x, by: tl.constexpr):
    return (x << by) | (x >> (32 - by))


@triton.jit
def _quarter(a, b, c, d):
    a = a + b
    d = _rotated(d ^ a, 16)
    c = c + d
    b = _rotated(b ^ c, 12)
    a = a + b
    d = _rotated(d ^ a, 8)
    c = c + d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit
def _draw(radius, angle):
    uniform = (radius.to(tl.float32) + ((angle & 255).to(tl.float32) + 0.5) * 0.00390625) * 2.3283064365386963e-10
    length = tl.sqrt(tl.maximum(-tl.log(uniform), 0.0))  # sqrt(-2 ln u), over sqrt(2): two are added
    turn = (angle >> 8).to(tl.float32) * 3.7450702829239495e-07  # 2 pi / 2^24
    return length * tl.cos(turn), length * tl.sin(turn)


@triton.jit
def _store_pair(out, size, where, r1, a1, r2, a2, LANES: tl.constexpr):
    x1, y1 = _draw(r1, a1)
    x2, y2 = _draw(r2, a2)
    tl.store(out + where, x1 + x2, mask=where < size)
    tl.store(out + where + LANES, y1 + y2, mask=where + LANES < size)


@triton.jit
def _chacha_gaussian(out, size, state, LANES: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    lane = tl.arange(0, LANES)
    counter = (program * LANES + lane).to(tl.uint32)
    zero = counter ^ counter
    k0 = zero + tl.load(state + 0).to(tl.uint32, bitcast=True)
    k1 = zero + tl.load(state + 1).to(tl.uint32, bitcast=True)
    k2 = zero + tl.load(state + 2).to(tl.uint32, bitcast=True)
    k3 = zero + tl.load(state + 3).to(tl.uint32, bitcast=True)
    k4 = zero + tl.load(state + 4).to(tl.uint32, bitcast=True)
    k5 = zero + tl.load(state + 5).to(tl.uint32, bitcast=True)
    k6 = zero + tl.load(state + 6).to(tl.uint32, bitcast=True)
    k7 = zero + tl.load(state + 7).to(tl.uint32, bitcast=True)
    n0 = zero + tl.load(state + 8).to(tl.uint32, bitcast=True)
    n1 = zero + tl.load(state + 9).to(tl.uint32, bitcast=True)
    n2 = zero + tl.load(state + 10).to(tl.uint32, bitcast=True)
    c0, c1, c2, c3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    x0, x1, x2, x3 = c0, c1, c2, c3
    x4, x5, x6, x7, x8, x9, x10, x11 = k0, k1, k2, k3, k4, k5, k6, k7
    x12, x13, x14, x15 = counter, n0, n1, n2
    for _ in range(10):
        x0, x4, x8, x12 = _quarter(x0, x4, x8, x12)
        x1, x5, x9, x13 = _quarter(x1, x5, x9, x13)
        x2, x6, x10, x14 = _quarter(x2, x6, x10, x14)
        x3, x7, x11, x15 = _quarter(x3, x7, x11, x15)
        x0, x5, x10, x15 = _quarter(x0, x5, x10, x15)
        x1, x6, x11, x12 = _quarter(x1, x6, x11, x12)
        x2, x7, x8, x13 = _quarter(x2, x7, x8, x13)
        x3, x4, x9, x14 = _quarter(x3, x4, x9, x14)
    where = program * (LANES * 8) + lane
    _store_pair(out, size, where, x0 + c0, x1 + c1, x2 + c2, x3 + c3, LANES)
    _store_pair(out, size, where + 2 * LANES, x4 + k0, x5 + k1, x6 + k2, x7 + k3, LANES)
    _store_pair(out, size, where + 4 * LANES, x8 + k4, x9 + k5, x10 + k6, x11 + k7, LANES)
    _store_pair(out, size, where + 6 * LANES, x12 + counter, x13 + n0, x14 + n1, x15 + n2, LANES)
