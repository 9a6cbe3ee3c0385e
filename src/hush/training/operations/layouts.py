"""Layouts: which entries of a tensor belong to which example.

A batch of B examples starts as the first dimension of a tensor. From there it travels: transposed to another dimension,
merged with heads, windows or positions into a dimension of B k rows, expanded, cut, sorted by expert. A `Layout` says
which dimension holds the examples now, and in which order. Sizes are never compared with B to guess it: a sequence may
be as long as the batch.

The dimension of size n is split as (outer, B, inner): entry j belongs to example (j // inner) % B. A view that keeps
the order of all entries keeps their owners, so it is enough to know after how many entries the example changes. Where
data decide the order, as in a mixture of experts, the owners are written out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Layout:
    """Where a tensor holds the examples.

    Attributes:
        dim: The dimension; `NOWHERE` if the entries depend on the batch in an unknown way, `ANYWHERE` in a batch of
            one example, to which everything belongs.
        inner: How many consecutive entries of the dimension belong to one example.
        owners: The example that each entry of the dimension belongs to, if data decide it.
        inputs: The numbers of the model's inputs that it stems from.
    """

    dim: int
    inner: int = 1
    owners: Tensor | None = None
    inputs: frozenset[int] = frozenset()

    @property
    def is_known(self) -> bool:
        """Whether the entries can be told apart by example."""
        return self.dim != NOWHERE

    def agrees(self, other: Layout) -> bool:
        """Return whether both order their examples alike, in whichever dimension."""
        if self.owners is None or other.owners is None:
            return self.owners is other.owners and self.inner == other.inner
        return torch.equal(self.owners, other.owners)

    def at(self, dim: int) -> Layout:
        """Return the same order in another dimension."""
        return Layout(dim, self.inner, self.owners, self.inputs)


NOWHERE, ANYWHERE = -1, -2


def owners_of(layout: Layout, length: int, size: int, device: torch.device) -> Tensor:
    """Return the example of each entry of the dimension."""
    if layout.owners is not None:
        return layout.owners
    return (torch.arange(length, device=device) // layout.inner) % size


def regular(dim: int, owners: Tensor, size: int, inputs: frozenset[int]) -> Layout:
    """Return the layout with these owners, without writing them out if they are regular."""
    length = len(owners)
    if length and length % size == 0 and not owners.is_cuda:
        changes = (owners != owners[0]).nonzero()
        inner = int(changes[0]) if len(changes) else length
        if (length // size) % inner == 0 and torch.equal(owners, (torch.arange(length) // inner) % size):
            return Layout(dim, inner, None, inputs)
    return Layout(dim, 1, owners, inputs)


def reshaped(layout: Layout, before: tuple[int, ...], after: tuple[int, ...], size: int) -> Layout:
    """Return the layout after a view that keeps the order of all entries.

    Args:
        layout: The layout before.
        before: The shape before.
        after: The shape after.
        size: B.
    """
    # After this many entries comes the next step along the dimension, and the next example.
    step = math.prod(before[layout.dim + 1 :])
    change = step * layout.inner
    stride = math.prod(after)
    for dim, length in enumerate(after):
        whole, stride = stride, stride // max(length, 1)
        if layout.owners is not None:
            if stride == step and length == before[layout.dim]:
                return layout.at(dim)
        elif length > 1 and change % stride == 0 and whole % (change * size) == 0:
            return Layout(dim, change // stride, None, layout.inputs)
    return Layout(NOWHERE, inputs=layout.inputs)


def by_example(x: Tensor, layout: Layout, size: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Return a tensor with examples first, [B, ...], and a function that brings such a tensor back into the layout.

    An example with k rows keeps them as one more dimension (outer and inner ones as two), so the last dimensions stay
    what they are. The way back is for tensors that differ in dimensions after that of the examples only.
    """
    if layout.dim == ANYWHERE:
        return x.unsqueeze(0), lambda y: y.squeeze(0)
    dim, length = layout.dim, x.shape[layout.dim]
    if layout.owners is not None:
        return _padded(x, dim, layout.owners, size)
    if length == size:
        return (x, lambda y: y) if dim == 0 else (x.movedim(dim, 0), lambda y: y.movedim(0, dim))
    split = (length // (size * layout.inner), size, layout.inner)
    return x.unflatten(dim, split).movedim(dim + 1, 0), lambda y: y.movedim(0, dim + 1).flatten(dim, dim + 2)  # type: ignore[no-untyped-call]


def _padded(x: Tensor, dim: int, owners: Tensor, size: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """Give every example the same number of rows: those of its own, and zeros."""
    order = torch.argsort(owners, stable=True)
    counts = torch.bincount(owners, minlength=size)
    most = max(int(counts.max()), 1) if len(owners) else 1
    starts = counts.cumsum(0) - counts
    slots = torch.empty_like(owners)
    slots[order] = torch.arange(len(owners), device=owners.device) - starts[owners[order]]
    places = owners * most + slots
    rows = x.movedim(dim, 0)
    padded = rows.new_zeros(size * most, *rows.shape[1:]).index_copy(0, places, rows)
    # The rows stand where the dimension was, after that of the examples.
    result = padded.unflatten(0, (size, most)).movedim(1, dim + 1)  # type: ignore[no-untyped-call]
    return result, lambda y: y.movedim(dim + 1, 1).flatten(0, 1).index_select(0, places).movedim(0, dim)


def repeated(values: Tensor, layout: Layout, length: int, size: int) -> Tensor:
    """Return values [B, ...] in the order of the layout: [n, ...]."""
    if layout.owners is not None:
        return values.index_select(0, layout.owners)
    if length == size:
        return values
    outer = length // (size * layout.inner)
    shape = (outer, size, layout.inner, *values.shape[1:])
    return values.unsqueeze(1).unsqueeze(0).expand(shape).flatten(0, 2)
