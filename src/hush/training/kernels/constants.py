"""Small tensors of constants, brought to a device once."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from hush.training.kernels.graphs import kept


def constant(values: Any, kind: torch.dtype, device: torch.device) -> Tensor:
    """Return a tensor of numbers (tuples of them); brought to a device once, since it would have to be waited for."""
    return kept(_constant(values, kind, device))


@lru_cache(maxsize=256)
def _constant(values: Any, kind: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=kind, device=device)
