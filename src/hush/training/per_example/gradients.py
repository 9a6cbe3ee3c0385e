"""Forms of per-example gradients: one parameter, one gradient for each example, held in the cheapest way.

The result of a layer's backward pass takes one of these forms:

`DenseGradient`  the gradients themselves, [B, *shape]
`OuterProducts`  inputs x and output gradients g of a linear layer, whose products are left undone
`ConvPatches`    the same for a convolution (in `convolution`)
`TableRows`      the rows of an embedding table that an example looked up, with their gradients
`TiedTable`      a dense gradient plus rows, for a table that is an output layer's weight as well
`TiedProducts`   products left undone plus rows, for such a table that is large

Every form answers the same three questions about example i, which is always an index of the first dimension: what is
its squared norm (``dense``, ``product``, ``measure``), what is the sum over i of factor i times gradient i
(``weighted_sum``), and what are the gradients themselves (``materialize``), for parameters that are used in several
ways. `merged` adds up the forms of a parameter that is used several times *before* norms are taken, as norms of uses do
not add up.

The choice of a form depends on shapes, device and memory (`prefers_products`), never on the data, and does not change
what is guaranteed. torch.compile sees plain tensor code.

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
    CANCELLATION,
    HALF,
    MIN_POSITIONS,
    SquaredNorms,
    compute_dtype,
    dense_sums,
    product_sum,
    row_squares,
    scale_examples,
    square_norms,
    zero_examples,
)

_MAX_MATERIALIZED = 1 << 27  # elements of gradients at once, where only norms or sums of them are needed
_MIN_COPIED = 1 << 29  # bytes of copies to make at once, at least
_SMALL_GRADIENTS = 1 << 25  # bytes that a GPU writes and reads faster than it starts more kernels


class Gradient(ABC):
    """Every example's gradient of one parameter, or of some of its rows.

    A form may have a ``dense`` part, and a ``product`` part. The dense parts of all parameters are measured and summed
    together, and the product parts are measured together: one kernel instead of hundreds. ``measure`` is about the
    rest, if there is any, and ``weighted_sum`` about everything but the dense part.
    """

    @property
    def dense(self) -> Tensor | None:
        """The dense part: gradients [B, ...]."""
        return None

    def product(self) -> tuple[Tensor, Tensor] | None:
        """Return x [k B, T, d] and g [k B, T, p], if norms are to be found from their inner products.

        Each example may have k > 1 pairs, one after the other, such as the groups of a convolution.
        """
        return None

    def measure(self) -> SquaredNorms | None:
        """Return the squared norms, or what is to be added to those of the other parts."""
        return None

    @property
    @abstractmethod
    def terms(self) -> float:
        """How many terms an entry of the sum has, times how much larger these may be than their sum for one example.

        Where positions are left apart, `clip_factors` counts a norm as at least 2^-8 of that of all positions together
        (`measure_products`): so their terms are at most 2^8 times larger than a contribution.
        """

    @abstractmethod
    def materialize(self) -> Tensor:
        """Return the gradients themselves: [B, *shape]."""

    @abstractmethod
    def weighted_sum(self, factors: Tensor) -> Tensor | None:
        """Return the sum over examples of factor times gradient, in fp64: [*shape]. The dense part is left out."""

    @abstractmethod
    def without(self, bad: Tensor) -> Gradient:
        """Return the form with zeros for the bad examples: a factor of 0 is not enough, as 0 times NaN is NaN."""

    def joined(self, rows: int) -> Gradient:
        """Return the form in which every ``rows`` consecutive examples count as one: their gradients are summed."""
        return DenseGradient(_joined(self.materialize(), rows))


def _joined(gradients: Tensor, rows: int) -> Tensor:
    shape = (len(gradients) // rows, rows, *gradients.shape[1:])
    return gradients.reshape(shape).sum(1, dtype=compute_dtype(gradients))


@dataclass(frozen=True, slots=True)
class DenseGradient(Gradient):
    """The gradients themselves: [B, *shape]."""

    values: Tensor

    @property
    def dense(self) -> Tensor:
        return self.values

    @property
    def terms(self) -> float:
        return len(self.values)

    def materialize(self) -> Tensor:
        return self.values

    def weighted_sum(self, factors: Tensor) -> None:
        return None

    def without(self, bad: Tensor) -> DenseGradient:
        return DenseGradient(zero_examples(self.values, bad))


@dataclass(frozen=True, slots=True)
class OuterProducts(Gradient):
    """The gradients of a linear layer: sums over positions of products g^T x, left undone.

    Attributes:
        x: The layer's inputs, [B, T, d].
        g: The gradients of its outputs, [B, T, p].
        transposed: Whether the weight is stored as [d, p].
        scaled: Whether g is already multiplied by the clip factors.
    """

    x: Tensor
    g: Tensor
    transposed: bool = False
    scaled: bool = False

    def joined(self, rows: int) -> OuterProducts:
        # The positions of joined examples are simply put next to each other.
        # The gradient is a sum over positions, so that of joined examples is one over the positions of all of them.
        x, g = (values.reshape(len(values) // rows, -1, values.shape[2]) for values in (self.x, self.g))
        return replace(self, x=x, g=g)

    def product(self) -> tuple[Tensor, Tensor] | None:
        # One position: |g^T x| = |g| |x|, without any matrix.
        from_products = self.x.shape[1] == 1 or prefers_gram(self.x.shape, self.g.shape[-1], self.g)
        return (self.x, self.g) if from_products else None

    @property
    def terms(self) -> float:
        size, positions = self.x.shape[:2]
        is_apart = positions == 1 or self.product() is None or self._has_kernel()
        return size if is_apart else size * positions * CANCELLATION

    def _has_kernel(self) -> bool:
        """Return whether a kernel forms each example's product on its own, and adds these up."""
        return _scales_in_kernel(self) and self.x.shape[1] >= MIN_POSITIONS

    def measure(self) -> SquaredNorms | None:
        if self.product() is not None:
            return None
        return SquaredNorms(torch.cat([row_squares(gradients) for gradients, _ in self._chunks()]))

    def _chunks(self) -> list[tuple[Tensor, slice]]:
        """Return the gradients of a few examples at a time, and which examples they are."""
        size, _, inputs = self.x.shape
        chunk_size = max(_MAX_MATERIALIZED // (inputs * self.g.shape[2]), 1)
        parts = [slice(start, start + chunk_size) for start in range(0, size, chunk_size)]
        # g^T x, [p, T] times [T, d], for each example.
        return [(torch.bmm(self.g[part].mT, self.x[part]), part) for part in parts]

    def materialize(self) -> Tensor:
        gradients = torch.bmm(self.g.mT, self.x)
        return gradients.mT if self.transposed else gradients

    def weighted_sum(self, factors: Tensor) -> Tensor:
        if self.product() is None:
            total = sum(dense_sums([gradients], [0], factors[None, part])[0] for gradients, part in self._chunks())
            assert isinstance(total, Tensor)
            return total.mT if self.transposed else total
        left, right = (self.x, self.g) if self.transposed else (self.g, self.x)
        if self.scaled and left.shape[1] >= MIN_POSITIONS:
            from hush.training.kernels.products_cuda import product_sum as product_sum_on_gpu

            return product_sum_on_gpu(left, right)
        # sum_i f_i sum_t g_it x_it^T is one matrix product over all B T positions, with f_i g_it instead of g_it.
        by_position = None if self.scaled else factors.repeat_interleave(left.shape[1])
        return product_sum(left.flatten(0, 1), right.flatten(0, 1), by_position)

    def without(self, bad: Tensor) -> OuterProducts:
        return replace(self, x=zero_examples(self.x, bad), g=zero_examples(self.g, bad))


def scale_products(gradients: list[Gradient], groups: list[int], factors: Tensor) -> Iterator[Gradient]:
    """Yield the gradients; bf16 products on a GPU are multiplied by their clip factors, several in one kernel.

    Only these products are rounded to bf16, each on its own; they are added up in fp64.

    Args:
        gradients: All gradients.
        groups: The clipping group of each.
        factors: Clip factors [groups, B].
    """
    ready: dict[int, tuple[Tensor, Tensor]] = {}
    for number, gradient in enumerate(gradients):
        if not _scales_in_kernel(gradient):
            yield gradient
            continue
        if not ready:
            ready = _next_scaled(gradients, number, groups, factors)
        x, g = ready.pop(number)
        yield replace(gradient, x=x, g=g, scaled=True)


def _scales_in_kernel(gradient: Gradient) -> TypeGuard[OuterProducts]:
    if not isinstance(gradient, OuterProducts):
        return False
    return gradient.g.is_cuda and gradient.g.dtype is torch.bfloat16 and gradient.product() is not None


def _next_scaled(
    gradients: list[Gradient], first: int, groups: list[int], factors: Tensor
) -> dict[int, tuple[Tensor, Tensor]]:
    """Return inputs and scaled gradients of the next products, as many as fit into a little memory.

    Both are 0 for examples with factor 0, which may be not finite.
    """
    from hush.training.kernels.sums_cuda import scaled

    batch: dict[int, OuterProducts] = {}
    copied = 0
    for number in range(first, len(gradients)):
        gradient = gradients[number]
        if _scales_in_kernel(gradient):
            batch[number] = gradient
            copied += gradient.x.nbytes + gradient.g.nbytes
            if copied >= _MIN_COPIED:
                break
    batch_groups = [groups[number] for number in batch]
    inputs = scaled([products.x for products in batch.values()], batch_groups, (factors > 0).to(factors.dtype))
    outputs = scaled([products.g for products in batch.values()], batch_groups, factors)
    return dict(zip(batch, zip(inputs, outputs, strict=True), strict=True))


def prefers_products(shape: tuple[int, int, int], outputs: int, like: Tensor, memory: int) -> bool:
    """Return whether a linear layer should leave its products undone.

    With one position always, except that a GPU writes and reads small gradients faster than it starts more kernels.
    With several positions, if norms are cheaper that way; or if dense gradients exceed the memory, and the factors are
    smaller. In the latter case gradients are computed a few examples at a time, and twice.

    Args:
        shape: B, T and d of the layer's inputs.
        outputs: p.
        like: A tensor of the layer's type and device.
        memory: How many bytes the dense gradients may take.
    """
    size, positions, inputs = shape
    dense_bytes = size * inputs * outputs * like.element_size()
    if like.is_cuda and dense_bytes <= min(_SMALL_GRADIENTS, memory):
        return False
    if positions == 1 or prefers_gram(shape, outputs, like):
        return True
    # x and g have T (d + p) elements for an example, and its gradient has d p.
    return dense_bytes > memory and positions * (inputs + outputs) < inputs * outputs


def prefers_gram(shape: tuple[int, ...], outputs: int, like: Tensor) -> bool:
    """Return whether norms from T x T inner products are cheaper than writing all gradients and reading them twice.

    On CPUs they are if the 2 T^2 numbers of both matrices of inner products are fewer than the d p of a gradient. On
    GPUs it is the ratio of arithmetic to memory traffic of an H200 that decides.
    """
    positions, inputs = shape[1], shape[2]
    if not like.is_cuda:
        return 2 * positions * positions <= inputs * outputs
    if like.dtype is torch.float64:
        return False
    # Inner products take T^2 (d + p) multiplications. A dense gradient has d p elements, written once and read twice.
    operations_per_element = 250 if like.dtype in HALF else 125
    return positions * positions * (inputs + outputs) <= operations_per_element * inputs * outputs


@dataclass(frozen=True, slots=True)
class TableRows(Gradient):
    """The gradients of an embedding table: each row that an example looked up, once, with its gradient.

    Attributes:
        rows: The row numbers, [B, T]. Unused entries are 0 and have gradient 0.
        g: Their gradients, [B, T, d].
        num_rows: The number of rows of the table.
    """

    rows: Tensor
    g: Tensor
    num_rows: int

    @property
    def terms(self) -> float:
        return self.rows.numel()  # unused entries are zeros in row 0

    def measure(self) -> SquaredNorms:
        return SquaredNorms(square_norms(self.g))

    def materialize(self) -> Tensor:
        size, width = len(self.g), self.g.shape[-1]
        # The tables of all examples, one below the other: one scatter serves all of them.
        gradients = self.g.new_zeros(size * self.num_rows, width)
        return gradients.index_add_(0, self._flat_rows(), self.g.flatten(0, 1)).view(size, self.num_rows, width)

    def joined(self, rows: int) -> TableRows:
        count = len(self.rows) // rows
        return add_up_rows(self.rows.reshape(count, -1), self.g.reshape(count, -1, self.g.shape[2]), self.num_rows)

    def _flat_rows(self) -> Tensor:
        """Return the row numbers in the tables of all examples, one table after the other."""
        start = torch.arange(len(self.rows), device=self.rows.device) * self.num_rows
        return (start.unsqueeze(1) + self.rows).flatten()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        shape = (self.num_rows, self.g.shape[2])
        return self.add_to(torch.zeros(shape, dtype=torch.float64, device=self.g.device), factors)

    def add_to(self, total: Tensor, factors: Tensor) -> Tensor:
        """Add the sum over examples of factor times gradient to a table in fp64, and return it."""
        return total.index_add_(0, self.rows.flatten(), scale_examples(self.g, factors).flatten(0, 1))

    def without(self, bad: Tensor) -> TableRows:
        return replace(self, g=zero_examples(self.g, bad))


def add_up_rows(indices: Tensor, g: Tensor, num_rows: int) -> TableRows:
    """Return the gradient of a table, in which lookups of the same row by one example are added up.

    Args:
        indices: The rows that were looked up, [B, T].
        g: The gradients of the results, [B, T, d].
        num_rows: The number of rows of the table.
    """
    # Sort each example's indices; the first of a run of equal ones opens a new slot, which collects their gradients.
    indices, order = torch.sort(indices.long(), dim=1)
    is_first = torch.ones_like(indices, dtype=torch.bool)
    is_first[:, 1:] = indices[:, 1:] != indices[:, :-1]
    slots = is_first.cumsum(1) - 1
    slot_of_lookup = torch.empty_like(slots).scatter(1, order, slots).unsqueeze(-1).expand_as(g)
    dtype = compute_dtype(g)
    sums = torch.zeros_like(g, dtype=dtype).scatter_add(1, slot_of_lookup, g.to(dtype))
    return TableRows(torch.zeros_like(indices).scatter(1, slots, indices), sums, num_rows)


@dataclass(frozen=True, slots=True)
class TiedTable(Gradient):
    """The gradients of a table that is an output layer's weight, too: dense gradients, plus rows.

    Attributes:
        values: The gradients from the output layer, [B, num_rows, d].
        table: The gradients from lookups.
    """

    values: Tensor
    table: TableRows

    @property
    def dense(self) -> Tensor:
        return self.values

    @property
    def terms(self) -> float:
        # Below, the norm counts as at least 2^-8 of that of the rows. So both parts are at most 2^8 + 1 times larger.
        return (len(self.values) + self.table.terms) * 2 * (CANCELLATION + 1)

    def measure(self) -> SquaredNorms:
        # |a + b|^2 = |a|^2 + 2 <a, b> + |b|^2; the first term is that of the dense part.
        examples = torch.arange(len(self.values), device=self.values.device).unsqueeze(1)
        shared_rows = self.values[examples, self.table.rows]
        dtype = torch.float64 if self.values.dtype is torch.float64 else torch.float32
        crossed = (shared_rows.to(dtype) * self.table.g).sum((1, 2)).double()
        table_squares = square_norms(self.table.g)
        # Where the two cancel, rounding decides what is left; so the norm counts as larger.
        return SquaredNorms(table_squares + 2 * crossed, table_squares * 2.0**-16)

    def joined(self, rows: int) -> TiedTable:
        return TiedTable(_joined(self.values, rows), self.table.joined(rows))

    def materialize(self) -> Tensor:
        return self.values + self.table.materialize()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return self.table.weighted_sum(factors)

    def without(self, bad: Tensor) -> TiedTable:
        return TiedTable(zero_examples(self.values, bad), self.table.without(bad))


@dataclass(frozen=True, slots=True)
class TiedProducts(Gradient):
    """The gradients of a large table that is an output layer's weight, too: products left undone, plus rows.

    Attributes:
        products: The gradients from the output layer.
        table: The gradients from lookups.
    """

    products: OuterProducts
    table: TableRows

    def product(self) -> tuple[Tensor, Tensor] | None:
        return self.products.product()

    @property
    def terms(self) -> float:
        # In `measure`, the norm counts as at least 2^-8 of that of the rows, and of that of all products together.
        return (self.products.g.shape[:2].numel() + self.table.terms) * 2 * CANCELLATION

    def measure(self) -> SquaredNorms:
        # |a + b|^2 = |a|^2 + 2 <a, b> + |b|^2; the first term is that of the products.
        table_squares = square_norms(self.table.g)
        x_norms, g_norms = (torch.linalg.vector_norm(values, dim=2) for values in (self.products.x, self.products.g))
        largest = (x_norms.double() * g_norms.double()).sum(1).square()
        rest = SquaredNorms(table_squares + 2 * self._crossed(), (table_squares + largest) * 2.0**-16)
        apart = self.products.measure()
        return rest if apart is None else rest.plus(apart)

    def _crossed(self) -> Tensor:
        """Return the inner products of both parts, in fp64: [B].

        The row r of the products is sum_t g_t[r] x_t. Its inner product with the gradient e of a lookup of that row is
        sum_t g_t[r] <x_t, e>, which takes T numbers for each lookup instead of a row of the table.
        """
        x, g, (rows, lookups) = self.products.x, self.products.g, (self.table.rows, self.table.g)
        # As many examples at a time as products of all positions and lookups may take.
        step = max(_MAX_MATERIALIZED // max(x.shape[1] * rows.shape[1], 1), 1)
        parts = []
        for part in (slice(start, start + step) for start in range(0, len(x), step)):
            of_rows = g[part].gather(2, rows[part].unsqueeze(1).expand(-1, x.shape[1], -1)).double()
            parts.append((of_rows * torch.bmm(x[part].double(), lookups[part].double().mT)).sum((1, 2)))
        return torch.cat(parts)

    def joined(self, rows: int) -> TiedProducts:
        return TiedProducts(self.products.joined(rows), self.table.joined(rows))

    def materialize(self) -> Tensor:
        return self.products.materialize() + self.table.materialize()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return self.table.add_to(self.products.weighted_sum(factors), factors)

    def without(self, bad: Tensor) -> TiedProducts:
        return TiedProducts(self.products.without(bad), self.table.without(bad))


def merged(uses: list[Gradient]) -> Gradient:
    """Return one gradient for a parameter that is used several times: the sum of the gradients of its uses.

    The result stays as undone as it can: products are put next to each other, rows of tables are added up, and a table
    beside anything else makes `TiedProducts` or a `TiedTable`. Everything else becomes dense.
    """
    if len(uses) == 1:
        return uses[0]
    products = [use for use in uses if isinstance(use, OuterProducts)]
    tables = [use for use in uses if isinstance(use, TableRows)]
    table = _merged_tables(tables) if tables else None
    if table is not None and len(tables) == len(uses):
        return table
    if len(products) + len(tables) == len(uses) and len({use.transposed for use in products}) == 1:
        product = _merged_products(products)
        if table is None:
            return product
        if not product.transposed:  # a table stored the other way round is no weight of an output layer
            return TiedProducts(product, table)
    dense = [use.materialize() for use in uses if not isinstance(use, TableRows)]
    total = dense[0]
    for values in dense[1:]:
        total = total + values
    return DenseGradient(total) if table is None else TiedTable(total, table)


def _merged_products(products: list[OuterProducts]) -> OuterProducts:
    """Return products next to each other: g_1^T x_1 + g_2^T x_2 = [g_1; g_2]^T [x_1; x_2].

    The uses are more positions, so their cross terms enter the norm.
    """
    if len(products) == 1:
        return products[0]
    x, g = (torch.cat([getattr(use, name) for use in products], 1) for name in ("x", "g"))
    return replace(products[0], x=x, g=g)


def _merged_tables(tables: list[TableRows]) -> TableRows:
    """Return the lookups of several uses, added up by row."""
    if len(tables) == 1:
        return tables[0]
    rows, gradients = (torch.cat([getattr(use, name) for use in tables], 1) for name in ("rows", "g"))
    return add_up_rows(rows, gradients, tables[0].num_rows)
