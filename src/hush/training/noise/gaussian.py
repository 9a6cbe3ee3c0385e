"""Gaussian noise for a step, as a function of a key, the step and the element.

The law and the construction of `hush.randomness.standard_normal`, four mixed Box-Muller draws from ChaCha20's stream
(see there why), computed by torch, on all of its threads.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hush.randomness import KeyedSource

_MIXED = 4
_CHUNK = 1 << 17
_FEW_BITS = 1 << 10


def gaussian(
    key: bytes,
    step: int,
    size: int,
    device: torch.device | None = None,
    *,
    scale: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``size`` values of mean 0 and this standard deviation in single precision, made where they are needed.

    On a GPU by a kernel of its own, from the same stream but in another order: other numbers, the same law. On a CPU,
    the memory of an earlier result may be given, to be used again.
    """
    if device is not None and device.type == "cuda":
        from hush.training.kernels.noise_cuda import gaussian as on_gpu

        return on_gpu(key, step, size, device, scale)
    source = KeyedSource(key, step)
    columns = -(-size // (2 * _MIXED))
    length = 2 * _MIXED * columns
    if out is not None and out.untyped_storage().nbytes() >= 4 * length:
        result = out.as_strided((length,), (1,))
    else:
        result = torch.empty(length, dtype=torch.float32)
    for start in range(0, columns, _CHUNK):
        count = min(_CHUNK, columns - start)
        words = source.words(_MIXED * count).view(np.uint32)
        part = torch.from_numpy(words.view(np.int32)).view(2, _MIXED, count)
        # Signed words: the sign folded in, 31 bits that are exact where they are few; and half a turn to either side.
        folded = part[0] ^ (part[0] >> 31)
        radii = folded.float().add_(0.5)
        if int(folded.min()) < _FEW_BITS:
            few = torch.nonzero(folded.view(-1) < _FEW_BITS).view(-1)
            more = torch.from_numpy(source.words(len(few)).astype(np.float64) * 2.0**-64)
            radii.view(-1)[few] = (folded.view(-1)[few] + more).float()
        radii.mul_(2.0**-31).log_().mul_(-2 / _MIXED).sqrt_().mul_(scale)
        angles = part[1].float().mul_(2 * math.pi * 2.0**-32)
        drawn = angles.new_empty(2, _MIXED, count)
        torch.mul(torch.cos(angles), radii, out=drawn[0])
        torch.mul(angles.sin_(), radii, out=drawn[1])
        place = 2 * _MIXED * start
        _mix(drawn, out=result[place : place + 2 * _MIXED * count].view(2, _MIXED, count))
    return result[:size]


def _mix(drawn: Tensor, out: Tensor) -> None:
    """Write four sums of four draws each, orthogonal to each other."""
    a, b, c, d = drawn.unbind(1)
    e, f, g, h = a + b, a - b, c + d, c - d
    for place, (one, other) in enumerate(((e, g), (f, h))):
        torch.add(one, other, out=out[:, place])
        torch.sub(one, other, out=out[:, place + 2])
