"""Gaussian noise for a step, as a function of a key, the step and the element.

The law of `hush.randomness.standard_normal`, sums of two Box-Muller draws from ChaCha20's stream (see there why),
computed by torch, on all of its threads.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hush.randomness import KeyedSource

_DRAWS = 2
_CHUNK = 1 << 16
_FEW_BITS = 1 << 10


def gaussian(key: bytes, step: int, size: int, device: torch.device | None = None) -> Tensor:
    """Return ``size`` values of mean 0 and variance 1 in single precision, made where they are needed.

    On a GPU by a kernel of its own, from the same stream but in another order: other numbers, the same law.
    """
    if device is not None and device.type == "cuda":
        from hush.training._noise_cuda import gaussian as on_gpu

        return on_gpu(key, step, size, device)
    source = KeyedSource(key, step)
    half = (size + 1) // 2
    result = torch.empty(2 * half)
    for start in range(0, half, _CHUNK):
        count = min(_CHUNK, half - start)
        words = source.words(_DRAWS * count).view(np.uint32)
        part = torch.from_numpy(words.view(np.int32)).view(2, _DRAWS, count)
        # Signed words: the sign folded in, 31 bits that are exact where they are few; and half a turn to either side.
        folded = part[0] ^ (part[0] >> 31)
        radii = folded.float().add_(0.5)
        few = torch.nonzero(folded.view(-1) < _FEW_BITS).view(-1)
        if len(few):
            more = torch.from_numpy(source.words(len(few)).astype(np.float64) * 2.0**-64)
            radii.view(-1)[few] = (folded.view(-1)[few] + more).float()
        radii = radii.mul_(2.0**-31).log_().mul_(-2 / _DRAWS).clamp_(min=0).sqrt_()
        angles = part[1].float().mul_(2 * math.pi * 2.0**-32)
        torch.sum(torch.sin(angles).mul_(radii), 0, out=result[half + start : half + start + count])
        torch.sum(angles.cos_().mul_(radii), 0, out=result[start : start + count])
    return result[:size]
