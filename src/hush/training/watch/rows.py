"""Invented rows for a batch, and the same batch with some rows replaced.

Every entry is drawn between the smallest and the largest value that its column has in the real batch: so numbers stay
positive where they must be, and indices stay within their tables. Nothing else of the real rows is used.

first    all rows in the middle half of that range; in a crowded batch, all of them equal
second   a random half of the rows replaced: by the smallest values, the largest ones, some of both, or any

Extremes are what a condition such as ``(x > 3).any()`` reacts to. Equal rows compete for the same capacity.
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


def invent(tensors: list[Tensor], size: int, seed: int, *, crowded: bool = False) -> InventedRows:
    """Return invented rows of the shapes, types and ranges of these tensors, which have a row for each example.

    Args:
        tensors: The tensors.
        size: How many examples there are.
        seed: The seed of what is drawn.
        crowded: Whether the rows of the first batch are equal.
    """
    generator = torch.Generator().manual_seed(seed)
    same = torch.rand(size, generator=generator) < 0.5
    same[int(torch.randint(size, (), generator=generator))] = True
    replaced = int(torch.randint(size, (), generator=generator))
    if bool(same.all()) or size == 2:
        same = torch.arange(size) != replaced
    # For each row one kind of replacement, in all tensors.
    kinds = torch.randint(len(_KINDS), (size,), generator=generator)
    if size > 1:  # both extremes take part wherever there are two rows for them
        kinds[torch.nonzero(~same)[:2, 0]] = torch.tensor([1, 0])[: int((~same).sum())]
    pairs = [_invent(tensor, same, kinds, seed + number, crowded) for number, tensor in enumerate(tensors)]
    return InventedRows([first for first, _ in pairs], [second for _, second in pairs], same)


@torch.no_grad()
def _invent(tensor: Tensor, same: Tensor, kinds: Tensor, seed: int, crowded: bool) -> tuple[Tensor, Tensor]:
    """Return both versions of a tensor."""
    if tensor.is_complex():
        first, second = _invent(torch.view_as_real(tensor), same, kinds, seed, crowded)
        return torch.view_as_complex(first), torch.view_as_complex(second)
    # Where the tensor is, and in single precision if that will do: batches of images are large.
    generator = torch.Generator(tensor.device).manual_seed(seed)
    is_small = tensor.is_floating_point() and tensor.dtype is not torch.float64
    dtype = torch.float32 if is_small else torch.float64

    def positions() -> Tensor:
        return torch.rand(tensor.shape, generator=generator, dtype=dtype, device=tensor.device)

    by_row = (-1, *([1] * (tensor.dim() - 1)))
    rows, kinds = same.to(tensor.device).view(by_row), kinds.to(tensor.device).view(by_row)
    middle, other = 0.25 + 0.5 * positions(), positions()
    middle = middle[:1].expand(tensor.shape) if crowded else middle
    for kind, replace in enumerate(_KINDS):
        other = torch.where(kinds == kind, replace(other), other)
    return _between(tensor, middle), _between(tensor, torch.where(rows, middle, other))


def _between(tensor: Tensor, position: Tensor) -> Tensor:
    """Return values at these positions, from 0 to 1, between the smallest and the largest of each column."""
    values = torch.nan_to_num(tensor.detach().to(position.dtype), posinf=1e4, neginf=-1e4)
    low, high = values.amin(0), values.amax(0)
    if tensor.is_floating_point():
        return torch.minimum(low + (high - low) * position, high).to(tensor.dtype)
    return torch.minimum((low + (high - low + 1) * position).floor(), high).to(tensor.dtype)
