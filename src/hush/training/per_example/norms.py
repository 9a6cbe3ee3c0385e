"""How long gradients are: norms, what is not certain about them, and the factors that follow; weighted sums.

Shapes: B examples, T positions (of a sequence or an image), d inputs, p outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hush.training.kernels.constants import constant
from hush.training.kernels.gram import gram
from hush.training.plan.clipping import Adaptive, Clipping, Flat

_CANCELLED = 1e-4  # of its largest possible size: a smaller squared norm is left to the gradients themselves
_PIECE = 1 << 13  # numbers to square and add up in fp32
_LEAST = 1e-30  # a factor below this would be rounded coarsely: such an example counts as not finite
_FAR = 1e30  # so do inputs beyond this, whose products with tiny gradients would be
HALF = (torch.bfloat16, torch.float16)


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


def masked(values: Tensor, bad: Tensor) -> Tensor:
    """Return values with 0 in place of bad examples."""
    return values.masked_fill(bad.view(-1, *([1] * (values.dim() - 1))), 0.0)


def times(values: Tensor, factors: Tensor) -> Tensor:
    """Return values times factors; where the factor is 0, 0, even if the value is not finite."""
    kind = work_type(values)
    factors = factors.to(kind).view(-1, *([1] * (values.dim() - 1)))
    return torch.where(factors > 0, values.to(kind) * factors, 0.0)


def square_norms(values: Tensor) -> Tensor:
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
    total = torch.zeros(count, len(values[0]), dtype=torch.float64, device=values[0].device)
    there = [number for number, each in enumerate(values) if on_gpu(each)]
    if there:
        from hush.training.kernels.sums_cuda import squares

        total = squares([values[number] for number in there], [places[number] for number in there], count)
    for each, place in zip(values, places, strict=True):
        if not on_gpu(each):
            total[place] += square_norms(each)
    return total


def dense_sums(values: list[Tensor], places: list[int], factors: Tensor) -> list[Tensor]:
    """Return the weighted sums of dense parts, each with the factors of its group.

    In fp32: a sum that is rounded more coarsely would change by that, too, when an example comes or goes.
    """
    if values and all(on_gpu(each) for each in values):
        from hush.training.kernels.sums_cuda import weighted_sums

        return weighted_sums(values, places, factors)
    return [_wide_sum(each, factors[place]) for each, place in zip(values, places, strict=True)]


def _wide_sum(each: Tensor, factors: Tensor) -> Tensor:
    if each.is_cuda:  # nobody asks there whether an example is not finite
        return times(each, factors).sum(0).float()
    kind = work_type(each)
    total: Tensor = (factors.to(kind) @ each.flatten(1).to(kind)).float()
    return total.view(each.shape[1:])


def work_type(values: Tensor) -> torch.dtype:
    """Return in what type to compute: fp64 for those that may not fit into fp32."""
    return torch.float64 if values.dtype is torch.float64 else torch.float32


def row_squares(each: Tensor) -> Tensor:
    """Return the squared norm of each row."""
    return dense_squares([each], [0], 1)[0]


def on_gpu(values: Tensor) -> bool:
    """Return whether the Triton kernels take these values."""
    return values.is_cuda and values.dtype is not torch.float64


def clip_factors(
    measure: Measure, chosen: Tensor, clipping: Clipping, targets: list[float], scale: float
) -> tuple[Tensor, Tensor]:
    """Return by what each gradient is to be multiplied so that none exceeds its group's target, and its norm.

    Both are of gradients that were ``scale`` times too large. Of an example that is not finite the factors are 0, and
    the norm NaN; of one that is not ``chosen`` (0, not 1) the factors are 0, too.
    """
    if measure.squares.is_cuda and len(targets) == 1 and type(clipping) in (Flat, Adaptive):
        from hush.training.kernels.sums_cuda import factors

        return factors(measure.squares, measure.doubt, measure.rounding, chosen, targets[0], scale)
    squares = measure.squares.clamp_min(0)
    bounds = squares.sqrt() if measure.doubt is None else (squares + measure.doubt).sqrt()
    bounds = (bounds if measure.rounding is None else bounds + measure.rounding.sqrt()) / scale
    finite = (bounds < 1.0 / _LEAST).all(0)  # and no NaN
    bounds_of_groups = constant(tuple(targets), bounds.dtype, bounds.device).unsqueeze(1)
    found = torch.where(finite, clipping.factors(bounds, bounds_of_groups), 0.0) / scale
    found = torch.where(found >= _LEAST, found, 0.0)
    norms = (squares.sum(0).sqrt() / scale).masked_fill(~finite, torch.nan)
    return found * chosen, norms.to(chosen.dtype)


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
        roundings[places[number]] += found * coarseness(g) ** 2
    for numbers in several.values():
        some = [pairs[number] for number in numbers]
        found, largest, spread = (each.view(len(some), size, -1).sum(2) for each in gram(some))
        doubt = largest * 2.0**-16 if found.is_cuda else (largest * _CANCELLED - found).clamp_min(0)
        coarse = constant(tuple(coarseness(g) ** 2 for _, g in some), found.dtype, found.device)
        where = constant(tuple(places[number] for number in numbers), torch.int64, found.device)
        squares.index_add_(0, where, found)
        doubts.index_add_(0, where, doubt)
        roundings.index_add_(0, where, spread * coarse.unsqueeze(1))
    return Measure(squares, doubts, roundings)


def coarseness(like: Tensor) -> float:
    """Return how coarsely a factor times a gradient is rounded when it is multiplied with an input."""
    if not like.is_cuda:
        return 2.0**-23 if torch.get_float32_matmul_precision() == "highest" else 2.0**-8
    if like.dtype in HALF:
        return 2.0**-8 if like.dtype is torch.bfloat16 else 2.0**-10
    precise = not (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
    return 2.0**-22 if precise else 2.0**-10
