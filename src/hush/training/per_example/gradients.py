"""The gradients of one parameter, one for each example, in the form in which they are cheapest.

A form knows, for every example i of the batch (always the first dimension):

- ``measure``: the squared norm of gradient i, often without computing that gradient;
- ``weighted_sum``: the sum over i of factor i times gradient i;
- ``whole``: the gradients themselves, for parameters that are used in several ways, where norms do not add up.

Nothing here looks at the data to decide what to do, except where it is said: torch.compile sees plain tensor code.

Shapes: B examples, T positions (of a sequence or an image), d inputs, p outputs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import Tensor

from hush.training.per_example.norms import (
    HALF,
    Measure,
    dense_sums,
    masked,
    row_squares,
    square_norms,
    times,
    work_type,
)

_MANY = 1 << 27  # numbers of instantiated gradients at once, where only their norms are wanted
_COPIED = 1 << 29  # bytes of copies, at least, to make at once
_FEW = 1 << 25  # bytes of gradients that a GPU writes and reads in no time


class Gradient(ABC):
    """Every example's gradient of one parameter, or of some of its rows.

    A form may have a ``dense`` part [B, ...], gradients themselves, and a ``product`` part, x and g. Then ``measure``
    is about the rest, if there is any: such parts of all parameters are measured together; dense ones are also summed
    together, and ``weighted_sum`` is about the rest.
    """

    @property
    def dense(self) -> Tensor | None:
        """The dense part."""
        return None

    def product(self) -> tuple[Tensor, Tensor] | None:
        """Return x [B, T, d] and g [B, T, p], if the norm is to be found from their products.

        There may be several of them, one after the other, for each example.
        """
        return None

    def measure(self) -> Measure | None:
        """Return squared norms, or what is to be added to those of the other parts."""
        return None

    @abstractmethod
    def whole(self) -> Tensor:
        """Return the gradients: [B, *shape]."""

    @abstractmethod
    def weighted_sum(self, factors: Tensor) -> Tensor | None:
        """Return the sum of the gradients, each times its factor, in fp32: [*shape]."""

    @abstractmethod
    def without(self, bad: Tensor) -> Gradient:
        """Forget everything about some examples: 0 times NaN is not 0."""

    def joined(self, rows: int) -> Gradient:
        """Return gradients of so many examples each, one after the other, added up."""
        return Whole(_joined(self.whole(), rows))


def _joined(each: Tensor, rows: int) -> Tensor:
    return each.reshape(len(each) // rows, rows, *each.shape[1:]).sum(1, dtype=work_type(each))


@dataclass(frozen=True, slots=True)
class Whole(Gradient):
    """The gradients themselves."""

    each: Tensor

    @property
    def dense(self) -> Tensor:
        return self.each

    def whole(self) -> Tensor:
        return self.each

    def weighted_sum(self, factors: Tensor) -> None:
        return None

    def without(self, bad: Tensor) -> Whole:
        return Whole(masked(self.each, bad))


@dataclass(frozen=True, slots=True)
class Products(Gradient):
    """Sums over positions of products g^T x, left undone: x [B, T, d], g [B, T, p]."""

    x: Tensor
    g: Tensor
    transposed: bool = False
    scaled: bool = False  # whether g has its factors already

    def joined(self, rows: int) -> Products:
        x, g = (each.reshape(len(each) // rows, -1, each.shape[2]) for each in (self.x, self.g))
        return replace(self, x=x, g=g)

    def product(self) -> tuple[Tensor, Tensor] | None:
        gram_ = self.x.shape[1] == 1 or prefers_gram(self.x.shape, self.g.shape[-1], self.g)
        return (self.x, self.g) if gram_ else None

    def measure(self) -> Measure | None:
        if self.product() is not None:
            return None
        return Measure(torch.cat([row_squares(each) for each, _ in self._chunks()]))

    def _chunks(self) -> list[tuple[Tensor, slice]]:
        """Return the gradients of a few examples at a time."""
        size, _, inputs = self.x.shape
        some = max(_MANY // (inputs * self.g.shape[2]), 1)
        parts = [slice(start, start + some) for start in range(0, size, some)]
        return [(torch.bmm(self.g[part].mT, self.x[part]), part) for part in parts]

    def whole(self) -> Tensor:
        each = torch.bmm(self.g.mT, self.x)
        return each.mT if self.transposed else each

    def weighted_sum(self, factors: Tensor) -> Tensor:
        if self.product() is None:
            total = sum(dense_sums([each], [0], factors[None, part])[0] for each, part in self._chunks())
            assert isinstance(total, Tensor)
            return total.mT if self.transposed else total
        x, g = self.x, self.g
        if x.is_cuda and not self.scaled:  # nobody asks there what is not finite
            x, g = times(x, factors > 0), times(g, factors)
        elif not self.scaled:
            kind = work_type(x)
            x, g = x.to(kind), g.to(kind) * factors.to(kind).view(-1, 1, 1)
        left, right = (x, g) if self.transposed else (g, x)
        left, right = left.flatten(0, 1).mT, right.flatten(0, 1)
        return torch.mm(left, right, out_dtype=torch.float32) if self.scaled else (left @ right).float()

    def without(self, bad: Tensor) -> Products:
        return replace(self, x=masked(self.x, bad), g=masked(self.g, bad))


def scale_products(gradients: list[Gradient], places: list[int], factors: Tensor) -> Iterator[Gradient]:
    """Multiply products in bf16 on a GPU with their factors, some together; the sums are then products of bf16."""
    ready: dict[int, tuple[Tensor, Tensor]] = {}
    for number, one in enumerate(gradients):
        if not _is_scaled(one):
            yield one
            continue
        if not ready:
            ready = _next_scaled(gradients, number, places, factors)
        x, g = ready.pop(number)
        yield replace(one, x=x, g=g, scaled=True)


def _is_scaled(use: Gradient) -> TypeGuard[Products]:
    return isinstance(use, Products) and use.g.is_cuda and use.g.dtype is torch.bfloat16 and use.product() is not None


def _next_scaled(
    gradients: list[Gradient], first: int, places: list[int], factors: Tensor
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return inputs and scaled gradients of the next products, so many that their copies take little memory.

    Both are 0 for examples of factor 0, which may be not finite.
    """
    from hush.training.kernels.sums_cuda import scaled

    some: dict[int, Products] = {}
    copied = 0
    for number in range(first, len(gradients)):
        use = gradients[number]
        if _is_scaled(use):
            some[number] = use
            copied += use.x.nbytes + use.g.nbytes
            if copied >= _COPIED:
                break
    own = [places[number] for number in some]
    inputs = scaled([use.x for use in some.values()], own, (factors > 0).to(factors.dtype))
    found = scaled([use.g for use in some.values()], own, factors)
    return dict(zip(some, zip(inputs, found, strict=True), strict=True))


def prefers_products(shape: tuple[int, int, int], outputs: int, like: Tensor, memory: int) -> bool:
    """Say whether to leave products undone, for inputs of shape [B, T, d].

    One position: always, except that a GPU writes and reads a few gradients faster than it starts more kernels. With
    several: if norms are cheaper that way; or if whole gradients take more than so many bytes, and more than products
    do. Then they are computed a few at a time, and twice.
    """
    size, positions, inputs = shape
    whole = size * inputs * outputs * like.element_size()
    if like.is_cuda and whole <= min(_FEW, memory):
        return False
    if positions == 1 or prefers_gram(shape, outputs, like):
        return True
    return whole > memory and positions * (inputs + outputs) < inputs * outputs


def prefers_gram(shape: tuple[int, ...], outputs: int, like: Tensor) -> bool:
    """Say whether norms from T x T products are cheaper than writing and reading twice all gradients.

    On GPUs by the ratio of matrix products to memory traffic that an H200 has, on CPUs by the number of operations.
    """
    positions, inputs = shape[1], shape[2]
    if not like.is_cuda:
        return 2 * positions * positions <= inputs * outputs
    if like.dtype is torch.float64:
        return False
    rate = 250 if like.dtype in HALF else 125
    return positions * positions * (inputs + outputs) <= rate * inputs * outputs


@dataclass(frozen=True, slots=True)
class Rows(Gradient):
    """Rows of a table: each row that an example uses, once, with its gradient; what is left over has gradient 0."""

    rows: Tensor  # [B, T]
    g: Tensor  # [B, T, d]
    num_rows: int

    def measure(self) -> Measure:
        return Measure(square_norms(self.g))

    def whole(self) -> Tensor:
        size, width = len(self.g), self.g.shape[-1]
        each = self.g.new_zeros(size * self.num_rows, width)
        return each.index_add_(0, self.places(), self.g.flatten(0, 1)).view(size, self.num_rows, width)

    def joined(self, rows: int) -> Rows:
        count = len(self.rows) // rows
        return add_up_rows(self.rows.reshape(count, -1), self.g.reshape(count, -1, self.g.shape[2]), self.num_rows)

    def places(self) -> Tensor:
        """Return where the rows are among the rows of all examples, one after the other."""
        start = torch.arange(len(self.rows), device=self.rows.device) * self.num_rows
        return (start.unsqueeze(1) + self.rows).flatten()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        scaled = times(self.g, factors).flatten(0, 1)
        return scaled.new_zeros(self.num_rows, scaled.shape[1]).index_add_(0, self.rows.flatten(), scaled).float()

    def without(self, bad: Tensor) -> Rows:
        return replace(self, g=masked(self.g, bad))


def add_up_rows(indices: Tensor, g: Tensor, num_rows: int) -> Rows:
    """Return rows of a table from all uses of rows: indices [B, T] and gradients [B, T, d]."""
    indices, order = torch.sort(indices.long(), dim=1)
    new = torch.ones_like(indices, dtype=torch.bool)
    new[:, 1:] = indices[:, 1:] != indices[:, :-1]
    place = new.cumsum(1) - 1
    back = torch.empty_like(place).scatter(1, order, place).unsqueeze(-1).expand_as(g)
    sums = torch.zeros_like(g, dtype=work_type(g)).scatter_add(1, back, g.to(work_type(g)))
    return Rows(torch.zeros_like(indices).scatter(1, place, indices), sums, num_rows)


@dataclass(frozen=True, slots=True)
class Tied(Gradient):
    """A table that is an output layer's weight, too: whole gradients, and rows that come to them."""

    each: Tensor
    table: Rows

    @property
    def dense(self) -> Tensor:
        return self.each

    def measure(self) -> Measure:
        examples = torch.arange(len(self.each), device=self.each.device).unsqueeze(1)
        met = self.each[examples, self.table.rows]
        kind = torch.float64 if self.each.dtype is torch.float64 else torch.float32
        crossed = (met.to(kind) * self.table.g).sum((1, 2)).double()
        own = square_norms(self.table.g)
        # Where the two cancel, rounding decides; so the norm counts as larger.
        return Measure(own + 2 * crossed, own * 2.0**-16)

    def joined(self, rows: int) -> Tied:
        return Tied(_joined(self.each, rows), self.table.joined(rows))

    def whole(self) -> Tensor:
        return self.each + self.table.whole()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return self.table.weighted_sum(factors)

    def without(self, bad: Tensor) -> Tied:
        return Tied(masked(self.each, bad), self.table.without(bad))


def merged(uses: list[Gradient]) -> Gradient:
    """Return one gradient for a parameter that is used several times: the sum of those of its uses."""
    if len(uses) == 1:
        return uses[0]
    products = [use for use in uses if isinstance(use, Products)]
    if len(products) == len(uses) and len({use.transposed for use in products}) == 1:
        x, g = (torch.cat([getattr(use, key) for use in products], 1) for key in ("x", "g"))
        return replace(products[0], x=x, g=g)
    tables = [use for use in uses if isinstance(use, Rows)]
    table = None
    if tables:
        indices, gradients = (torch.cat([getattr(use, key) for use in tables], 1) for key in ("rows", "g"))
        table = add_up_rows(indices, gradients, tables[0].num_rows) if len(tables) > 1 else tables[0]
        if len(tables) == len(uses):
            return table
    others = [use.whole() for use in uses if not isinstance(use, Rows)]
    each = others[0]
    for other in others[1:]:
        each = each + other
    return Whole(each) if table is None else Tied(each, table)
