"""Computes the sum of clipped gradients from the gradients of the taps.

tap values  what the backward pass returned for each tap
pieces      for each parameter, the gradients of disjoint parts of it, with all uses added up (`merged`)
norms       squared norms of all pieces together, by clipping group
factors     clip factors and norms [groups, B]
sums        for each parameter, the sum over examples of factor times gradient, in fp64 throughout
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hush.training.per_example.gradients import DenseGradient, Gradient, OuterProducts, merged, scale_products
from hush.training.per_example.norms import (
    SquaredNorms,
    clip_factors,
    dense_squares,
    dense_sums,
    measure_products,
    refuse_too_many,
)
from hush.training.plan.clipping import Clipping

_MIN_COPIED = 1 << 27  # bytes of copies to make at once, at least

Rows = tuple[int, int]  # a part of a parameter's rows: the first, and one beyond the last
Piece = tuple[Gradient, Rows | None]  # the gradient of these rows, or of the whole parameter


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The sum of clipped gradients, without noise, and the norm of each example's gradient. Neither is private.

    Attributes:
        gradients: The sums, by parameter name, in double precision: in single precision, one example might change how
            thousands of others are rounded.
        norms: Each example's norm before clipping. It is NaN for an example that is not finite; such an example
            contributes a zero gradient.
        group_norms: The norms of its parts in each clipping group, [groups, B]; None where gradients have no groups.

    Example:
        >>> from hush.training import clipped_sum
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> x = torch.tensor([[3.0, 4.0], [0.3, 0.4]])
        >>> total = clipped_sum(model, x, lambda model, x: model(x).sum(1), clip_norm=1.0)
        >>> [f"{norm:.1f}" for norm in total.norms], [f"{value:.2f}" for value in total.gradients["weight"][0]]
        (['5.0', '0.5'], ['0.90', '1.20'])
    """

    gradients: dict[str, Tensor]
    norms: Tensor
    group_norms: Tensor | None = None


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a parameter in a forward pass.

    Attributes:
        layer: The layer's name.
        param: The parameter's name.
        taps: The numbers of the taps that belong to it.
        form: Makes a `Gradient` of what these taps bring out.
        rows: Which rows of the parameter were used, if not all.
    """

    layer: str
    param: str
    taps: tuple[int, ...]
    form: Callable[..., Gradient]
    rows: Rows | None = None

    def moved(self, by: int) -> Use:
        """Return the same use, with taps whose numbers are larger by ``by``."""
        return replace(self, taps=tuple(tap + by for tap in self.taps))


@dataclass(frozen=True, slots=True)
class ParameterUses:
    """All uses of a parameter.

    Attributes:
        shape: The parameter's shape.
        group: Its clipping group.
        uses: Its uses.
    """

    shape: tuple[int, ...]
    group: int
    uses: list[Use]


@dataclass(frozen=True, slots=True)
class ClipTargets:
    """The way to clip.

    Attributes:
        clipping: The kind of clipping.
        targets: The largest norm of a contribution, for each clipping group.
        scale: The factor by which losses were scaled up for the backward pass.
        num_summed: About how many contributions are added up in all; those of this batch, if 0.
    """

    clipping: Clipping
    targets: list[float]
    scale: float
    num_summed: int = 0


def clip_and_sum(
    params: list[ParameterUses], clip: ClipTargets, values: list[Tensor], chosen: Tensor, *, rows: int = 1
) -> tuple[list[Tensor], Tensor]:
    """Return the clipped sum of each parameter, and the norms [groups, B] of the contributions.

    A contribution that is not finite has norm NaN and adds nothing. On a CPU, sums are first computed as if all were
    finite, and again without the bad ones if there are any. On a GPU that would mean waiting for the device; there,
    examples with factor 0 are skipped or replaced by 0 wherever they are read.

    Args:
        params: The parameters, with their uses.
        clip: How to clip.
        values: What each tap brought out.
        chosen: 1 for each contribution, 0 for one to leave out.
        rows: How many consecutive examples make up one contribution.
    """
    pieces = [_pieces(param, values) for param in params]
    if rows > 1:
        # Joined before norms are taken: a unit's rows are one contribution, which is clipped as a whole.
        pieces = [[(gradient.joined(rows), part) for gradient, part in param_pieces] for param_pieces in pieces]
    terms = max((gradient.terms for param_pieces in pieces for gradient, _ in param_pieces), default=0)
    refuse_too_many(terms, clip.num_summed or len(chosen))
    sums, norms = _sums(params, pieces, clip, chosen)
    if not norms.is_cuda and bool((bad := norms.isnan().any(0)).any()):
        pieces = [[(gradient.without(bad), part) for gradient, part in param_pieces] for param_pieces in pieces]
        sums, _ = _sums(params, pieces, clip, chosen * ~bad)
    return sums, norms


def _sums(
    params: list[ParameterUses], pieces: list[list[Piece]], clip: ClipTargets, chosen: Tensor
) -> tuple[list[Tensor], Tensor]:
    """Return clipped sums and norms."""
    gradients = [gradient for param_pieces in pieces for gradient, _ in param_pieces]
    groups = [param.group for param, param_pieces in zip(params, pieces, strict=True) for _ in param_pieces]
    factors, norms = _factors(gradients, groups, clip, chosen)
    dense_parts = [(gradient.dense, group) for gradient, group in zip(gradients, groups, strict=True)]
    dense = [(values, group) for values, group in dense_parts if values is not None]
    # Both run in the order of `gradients`: dense sums are all computed at once, products a few at a time.
    ready_sums = iter(dense_sums([values for values, _ in dense], [group for _, group in dense], factors))
    scaled = scale_products(gradients, groups, factors)
    sums = []
    for param, param_pieces in zip(params, pieces, strict=True):
        parts = [(_piece_sum(next(scaled), factors[param.group], ready_sums), rows) for _, rows in param_pieces]
        if parts[0][1] is None:
            sums.append(parts[0][0].reshape(param.shape))
            continue
        total = torch.zeros(param.shape, device=chosen.device, dtype=torch.float64)
        for part, rows in parts:
            assert rows is not None
            total[rows[0] : rows[1]] = part.reshape(-1, *param.shape[1:])
        sums.append(total)
    return sums, norms


def _factors(gradients: list[Gradient], groups: list[int], clip: ClipTargets, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return clip factors and norms [groups, B]."""
    grouped = list(zip(gradients, groups, strict=True))
    dense = [(values, group) for gradient, group in grouped if (values := gradient.dense) is not None]
    num_groups, size = len(clip.targets), len(chosen)
    # Parameters are orthogonal parts of a gradient, so squared norms add up: |g|^2 = sum_p |g_p|^2, in each group.
    total = SquaredNorms(torch.zeros(num_groups, size, device=chosen.device, dtype=torch.float64))
    if dense:
        total = total.plus(
            SquaredNorms(dense_squares([values for values, _ in dense], [group for _, group in dense], num_groups))
        )
    for pairs, pair_groups in _products(grouped):
        total = total.plus(measure_products(pairs, pair_groups, num_groups, size))
    for gradient, group in grouped:
        if (rest := gradient.measure()) is not None:
            total = total.plus(rest.in_group(group, num_groups))
    return clip_factors(total, chosen, clip.clipping, clip.targets, clip.scale)


def _products(grouped: list[tuple[Gradient, int]]) -> Iterator[tuple[list[tuple[Tensor, Tensor]], list[int]]]:
    """Yield the product parts and their groups: together, except that copies are limited in memory."""
    pairs: list[tuple[Tensor, Tensor]] = []
    groups: list[int] = []
    copied = 0
    for gradient, group in grouped:
        pair = gradient.product()
        if pair is None:
            continue
        pairs.append(pair)
        groups.append(group)
        copied += 0 if isinstance(gradient, OuterProducts) else pair[0].nbytes  # patches are copies
        if copied >= _MIN_COPIED:
            yield pairs, groups
            pairs, groups, copied = [], [], 0
    if pairs:
        yield pairs, groups


def _piece_sum(gradient: Gradient, factors: Tensor, ready_sums: Iterator[Tensor]) -> Tensor:
    """Return the weighted sum of a piece; that of its dense part is the next one that is ready."""
    rest = gradient.weighted_sum(factors)
    if gradient.dense is None:
        assert rest is not None
        return rest
    dense = next(ready_sums)
    return dense if rest is None else dense + rest


def _pieces(param: ParameterUses, values: list[Tensor]) -> list[Piece]:
    """Return the gradients of disjoint parts of a parameter, each with all of its uses added up."""
    by_rows: dict[Rows | None, list[Gradient]] = {}
    for use in param.uses:
        by_rows.setdefault(use.rows, []).append(use.form(*(values[tap] for tap in use.taps)))
    # Disjoint rows have separate norms. Uses that overlap must be added first, as |a + b| is not |a| + |b|.
    if None in by_rows and len(by_rows) > 1:
        # Some uses are of all rows, others of a part: parts are put into gradients of the whole parameter.
        all_rows = by_rows.pop(None)
        for rows, uses in by_rows.items():
            assert rows is not None
            part = merged(uses).materialize()
            padded = part.new_zeros(len(part), *param.shape)
            padded[:, rows[0] : rows[1]] = part.reshape(len(part), rows[1] - rows[0], *param.shape[1:])
            all_rows.append(DenseGradient(padded))
        by_rows = {None: all_rows}
    return [(merged(uses), rows) for rows, uses in by_rows.items()]
