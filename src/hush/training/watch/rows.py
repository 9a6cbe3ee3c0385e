"""Invented rows for a batch, and the same batch with some rows replaced.

Every entry is drawn between the smallest and the largest value that its column has in the real batch: so numbers stay
positive where they must be, and indices stay within their tables. Nothing else of the real rows is used.

first    all rows in the middle half of that range
second   a random half of the rows replaced: by the smallest values, the largest ones, some of both, or any

Extremes are what a condition such as ``(x > 3).any()`` reacts to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

# From uniform positions in a column's range to those of a kind of replacement.
_KINDS: tuple[Callable[[Tensor], Tensor], ...] = (torch.zeros_like, torch.ones_like, torch.round, torch.clone)


@dataclass(frozen=True, slots=True)
class InventedRows:
    """Two batches of invented rows that agree in some.

    Attributes:
        first: The tensors of the first batch.
        second: Those of the second one, with some rows replaced.
        same: Which rows are the same in both.
    """

    first: list[Tensor]
    second: list[Tensor]
    same: Tensor


def invent(tensors: list[Tensor], size: int, generator: torch.Generator) -> InventedRows:
    """Return invented rows of the shapes, types and ranges of these tensors, which have a row for each example."""
    same = torch.rand(size, generator=generator) < 0.5
    same[int(torch.randint(size, (), generator=generator))] = True
    replaced = int(torch.randint(size, (), generator=generator))
    if bool(same.all()) or size == 2:
        same = torch.arange(size) != replaced
    # For each row one kind of replacement, in all tensors.
    kinds = torch.randint(len(_KINDS), (size,), generator=generator)
    if size > 1:  # both extremes take part wherever there are two rows for them
        kinds[torch.nonzero(~same)[:2, 0]] = torch.tensor([1, 0])[: int((~same).sum())]
    first, second = [], []
    for tensor in tensors:
        middle = 0.25 + 0.5 * torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        other = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
        by_row = (-1, *([1] * (tensor.dim() - 1)))
        for kind, replace in enumerate(_KINDS):
            other = torch.where(kinds.view(by_row) == kind, replace(other), other)
        first.append(_between(tensor, middle))
        second.append(_between(tensor, torch.where(same.view(by_row), middle, other)))
    return InventedRows(first, second, same)


@torch.no_grad()
def _between(tensor: Tensor, position: Tensor) -> Tensor:
    """Return values at these positions, from 0 to 1, between the smallest and the largest of each column."""
    if tensor.is_complex():
        return torch.view_as_complex(_between(torch.view_as_real(tensor), torch.stack([position, 1 - position], -1)))
    position = position.to(tensor.device)
    values = torch.nan_to_num(tensor.detach().double(), posinf=1e4, neginf=-1e4)
    low, high = values.amin(0), values.amax(0)
    if tensor.is_floating_point():
        return (low + (high - low) * position).to(tensor.dtype)
    return torch.minimum((low + (high - low + 1) * position).floor(), high).to(tensor.dtype)
