"""From what taps brought out to clipped sums."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hush.training.per_example.gradients import Gradient, Products, Whole, merged, scale_products
from hush.training.per_example.norms import Measure, clip_factors, dense_squares, dense_sums, measure_products
from hush.training.plan.clipping import Clipping

_COPIED = 1 << 27  # bytes of copies, at least, to make at once


@dataclass(frozen=True, slots=True)
class ClippedSum:
    """The sum of clipped gradients, by parameter name, and the norm that each example's gradient had before.

    A norm of an example that was not finite is NaN; it contributed nothing.
    """

    gradients: dict[str, Tensor]
    norms: Tensor


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a parameter in a forward pass.

    Attributes:
        layer: The layer's name.
        param: The parameter's name.
        taps: Which taps bring out what belongs to it.
        form: What makes a `Gradient` of that.
        rows: Which rows of the parameter were used, if not all.
    """

    layer: str
    param: str
    taps: tuple[int, ...]
    form: Callable[..., Gradient]
    rows: tuple[int, int] | None = None

    def moved(self, by: int) -> Use:
        """Return the same, with taps so many places later."""
        return replace(self, taps=tuple(tap + by for tap in self.taps))


@dataclass(frozen=True, slots=True)
class ParameterUses:
    """All uses of a parameter.

    Attributes:
        shape: The parameter's shape.
        place: With which others it is clipped.
        uses: Its uses.
    """

    shape: tuple[int, ...]
    place: int
    uses: list[Use]


@dataclass(frozen=True, slots=True)
class Clip:
    """How to clip.

    Attributes:
        clipping: The way.
        targets: To what norm, for each group of parameters that are clipped together.
        scale: By how much gradients are too large.
    """

    clipping: Clipping
    targets: list[float]
    scale: float


def finish(
    groups: list[ParameterUses], clip: Clip, values: list[Tensor], chosen: Tensor, *, rows: int = 1
) -> tuple[list[Tensor], Tensor]:
    """Return clipped sums, and norms, which are NaN for examples that are not finite; these contribute nothing.

    With several ``rows``, as many examples, one after the other, are clipped as one.

    On a CPU, where a factor of 0 is not enough for that, sums are found on trust, and again if there was such an
    example. A GPU would have to be waited for: there, what has factor 0 is passed over, or replaced by 0.
    """
    pieces = [_pieces(group, values) for group in groups]
    if rows > 1:
        pieces = [[(gradient.joined(rows), part) for gradient, part in piece] for piece in pieces]
    sums, norms = _sums(groups, pieces, clip, chosen)
    if not norms.is_cuda and bool((bad := norms.isnan()).any()):
        pieces = [[(gradient.without(bad), rows) for gradient, rows in piece] for piece in pieces]
        sums, _ = _sums(groups, pieces, clip, chosen * ~bad)
    return sums, norms


def _sums(
    groups: list[ParameterUses],
    pieces: list[list[tuple[Gradient, tuple[int, int] | None]]],
    clip: Clip,
    chosen: Tensor,
) -> tuple[list[Tensor], Tensor]:
    """Return clipped sums and norms."""
    everything = [gradient for piece in pieces for gradient, _ in piece]
    places = [group.place for group, piece in zip(groups, pieces, strict=True) for _ in piece]
    factors, norms = _factors(everything, places, clip, chosen)
    dense = [(part, place) for each, place in zip(everything, places, strict=True) if (part := each.dense) is not None]
    ready = iter(dense_sums([part for part, _ in dense], [place for _, place in dense], factors))
    scaled = scale_products(everything, places, factors)
    sums = []
    for group, piece in zip(groups, pieces, strict=True):
        own = factors[group.place]
        parts = [(_summed(next(scaled), own, ready), rows) for _, rows in piece]
        if parts[0][1] is None:
            sums.append(parts[0][0].reshape(group.shape))
            continue
        total = torch.zeros(group.shape, device=chosen.device, dtype=torch.float32)
        for part, rows in parts:
            assert rows is not None
            total[rows[0] : rows[1]] = part.reshape(-1, *group.shape[1:])
        sums.append(total)
    return sums, norms


def _factors(everything: list[Gradient], places: list[int], clip: Clip, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Return by what gradients are multiplied, [groups, B], and the norms of all of each example's gradient."""
    placed = list(zip(everything, places, strict=True))
    dense = [(values, place) for each, place in placed if (values := each.dense) is not None]
    count, size = len(clip.targets), len(chosen)
    total = Measure(torch.zeros(count, size, device=chosen.device, dtype=torch.float64))
    if dense:
        total = total.plus(
            Measure(dense_squares([values for values, _ in dense], [place for _, place in dense], count))
        )
    for pairs, where in _products(placed):
        total = total.plus(measure_products(pairs, where, count, size))
    for gradient, place in placed:
        if (rest := gradient.measure()) is not None:
            total = total.plus(rest.at(place, count))
    return clip_factors(total, chosen, clip.clipping, clip.targets, clip.scale)


def _products(placed: list[tuple[Gradient, int]]) -> Iterator[tuple[list[tuple[Tensor, Tensor]], list[int]]]:
    """Return factors of products, and groups: all at once, but copies only so many that they take little memory."""
    pairs: list[tuple[Tensor, Tensor]] = []
    places: list[int] = []
    copied = 0
    for gradient, place in placed:
        pair = gradient.product()
        if pair is None:
            continue
        pairs.append(pair)
        places.append(place)
        copied += 0 if isinstance(gradient, Products) else pair[0].nbytes
        if copied >= _COPIED:
            yield pairs, places
            pairs, places, copied = [], [], 0
    if pairs:
        yield pairs, places


def _summed(gradient: Gradient, factors: Tensor, ready: Iterator[Tensor]) -> Tensor:
    rest = gradient.weighted_sum(factors)
    if gradient.dense is None:
        assert rest is not None
        return rest
    dense = next(ready)
    return dense if rest is None else dense + rest


def _pieces(group: ParameterUses, values: list[Tensor]) -> list[tuple[Gradient, tuple[int, int] | None]]:
    """Return the gradients of disjoint parts of a parameter, each with all of its uses added up."""
    by_rows: dict[tuple[int, int] | None, list[Gradient]] = {}
    for use in group.uses:
        by_rows.setdefault(use.rows, []).append(use.form(*(values[tap] for tap in use.taps)))
    if None in by_rows and len(by_rows) > 1:
        whole = by_rows.pop(None)
        for rows, uses in by_rows.items():
            assert rows is not None
            part = merged(uses).whole()
            each = part.new_zeros(len(part), *group.shape)
            each[:, rows[0] : rows[1]] = part
            whole.append(Whole(each))
        by_rows = {None: whole}
    return [(merged(uses), rows) for rows, uses in by_rows.items()]
