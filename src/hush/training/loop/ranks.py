"""Training on several processes or devices: every process would draw a sample and noise of its own.

A gradient that torch averages over processes then holds several noises and several clipped sums, and the models of
the processes drift apart. All of that under one epsilon, so it is refused.
"""

from __future__ import annotations

from itertools import chain

import torch
from torch import nn

from hush.errors import Unsupported

_SPREADING = ("torch.distributed", "torch.nn.parallel")


def refuse_ranks(model: nn.Module) -> None:
    """Refuse a model that is spread over processes or devices, and a process that is one of several.

    >>> refuse_ranks(nn.DataParallel(nn.Linear(2, 1)))
    Traceback (most recent call last):
        ...
    hush.errors.Unsupported: DataParallel spreads the model over processes or devices. Pass the model itself.
    """
    for part in chain(model.modules(), model.parameters()):
        if any(ancestor.__module__.startswith(_SPREADING) for ancestor in type(part).__mro__):
            raise Unsupported(
                f"{type(part).__name__} spreads the model over processes or devices", "Pass the model itself"
            )
    refuse_world()


def refuse_world() -> None:
    """Refuse a process that is one of several of torch.distributed."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        num_ranks = torch.distributed.get_world_size()
        if num_ranks > 1:
            raise Unsupported(
                f"private training on {num_ranks} processes: each would draw its own sample and noise",
                "Train on one process",
            )
