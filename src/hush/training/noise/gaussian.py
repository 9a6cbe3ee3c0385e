"""Independent Gaussian noise for a step: a function of a key, the step and the element.

This is the law and the construction of `hush.randomness.standard_normal` (which explains why it is safe), computed by
torch on all of its threads. In stages:

words    64-bit words of ChaCha20's stream under the key, with the step as nonce
uniforms a radius of 31 bits, refined by 64 more where they are few, and an angle of 32
pairs    Box and Muller turn radius and angle into two normal draws
values   four draws at a time are mixed orthogonally, so that each value depends on four radii

As noise is a function of (key, step), a run can be resumed without storing any of it.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from hush.randomness import KeyedSource

_MIXED = 4  # draws that are mixed into each value
_CHUNK = 1 << 17  # columns at a time, so that a chunk stays in the cache
_FEW_BITS = 1 << 10  # radii below this have lost leading bits, and get more from the stream


def gaussian(
    key: bytes,
    step: int,
    size: int,
    device: torch.device | None = None,
    *,
    scale: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """Return ``size`` normal values of mean 0 and standard deviation ``scale``, in single precision.

    Args:
        key: 32 secret bytes.
        step: The step's number. Never use a (key, step) for two sums.
        size: How many values.
        device: Where to compute them; a CPU, if omitted. A GPU uses the same stream in another order: the numbers
            differ, their law does not.
        scale: The standard deviation.
        out: The result of an earlier call, whose memory is reused if it is large enough. On a CPU only.
    """
    if device is not None and device.type == "cuda":
        from hush.training.kernels.noise_cuda import gaussian as gaussian_on_gpu

        return gaussian_on_gpu(key, step, size, device, scale)
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
        # torch has no unsigned words. Folding the sign into a signed one leaves 31 uniform bits, exact in fp32 where
        # they are few; a signed word as an angle is a turn of up to half a circle to either side.
        folded = part[0] ^ (part[0] >> 31)
        radii = folded.float().add_(0.5)
        if int(folded.min()) < _FEW_BITS:
            small = torch.nonzero(folded.view(-1) < _FEW_BITS).view(-1)
            more_bits = torch.from_numpy(source.words(len(small)).astype(np.float64) * 2.0**-64)
            radii.view(-1)[small] = (folded.view(-1)[small] + more_bits).float()
        # sqrt(-2 ln u) / sqrt(4): the sum of four draws has standard deviation 1.
        radii.mul_(2.0**-31).log_().mul_(-2 / _MIXED).sqrt_().mul_(scale)
        angles = part[1].float().mul_(2 * math.pi * 2.0**-32)
        draws = angles.new_empty(2, _MIXED, count)
        torch.mul(torch.cos(angles), radii, out=draws[0])
        torch.mul(angles.sin_(), radii, out=draws[1])
        first = 2 * _MIXED * start
        _mix(draws, out=result[first : first + 2 * _MIXED * count].view(2, _MIXED, count))
    return result[:size]


def _mix(draws: Tensor, out: Tensor) -> None:
    """Write four signed sums of four draws each: the rows of a Hadamard matrix, orthogonal to each other."""
    a, b, c, d = draws.unbind(1)
    e, f, g, h = a + b, a - b, c + d, c - d
    for row, (left, right) in enumerate(((e, g), (f, h))):
        torch.add(left, right, out=out[:, row])
        torch.sub(left, right, out=out[:, row + 2])
