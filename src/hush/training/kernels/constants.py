"""Small constant tensors, such as clip norms per group, copied to a device once and cached.

Copying a few numbers to a GPU makes the host wait for it. A training step needs the same few numbers every time, so
they are cached by value.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hush.training.kernels.graphs import retain


def constant(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a cached tensor of these values. Do not write to it.

    Args:
        values: Numbers, as (nested) tuples: they are the key of the cache.
        dtype: The tensor's type.
        device: The device of the tensor.
    """
    # The cache may evict a tensor that a recorded graph still reads: the graph has to hold a reference, too.
    return retain(_cached(values, dtype, device))


@lru_cache(maxsize=256)
def _cached(values: Any, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=device)
