"""The gradients of one parameter, one for each example, in the form in which they are cheapest.

A form knows, for every example i of the batch (always the first dimension):

- ``measure``: the squared norm of gradient i, often without computing that gradient;
- ``weighted_sum``: the sum over i of factor i times gradient i;
- ``whole``: the gradients themselves, for parameters that are used in several ways, where norms do not add up.

Nothing here looks at the data to decide what to do, except where it is said: torch.compile sees plain tensor code.

Shapes: B examples, T positions (of a sequence or an image), d inputs, p outputs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from hush.training._clipping import Adaptive, Clipping, Flat
from hush.training._gram import gram

_CANCELLED = 1e-4  # of its largest possible size: a smaller squared norm is left to the gradients themselves
_PIECE = 1 << 13  # numbers to square and add up in fp32
_CACHED = 1 << 18  # numbers of patches to copy at once: 1 MiB
_COPIED = 1 << 25  # numbers of patches to copy at once on a GPU
_MANY = 1 << 27  # numbers of instantiated gradients at once, where only their norms are wanted
_FEW = 1 << 25  # bytes of gradients that a GPU writes and reads in no time
_LEAST = 1e-30  # a factor below this would be rounded coarsely: such an example counts as not finite
_FAR = 1e30  # so do inputs beyond this, whose products with tiny gradients would be
_HALF = (torch.bfloat16, torch.float16)


@dataclass(frozen=True, slots=True)
class Measure:
    """Squared norms, in fp64, and what is not certain about them.

    Attributes:
        squares: Squared norms.
        doubt: How much larger they may really be.
        rounding: The squared norm of what rounding may add to a gradient when it is summed.
    """

    squares: Tensor
    doubt: Tensor | None = None
    rounding: Tensor | None = None

    def plus(self, other: Measure) -> Measure:
        """Return those of both together."""
        return Measure(
            self.squares + other.squares, _added(self.doubt, other.doubt), _added(self.rounding, other.rounding)
        )

    def at(self, place: int, count: int) -> Measure:
        """Return this as one of so many rows, of which the others are 0."""

        def row(values: Tensor | None) -> Tensor | None:
            if values is None or count == 1:
                return None if values is None else values.unsqueeze(0)
            rows = values.new_zeros(count, len(values))
            rows[place] = values
            return rows

        squares = row(self.squares)
        assert squares is not None
        return Measure(squares, row(self.doubt), row(self.rounding))


def _added(total: Tensor | None, more: Tensor | None) -> Tensor | None:
    return more if total is None else total if more is None else total + more


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


def _masked(values: Tensor, bad: Tensor) -> Tensor:
    return values.masked_fill(bad.view(-1, *([1] * (values.dim() - 1))), 0.0)


def _scaled(values: Tensor, factors: Tensor) -> Tensor:
    """Return values times factors; where the factor is 0, 0, even if the value is not finite."""
    kind = _work(values)
    factors = factors.to(kind).view(-1, *([1] * (values.dim() - 1)))
    return torch.where(factors > 0, values.to(kind) * factors, 0.0)


def _squares(values: Tensor) -> Tensor:
    """Return the squared norm of each example's part.

    In fp32: squares vanish below 1e-23 an element, far below any clip norm that a plan admits; beyond 1e19 they
    overflow, and the example counts as not finite.
    """
    return _norms(values.flatten(1)).square()


def _norms(flat: Tensor) -> Tensor:
    """Return the norm of each row, found in pieces: torch's own sum of many equal squares in fp32 is too small."""
    pieces = flat.shape[1] // _PIECE
    if flat.dtype is torch.float64 or pieces < 2 or not flat.is_contiguous():
        wide = torch.float64 if flat.dtype is torch.float64 or pieces >= 2 else torch.float32
        found: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=wide).double()
        return found
    most = flat[:, : pieces * _PIECE].view(len(flat), pieces, _PIECE)
    norms = torch.linalg.vector_norm(most, dim=2, dtype=torch.float32).double()
    rest = torch.linalg.vector_norm(flat[:, pieces * _PIECE :], dim=1, dtype=torch.float32).double()
    found = torch.linalg.vector_norm(torch.cat([norms, rest.unsqueeze(1)], 1), dim=1)
    return found


def _length(values: Tensor) -> Tensor:
    """Return the norm of each example's part, and no less: squares below 1e-45 vanish in fp32, and are added back.

    For a product of two may be large where one of them is tiny.
    """
    flat = values.flatten(1)
    found = _norms(flat)
    return (
        found
        if flat.dtype is torch.float64
        else found.add_(flat.shape[1] ** 0.5 * 2.0**-74).masked_fill_(found > _FAR, torch.inf)
    )


def dense_squares(values: list[Tensor], places: list[int], count: int) -> Tensor:
    """Return the squared norms of each example's dense parts, in so many groups: [groups, B]."""
    if _on_gpu(values[0]):
        from hush.training._sums_cuda import squares

        return squares(values, places, count)
    total = torch.zeros(count, len(values[0]), dtype=torch.float64)
    for each, place in zip(values, places, strict=True):
        total[place] += _squares(each)
    return total


def dense_sums(values: list[Tensor], places: list[int], factors: Tensor) -> list[Tensor]:
    """Return the weighted sums of dense parts, each with the factors of its group.

    In fp32: a sum that is rounded more coarsely would change by that, too, when an example comes or goes.
    """
    if values and _on_gpu(values[0]):
        from hush.training._sums_cuda import weighted_sums

        return weighted_sums(values, places, factors)
    return [_wide_sum(each, factors[place]) for each, place in zip(values, places, strict=True)]


def _wide_sum(each: Tensor, factors: Tensor) -> Tensor:
    kind = _work(each)
    total: Tensor = (factors.to(kind) @ each.flatten(1).to(kind)).float()
    return total.view(each.shape[1:])


def _work(values: Tensor) -> torch.dtype:
    """Return in what type to compute: fp64 for those that may not fit into fp32."""
    return torch.float64 if values.dtype is torch.float64 else torch.float32


def _row_squares(each: Tensor) -> Tensor:
    return dense_squares([each], [0], 1)[0]


def _on_gpu(values: Tensor) -> bool:
    return values.is_cuda and values.dtype is not torch.float64


def clip_factors(
    measure: Measure, chosen: Tensor, clipping: Clipping, targets: list[float], scale: float
) -> tuple[Tensor, Tensor]:
    """Return by what each gradient is to be multiplied so that none exceeds its group's target, and its norm.

    Both are of gradients that were ``scale`` times too large. Of an example that is not finite the factors are 0, and
    the norm NaN; of one that is not ``chosen`` (0, not 1) the factors are 0, too.
    """
    if measure.squares.is_cuda and len(targets) == 1 and type(clipping) in (Flat, Adaptive):
        from hush.training._sums_cuda import factors

        return factors(measure, chosen, targets[0], scale)
    squares = measure.squares.clamp_min(0)
    bounds = squares.sqrt() if measure.doubt is None else (squares + measure.doubt).sqrt()
    bounds = (bounds if measure.rounding is None else bounds + measure.rounding.sqrt()) / scale
    finite = (bounds < 1.0 / _LEAST).all(0)  # and no NaN
    bounds_of_groups = torch.tensor(targets, device=bounds.device, dtype=bounds.dtype).unsqueeze(1)
    found = torch.where(finite, clipping.factors(bounds, bounds_of_groups), 0.0) / scale
    found = torch.where(found >= _LEAST, found, 0.0)
    norms = (squares.sum(0).sqrt() / scale).masked_fill(~finite, torch.nan)
    return found * chosen, norms.to(chosen.dtype)


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
        return Whole(_masked(self.each, bad))


@dataclass(frozen=True, slots=True)
class Products(Gradient):
    """Sums over positions of products g^T x, left undone: x [B, T, d], g [B, T, p]."""

    x: Tensor
    g: Tensor
    transposed: bool = False
    scaled: bool = False  # whether g has its factors already

    def product(self) -> tuple[Tensor, Tensor] | None:
        gram_ = self.x.shape[1] == 1 or prefers_gram(self.x.shape, self.g.shape[-1], self.g)
        return (self.x, self.g) if gram_ else None

    def measure(self) -> Measure | None:
        if self.product() is not None:
            return None
        return Measure(torch.cat([_row_squares(each) for each, _ in self._chunks()]))

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
        x, g, factors = self.x, self.g, factors.view(-1, 1, 1)
        if x.shape[1] == 1 and x.is_cuda:
            x = torch.where(factors > 0, x, 0.0)  # few: no need to ask whether one is not finite
            g = torch.where(factors > 0, g, 0.0)
        if not self.scaled:
            kind = _work(x)
            x, g = x.to(kind), g.to(kind) * factors.to(kind)
        left, right = (x, g) if self.transposed else (g, x)
        left, right = left.flatten(0, 1).mT, right.flatten(0, 1)
        return torch.mm(left, right, out_dtype=torch.float32) if self.scaled else (left @ right).float()

    def without(self, bad: Tensor) -> Products:
        return replace(self, x=_masked(self.x, bad), g=_masked(self.g, bad))


def measure_products(pairs: list[tuple[Tensor, Tensor]], places: list[int], count: int, size: int) -> Measure:
    """Return the squared norms of sums of products, for so many examples, in so many groups: [groups, B].

    Where positions cancel, products are larger than what they add up to: their rounding would decide. And a sum over
    the positions of all examples would lose the others' share beside them. So the norm of such an example counts as
    larger than it is.
    """
    squares = torch.zeros(count, size, device=pairs[0][0].device, dtype=torch.float64)
    doubts, roundings = torch.zeros_like(squares), torch.zeros_like(squares)
    several: dict[int, list[int]] = {}
    for number, (x, g) in enumerate(pairs):
        if x.shape[1] > 1:
            several.setdefault(len(x), []).append(number)
            continue
        found = (_length(x) * _length(g)).square().view(size, -1).sum(1)
        squares[places[number]] += found
        roundings[places[number]] += found * _coarseness(g) ** 2
    for numbers in several.values():
        some = [pairs[number] for number in numbers]
        found, largest, spread = (each.view(len(some), size, -1).sum(2) for each in gram(some))
        doubt = largest * 2.0**-16 if found.is_cuda else (largest * _CANCELLED - found).clamp_min(0)
        coarse = torch.tensor([_coarseness(g) ** 2 for _, g in some], device=found.device, dtype=found.dtype)
        where = torch.tensor([places[number] for number in numbers], device=found.device)
        squares.index_add_(0, where, found)
        doubts.index_add_(0, where, doubt)
        roundings.index_add_(0, where, spread * coarse.unsqueeze(1))
    return Measure(squares, doubts, roundings)


def _coarseness(like: Tensor) -> float:
    """Return how coarsely a factor times a gradient is rounded when it is multiplied with an input."""
    if not like.is_cuda:
        return 2.0**-23 if torch.get_float32_matmul_precision() == "highest" else 2.0**-8
    if like.dtype in _HALF:
        return 2.0**-8 if like.dtype is torch.bfloat16 else 2.0**-10
    precise = not (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
    return 2.0**-22 if precise else 2.0**-10


def scale_products(gradients: list[Gradient], places: list[int], factors: Tensor) -> list[Gradient]:
    """Multiply products in bf16 on a GPU with their factors, all together; the sums are then products of bf16."""
    halves = [
        (number, use)
        for number, use in enumerate(gradients)
        if isinstance(use, Products) and use.g.is_cuda and use.g.dtype is torch.bfloat16 and use.product() is not None
    ]
    if not halves:
        return gradients
    from hush.training._sums_cuda import scaled

    found = list(gradients)
    ready = scaled([use.g for _, use in halves], [places[number] for number, _ in halves], factors)
    for (number, use), g in zip(halves, ready, strict=True):
        found[number] = replace(use, g=g, scaled=True)
    return found


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
    rate = 250 if like.dtype in _HALF else 125
    return positions * positions * (inputs + outputs) <= rate * inputs * outputs


@dataclass(frozen=True, slots=True)
class ConvShape:
    """What a convolution does: stride, padding, dilation, groups, and its weight's shape."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    weight: tuple[int, ...]

    def backward(self, g: Tensor, x: Tensor, weight: Tensor, *, of_input: bool) -> Tensor:
        """Return the gradient of the input, or of the weight."""
        zeros = [0] * len(self.stride)
        found = torch.ops.aten.convolution_backward(
            g,
            x,
            weight,
            None,
            self.stride,
            self.padding,
            self.dilation,
            False,
            zeros,
            self.groups,
            [of_input, not of_input, False],
        )
        result: Tensor = found[0 if of_input else 1]
        return result

    def output(self, x: Tensor) -> tuple[int, ...]:
        """Return the size of the output."""
        return tuple(
            (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
            for size, padding, dilation, kernel, stride in zip(
                x.shape[2:], self.padding, self.dilation, self.weight[2:], self.stride, strict=True
            )
        )

    def patches(self, x: Tensor) -> Tensor:
        """Return what each position saw: [B, groups, d, T]."""
        if len(self.stride) == 1:
            return replace(self, **self._flattened()).patches(x.unsqueeze(2))
        view = self._view(x).permute(0, 1, 4, 5, 6, 2, 3)
        return view.reshape(len(x), self.groups, -1, math.prod(self.output(x)))

    def _view(self, x: Tensor) -> Tensor:
        """Return the same without a copy: [B, groups, height, width, inputs, kernel height, kernel width]."""
        view = F.pad(x, (self.padding[1], self.padding[1], self.padding[0], self.padding[0]))
        for dim in range(2):
            extent = self.dilation[dim] * (self.weight[2 + dim] - 1) + 1
            view = view.unfold(2 + dim, extent, self.stride[dim])[..., :: self.dilation[dim]]
        view = view.reshape(len(view), self.groups, -1, *view.shape[2:])  # a view: channels are split in two
        return view.permute(0, 1, 3, 4, 2, 5, 6)

    def _flattened(self) -> dict[str, Any]:
        return {
            "stride": (1, *self.stride),
            "padding": (0, *self.padding),
            "dilation": (1, *self.dilation),
            "weight": (*self.weight[:2], 1, *self.weight[2:]),
        }

    def per_example(self, x: Tensor, g: Tensor) -> Tensor:
        """Return each example's gradient of the weight: [B, *shape]."""
        if len(self.stride) == 3:
            return self._grouped(x, g)
        if len(self.stride) == 1:
            return replace(self, **self._flattened()).per_example(x.unsqueeze(2), g.unsqueeze(2)).squeeze(3)
        if not g.is_cuda:
            return self._unfolded(x, g)
        positions = math.prod(g.shape[2:])
        some = max(_COPIED // (self.groups * positions * math.prod(self.weight[1:])), 1)
        parts = []
        for start in range(0, len(x), some):
            x_part, g_part = x[start : start + some], g[start : start + some]
            patches = self.patches(x_part).flatten(0, 1)
            parts.append(torch.bmm(g_part.reshape(len(patches), -1, positions), patches.mT))
        return torch.cat(parts).view(len(x), *self.weight)

    def _unfolded(self, x: Tensor, g: Tensor) -> Tensor:
        """Multiply the patches that each output saw with its gradient.

        Patches are a view; they are copied for so many examples at a time that they stay in the cache.
        """
        size, outputs, height, width = g.shape
        groups, features = self.groups, math.prod(self.weight[1:])
        patches = self._view(x)
        positions = height * width
        some = max(_CACHED // max(groups * positions * features, 1), 1)
        found = g.new_empty(size * groups, outputs // groups, features)
        gradients = g.reshape(size * groups, outputs // groups, positions)
        for start in range(0, size, some):
            here = slice(start * groups, min(start + some, size) * groups)
            copied = patches[start : start + some].reshape(-1, positions, features)
            torch.bmm(gradients[here], copied, out=found[here])
        return found.view(size, *self.weight)

    def _grouped(self, x: Tensor, g: Tensor) -> Tensor:
        """Treat the examples as groups of one large convolution."""
        size = len(g)
        many = replace(self, groups=size * self.groups)
        weight = x.new_empty(size * self.weight[0], *self.weight[1:])
        merged = x.reshape(1, -1, *x.shape[2:]), g.reshape(1, -1, *g.shape[2:])
        return many.backward(merged[1], merged[0], weight, of_input=False).view(size, *self.weight)


@dataclass(frozen=True, slots=True)
class Patches(Gradient):
    """A convolution's products of patches of x and gradients g, left undone."""

    x: Tensor
    g: Tensor
    shape: ConvShape

    def product(self) -> tuple[Tensor, Tensor]:
        patches = self.shape.patches(self.x).flatten(0, 1).mT  # [B groups, T, d]
        return patches, self.g.reshape(len(patches), -1, patches.shape[1]).mT

    def whole(self) -> Tensor:
        return self.shape.per_example(self.x, self.g)

    def weighted_sum(self, factors: Tensor) -> Tensor:
        scaled = _scaled(self.g, factors)
        weight = scaled.new_empty(self.shape.weight)
        return self.shape.backward(scaled, self.x.to(scaled.dtype), weight, of_input=False).float()

    def without(self, bad: Tensor) -> Patches:
        return replace(self, x=_masked(self.x, bad), g=_masked(self.g, bad))


@dataclass(frozen=True, slots=True)
class Rows(Gradient):
    """Rows of a table: each row that an example uses, once, with its gradient; what is left over has gradient 0."""

    rows: Tensor  # [B, T]
    g: Tensor  # [B, T, d]
    num_rows: int

    def measure(self) -> Measure:
        return Measure(_squares(self.g))

    def whole(self) -> Tensor:
        size, width = len(self.g), self.g.shape[-1]
        each = self.g.new_zeros(size * self.num_rows, width)
        return each.index_add_(0, self.places(), self.g.flatten(0, 1)).view(size, self.num_rows, width)

    def places(self) -> Tensor:
        """Return where the rows are among the rows of all examples, one after the other."""
        start = torch.arange(len(self.rows), device=self.rows.device) * self.num_rows
        return (start.unsqueeze(1) + self.rows).flatten()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        scaled = _scaled(self.g, factors).flatten(0, 1)
        return scaled.new_zeros(self.num_rows, scaled.shape[1]).index_add_(0, self.rows.flatten(), scaled).float()

    def without(self, bad: Tensor) -> Rows:
        return replace(self, g=_masked(self.g, bad))


def add_up_rows(indices: Tensor, g: Tensor, num_rows: int) -> Rows:
    """Return rows of a table from all uses of rows: indices [B, T] and gradients [B, T, d]."""
    indices, order = torch.sort(indices.long(), dim=1)
    new = torch.ones_like(indices, dtype=torch.bool)
    new[:, 1:] = indices[:, 1:] != indices[:, :-1]
    place = new.cumsum(1) - 1
    back = torch.empty_like(place).scatter(1, order, place).unsqueeze(-1).expand_as(g)
    sums = torch.zeros_like(g, dtype=_work(g)).scatter_add(1, back, g.to(_work(g)))
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
        own = _squares(self.table.g)
        # Where the two cancel, rounding decides; so the norm counts as larger.
        return Measure(own + 2 * crossed, own * 2.0**-16)

    def whole(self) -> Tensor:
        return self.each + self.table.whole()

    def weighted_sum(self, factors: Tensor) -> Tensor:
        return self.table.weighted_sum(factors)

    def without(self, bad: Tensor) -> Tied:
        return Tied(_masked(self.each, bad), self.table.without(bad))


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
