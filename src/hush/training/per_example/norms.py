"""From gradients to clip factors: squared norms, bounds on their rounding errors, and weighted sums.

A contribution must not exceed the clip norm, whatever rounding does. So a norm comes with bounds on its uncertainty:

squares   the squared norm as it was computed, in fp64
doubt     how much larger the squared norm may really be, where large terms cancel
rounding  the squared norm of the error that rounding may add to a gradient while it is summed

`clip_factors` divides by sqrt(squares + doubt) + sqrt(rounding), so that the clipped contribution stays within the clip
norm. Everything here handles the gradients of all parameters together, by clipping group.

Shapes: B examples, T positions (of a sequence or an image), d inputs, p outputs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hush.errors import Unsupported
from hush.training.kernels.constants import constant
from hush.training.kernels.gram import gram
from hush.training.noise.noise_grid import SHARE
from hush.training.plan.clipping import Adaptive, Clipping, Flat

HALF = (torch.bfloat16, torch.float16)

# The relative error of fp32 sums over elements; norms are those of the same numbers that are summed.
_SUM_SLACK = 1e-4
_ADDITION = 2.0**-13  # what adding up contributions may cost
_U = 2.0**-53  # the relative error of a rounding in fp64
# A squared norm below this share of its largest possible value has cancelled: the share counts as doubt.
_CANCELLED = 1e-4
CANCELLATION = 2.0**8  # so terms are at most this many times longer than a contribution, on a GPU, and 10^2 on a CPU
MIN_POSITIONS = 16  # with fewer, `kernels.products_cuda` is no faster than a product in fp64
_CHUNK = 1 << 13  # elements whose squares are added in fp32
_CONVERTED = 1 << 18  # elements to convert to fp64 at once on a CPU: 2 MiB stay in the cache
_CONVERTED_GPU = 1 << 26
# A smaller factor would be rounded coarsely in fp32. Such an example counts as not finite.
_SMALLEST_FACTOR = 1e-30
# So does an example with a larger input: its product with a tiny gradient would be rounded coarsely.
_LARGEST_INPUT = 1e30


@dataclass(frozen=True, slots=True)
class SquaredNorms:
    """Squared norms of per-example gradients in fp64, with bounds on their uncertainty.

    Attributes:
        squares: Squared norms: [B], or [groups, B].
        doubt: How much larger they may really be; nothing, if None.
        rounding: The squared norm of what rounding may add to a gradient while it is summed; nothing, if None.
    """

    squares: Tensor
    doubt: Tensor | None = None
    rounding: Tensor | None = None

    def plus(self, other: SquaredNorms) -> SquaredNorms:
        """Return the squared norms of gradients that have both as their parts."""
        return SquaredNorms(
            self.squares + other.squares, _sum(self.doubt, other.doubt), _sum(self.rounding, other.rounding)
        )

    def in_group(self, group: int, num_groups: int) -> SquaredNorms:
        """Return these norms [B] as row ``group`` of [num_groups, B]; the other rows are 0."""

        def as_row(values: Tensor | None) -> Tensor | None:
            if values is None or num_groups == 1:
                return None if values is None else values.unsqueeze(0)
            rows = values.new_zeros(num_groups, len(values))
            rows[group] = values
            return rows

        squares = as_row(self.squares)
        assert squares is not None
        return SquaredNorms(squares, as_row(self.doubt), as_row(self.rounding))


def _sum(left: Tensor | None, right: Tensor | None) -> Tensor | None:
    return right if left is None else left if right is None else left + right


def rounding_slack() -> float:
    """Return the share by which clipping must stay below the clip norm, for all rounding that is not the record's own.

    Let c_i be the clipped contributions, functions of one record each, and let S(D) be their computed sum. With
    |S(D) - sum of c_i| <= e, whatever the records, a record moves S by at most |c| + 2 e. So it does not matter which
    rows the others take in the batch, nor in which order a kernel adds them. The three parts of the share:

    SHARE       rounding to the noise's grid
    _SUM_SLACK  a norm in fp32, which may be too small, and factors in fp32
    _ADDITION   2 e / C. Products and sums are in fp64, from single contributions to the grid. For any order of k
                additions and one rounding of each product, each entry has an error of at most gamma_(k + 1) times the
                sum of its terms' sizes, gamma_k = k u / (1 - k u), u = 2^-53 (Higham 2002, Accuracy and Stability of
                Numerical Algorithms, Sections 3.1 and 4.2). The terms of a contribution have norms of at most a C in
                sum, where a > 1 if they cancel each other. So e <= gamma_(k + 1) n a C for n contributions, and
                `refuse_too_many` refuses sums for which k, a and n are too large.

    In fp32 the same bound would be 2^-23 k n C: one record moves a sum of 32,000 by 8 C, if the sum passes a power of
    two because of it and rounds thousands of tiny contributions up that would have been exact.
    """
    return SHARE + _SUM_SLACK + _ADDITION


def refuse_too_many(terms: float, num_summed: int) -> None:
    """Refuse a sum whose rounding `rounding_slack` does not cover.

    Args:
        terms: k a, for the form of gradient that has the most: additions in a physical batch, times how much larger
            than their sum the terms of a contribution may be (`Gradient.terms`).
        num_summed: n, about how many contributions are added up in a step; in fp64 over physical batches, too.
    """
    # Sums of physical batches are added one by one. There are fewer of them than contributions.
    if not 2 * _U * (terms + num_summed + 2) * num_summed <= _ADDITION * 0.99:
        raise Unsupported(
            f"{num_summed} contributions in a step, by sums of {terms:.3g} terms: rounding might move such a sum",
            "Use a smaller physical_batch_size",
        )


def zero_examples(values: Tensor, bad: Tensor) -> Tensor:
    """Return values [B, ...] with zeros for the bad examples."""
    return values.masked_fill(bad.view(-1, *([1] * (values.dim() - 1))), 0.0)


def scale_examples(values: Tensor, factors: Tensor) -> Tensor:
    """Return values [B, ...] times factors [B] in fp64; 0 where the factor is 0, even if the value is not finite."""
    factors = factors.double().view(-1, *([1] * (values.dim() - 1)))
    return torch.where(factors > 0, values.double() * factors, 0.0)


def compute_dtype(values: Tensor) -> torch.dtype:
    """Return the type to compute in: fp64 for fp64 values, which may not fit into fp32, and fp32 for all others."""
    return torch.float64 if values.dtype is torch.float64 else torch.float32


def uses_kernels(values: Tensor) -> bool:
    """Return whether the Triton kernels can read these values."""
    return values.is_cuda and values.dtype is not torch.float64


def square_norms(values: Tensor) -> Tensor:
    """Return the squared norm of each example's values.

    Squares are formed in fp32. They vanish below 1e-23 per element, far below any clip norm that a plan admits; beyond
    1e19 they overflow, and the example counts as not finite.
    """
    return _norms(_rows(values)).square()


def _rows(values: Tensor) -> Tensor:
    """Return values [B, ...] as [B, n]; those of a single number, [B], too."""
    return values.unsqueeze(-1).flatten(1)


def _norms(flat: Tensor) -> Tensor:
    """Return the norm of each row, from norms of chunks: torch's fp32 sum of many equal squares comes out too small."""
    chunks = flat.shape[1] // _CHUNK
    if flat.dtype is torch.float64 or chunks < 2 or not flat.is_contiguous():
        dtype = torch.float64 if flat.dtype is torch.float64 or chunks >= 2 else torch.float32
        norms: Tensor = torch.linalg.vector_norm(flat, dim=1, dtype=dtype).double()
        return norms
    full_chunks = flat[:, : chunks * _CHUNK].view(len(flat), chunks, _CHUNK)
    chunk_norms = torch.linalg.vector_norm(full_chunks, dim=2, dtype=torch.float32).double()
    rest = torch.linalg.vector_norm(flat[:, chunks * _CHUNK :], dim=1, dtype=torch.float32).double()
    norms = torch.linalg.vector_norm(torch.cat([chunk_norms, rest.unsqueeze(1)], 1), dim=1)
    return norms


def _norm_bounds(values: Tensor) -> Tensor:
    """Return an upper bound on the norm of each example's values, for use as a factor of a product.

    Squares below 2^-149 vanish in fp32. They do not matter beside a clip norm, but the product with the norm of a large
    factor may; so what may have vanished is added back.
    """
    flat = _rows(values)
    norms = _norms(flat)
    if flat.dtype is torch.float64:
        return norms
    # An element whose square vanishes is below 2^-74. The n elements of a row then have a norm below sqrt(n) 2^-74.
    return norms.add_(flat.shape[1] ** 0.5 * 2.0**-74).masked_fill_(norms > _LARGEST_INPUT, torch.inf)


def dense_squares(values: list[Tensor], groups: list[int], num_groups: int) -> Tensor:
    """Return each example's squared norm over all dense gradients of a clipping group: [num_groups, B].

    Args:
        values: Gradients [B, ...].
        groups: The clipping group of each.
        num_groups: How many groups there are.
    """
    total = torch.zeros(num_groups, len(values[0]), dtype=torch.float64, device=values[0].device)
    by_kernel = [number for number, value in enumerate(values) if uses_kernels(value)]
    if by_kernel:
        from hush.training.kernels.sums_cuda import squares

        total = squares([values[number] for number in by_kernel], [groups[number] for number in by_kernel], num_groups)
    for value, group in zip(values, groups, strict=True):
        if not uses_kernels(value):
            total[group] += square_norms(value)
    return total


def row_squares(values: Tensor) -> Tensor:
    """Return the squared norm of each row."""
    return dense_squares([values], [0], 1)[0]


def dense_sums(values: list[Tensor], groups: list[int], factors: Tensor) -> list[Tensor]:
    """Return the sum over examples of factor times gradient, for each dense gradient, in fp64.

    Args:
        values: Gradients [B, ...].
        groups: The clipping group of each.
        factors: Clip factors [groups, B].
    """
    if values and all(uses_kernels(value) for value in values):
        from hush.training.kernels.sums_cuda import weighted_sums

        return weighted_sums(values, groups, factors)
    return [_dense_sum(value, factors[group]) for value, group in zip(values, groups, strict=True)]


def _dense_sum(values: Tensor, factors: Tensor) -> Tensor:
    if values.is_cuda:  # examples that are not finite have factor 0, but were not removed: that would need a wait
        return scale_examples(values, factors).sum(0)
    flat, factors = _rows(values), factors.double()
    total = torch.zeros(flat.shape[1], dtype=torch.float64)
    for part in _parts(flat, flat.shape[1]):
        total.addmv_(flat[part].double().mT, factors[part])
    return total.view(values.shape[1:])


def product_sum(left: Tensor, right: Tensor, factors: Tensor | None) -> Tensor:
    """Return the sum over rows of factor times outer product, in fp64: [p, d].

    Args:
        left: Rows [N, p].
        right: Rows [N, d].
        factors: Factors [N]; 1, if omitted. On a GPU, rows of factor 0 may be not finite.
    """
    if not left.is_cuda and left.shape[1] > len(left):
        return _wide_product_sum(left, right, factors)
    total: Tensor | None = None
    for part in _parts(left, left.shape[1] + right.shape[1]):
        left_part, right_part = left[part].double(), right[part].double()
        if factors is not None and left.is_cuda:
            left_part = scale_examples(left_part, factors[part])
            right_part = scale_examples(right_part, factors[part] > 0)
        elif factors is not None:
            left_part = left_part * factors[part].double().unsqueeze(1)
        total = left_part.mT @ right_part if total is None else total.addmm_(left_part.mT, right_part)
    return left.new_zeros(left.shape[1], right.shape[1], dtype=torch.float64) if total is None else total


def _wide_product_sum(left: Tensor, right: Tensor, factors: Tensor | None) -> Tensor:
    """Return `product_sum` on a CPU, some columns of ``left`` at a time.

    A part with a few of its rows would have a product as large as the result, which would be read and written again for
    each part.
    """
    right = right.double() if factors is None else right.double() * factors.double().unsqueeze(1)
    total = torch.empty(left.shape[1], right.shape[1], dtype=torch.float64)
    step = max(_CONVERTED // max(len(left), 1), 1)
    for start in range(0, left.shape[1], step):
        torch.mm(left[:, start : start + step].double().mT, right, out=total[start : start + step])
    return total


def _parts(rows: Tensor, width: int) -> list[slice]:
    """Return the parts in which rows are converted to fp64: copies of all of them would not fit into the cache."""
    step = max((_CONVERTED_GPU if rows.is_cuda else _CONVERTED) // max(width, 1), 1)
    return [slice(start, start + step) for start in range(0, len(rows), step)]


def clip_factors(
    norms: SquaredNorms, chosen: Tensor, clipping: Clipping, targets: list[float], scale: float
) -> tuple[Tensor, Tensor]:
    """Return clip factors [groups, B], and the norm [groups, B] of each example's gradient in each group.

    Args:
        norms: Squared norms [groups, B] of gradients that are ``scale`` times too large.
        chosen: 1 for each example, 0 for one to leave out: its factors are 0.
        clipping: How to clip.
        targets: The largest norm of a contribution, for each group.
        scale: The factors and the returned norms are corrected for this.

    Returns:
        Factors and norms. An example that is not finite has factors 0 and norms NaN.
    """
    if norms.squares.is_cuda and len(targets) == 1 and type(clipping) in (Flat, Adaptive):
        from hush.training.kernels.sums_cuda import factors as factors_on_gpu

        factors, single = factors_on_gpu(norms.squares, norms.doubt, norms.rounding, chosen, targets[0], scale)
        return factors, single.unsqueeze(0)
    squares = norms.squares.clamp_min(0)
    # `squares` was clamped: inner products that cancel may come out below 0.
    bounds = squares.sqrt() if norms.doubt is None else (squares + norms.doubt).sqrt()
    # The triangle inequality: a gradient g with the rounding error e has |g + e| <= |g| + |e|.
    bounds = (bounds if norms.rounding is None else bounds + norms.rounding.sqrt()) / scale
    finite = (bounds < 1.0 / _SMALLEST_FACTOR).all(0)  # false for NaN
    group_targets = constant(tuple(targets), bounds.dtype, bounds.device).unsqueeze(1)
    factors = torch.where(finite, clipping.factors(bounds, group_targets), 0.0) / scale
    factors = torch.where(factors >= _SMALLEST_FACTOR, factors, 0.0)
    group_norms = (squares.sqrt() / scale).masked_fill(~finite, torch.nan)
    return factors * chosen, group_norms.to(chosen.dtype)


def measure_products(pairs: list[tuple[Tensor, Tensor]], groups: list[int], num_groups: int, size: int) -> SquaredNorms:
    """Return the squared norms of gradients that are sums of outer products: [num_groups, B].

    Where positions cancel, the products are larger than their sum, and rounding decides what is left of it. Also,
    the weighted sum runs over the positions of all examples, and large products would round other examples' shares
    away. So the norm of such an example counts as larger than it is.

    Args:
        pairs: For each layer, x [k B, T, d] and g [k B, T, p]; k consecutive pairs belong to one example.
        groups: The clipping group of each layer.
        num_groups: How many groups there are.
        size: B.
    """
    squares = torch.zeros(num_groups, size, device=pairs[0][0].device, dtype=torch.float64)
    doubts, roundings = torch.zeros_like(squares), torch.zeros_like(squares)
    many_positions: dict[int, list[int]] = {}  # layers by their number of pairs
    for number, (x, g) in enumerate(pairs):
        if x.shape[1] > 1:
            many_positions.setdefault(len(x), []).append(number)
            continue
        # With one position, |g x^T| = |g| |x|.
        layer_squares = (_norm_bounds(x) * _norm_bounds(g)).square().view(size, -1).sum(1)
        squares[groups[number]] += layer_squares
        roundings[groups[number]] += layer_squares * relative_rounding(g) ** 2
    for numbers in many_positions.values():
        layers = [pairs[number] for number in numbers]
        # |sum_t g_t x_t^T|^2 = sum_(s, t) <x_s, x_t> <g_s, g_t>: T x T inner products instead of a d x p matrix (ghost
        # norms, Li et al. 2022, "Large Language Models Can Be Strong Differentially Private Learners", Section 4).
        layer_squares, largest, spread = (part.view(len(layers), size, -1).sum(2) for part in gram(layers))
        # On a CPU the inner products are in fp64; the kernel's have about fp32's precision.
        cancelled = (largest * _CANCELLED - layer_squares).clamp_min(0)
        doubt = largest * 2.0**-16 if layer_squares.is_cuda else cancelled
        rounding = constant(
            tuple(relative_rounding(g) ** 2 for _, g in layers), layer_squares.dtype, layer_squares.device
        )
        addition = constant(
            tuple(relative_addition(g) ** 2 for _, g in layers), layer_squares.dtype, layer_squares.device
        )
        rows = constant(tuple(groups[number] for number in numbers), torch.int64, layer_squares.device)
        squares.index_add_(0, rows, layer_squares)
        doubts.index_add_(0, rows, doubt)
        # Errors of scaling a and, much smaller, of adding up b: |a + b|^2 <= (1 + 1/16) |a|^2 + 17 |b|^2.
        error = spread * rounding.unsqueeze(1) * 1.0625 + largest * addition.unsqueeze(1) * 17
        roundings.index_add_(0, rows, error)
    return SquaredNorms(squares, doubts, roundings)


def relative_rounding(like: Tensor) -> float:
    """Return the relative error of factor times gradient: `kernels.sums_cuda.scaled` rounds it to bf16 on a GPU."""
    # With p significant bits, rounding to nearest has a relative error of at most 2^-p: 8 for bf16.
    return 2.0**-8 if like.is_cuda and like.dtype is torch.bfloat16 else 0.0


def relative_addition(like: Tensor) -> float:
    """Return the error of an example's product that `kernels.products_cuda` adds up, relative to its terms' sizes."""
    # T products of half-precision numbers, which are exact in fp32, in sums of fp32 that may be cut off.
    return like.shape[1] * 2.0**-23 if like.is_cuda and like.dtype is torch.bfloat16 else 0.0
