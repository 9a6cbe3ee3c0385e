"""From tap values to clipped sums: pieces of parameters, several groups, rows that are clipped as one, bad examples."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hush.training import Clipping, Flat, PerLayer
from hush.training.per_example import clipped_sum as clipped_sum_module
from hush.training.per_example.clipped_sum import ClipTargets, ParameterUses, Use, _pieces, clip_and_sum
from hush.training.per_example.gradients import DenseGradient, OuterProducts, TableRows, add_up_rows

SIZE = 6


def real(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(SIZE, *shape, generator=generator, dtype=torch.float64)


# Three parameters: an output layer's weight in three parts and a whole, a bias, and a table with two uses.
VALUES = [
    real(2, 5), real(2, 5), real(2, 5),  # 0-2: gradients of rows
    real(6, 5),  # 3: a gradient of all rows
    real(1, 4), real(1, 3),  # 4, 5: a product
    torch.randint(0, 7, (SIZE, 3), generator=torch.Generator().manual_seed(1)).double(), real(3, 2),  # 6, 7: a table
]  # fmt: skip


def lookups(indices: Tensor, g: Tensor) -> TableRows:
    return add_up_rows(indices, g, 7)


PARTS = [Use("layer", "weight", (number,), DenseGradient, (2 * number, 2 * number + 2)) for number in range(3)]
WHOLE = Use("layer", "weight", (3,), DenseGradient)
PRODUCT = Use("other", "matrix", (4, 5), OuterProducts)
TABLE = Use("table", "rows", (6, 7), lookups)


def dense(uses: list[Use]) -> Tensor:
    """The gradients of a parameter, by hand: [SIZE, ...]."""
    total = torch.zeros(())
    for use in uses:
        values = use.form(*(VALUES[tap] for tap in use.taps)).materialize()
        if use.rows is not None:
            padded = values.new_zeros(SIZE, 6, 5)
            padded[:, use.rows[0] : use.rows[1]] = values
            values = padded
        total = total + values
    return total


def params(num_groups: int = 1) -> list[ParameterUses]:
    groups = [0, 0, 0] if num_groups == 1 else [0, 1, 1]
    return [
        ParameterUses((6, 5), groups[0], PARTS),
        ParameterUses((3, 4), groups[1], [PRODUCT]),
        ParameterUses((7, 2), groups[2], [TABLE, TABLE]),
    ]


def by_hand(clipping: Clipping, targets: list[float], rows: int = 1) -> tuple[list[Tensor], Tensor]:
    gradients = [dense(param.uses) for param in params(len(targets))]
    gradients = [values.view(SIZE // rows, rows, *values.shape[1:]).sum(1) for values in gradients]
    squares = torch.zeros(len(targets), SIZE // rows, dtype=torch.float64)
    for param, values in zip(params(len(targets)), gradients, strict=True):
        squares[param.group] += values.flatten(1).square().sum(1)
    factors = clipping.factors(squares.sqrt(), torch.tensor(targets, dtype=torch.float64).unsqueeze(1))
    sums = [
        torch.einsum("b,b...->...", factors[param.group], values)
        for param, values in zip(params(len(targets)), gradients, strict=True)
    ]
    return sums, squares.sum(0).sqrt()


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize(("clipping", "targets"), [(Flat(1.0), [1.0]), (Flat(1.0, PerLayer()), [0.6, 0.8])])
def test_sums_are_those_of_the_gradients(clipping: Clipping, targets: list[float], rows: int) -> None:
    chosen = torch.ones(SIZE // rows, dtype=torch.float64)
    sums, norms = clip_and_sum(params(len(targets)), ClipTargets(clipping, targets, 1.0), VALUES, chosen, rows=rows)
    expected, expected_norms = by_hand(clipping, targets, rows)
    assert torch.allclose(torch.linalg.vector_norm(norms, dim=0), expected_norms, rtol=1e-5)
    for total, reference in zip(sums, expected, strict=True):
        assert total.dtype is torch.float64
        assert torch.allclose(total.double(), reference, rtol=1e-3, atol=1e-5)


def test_a_scale_is_taken_back() -> None:
    clip, scaled = (ClipTargets(Flat(1.0), [1.0], scale) for scale in (1.0, 64.0))
    chosen = torch.ones(SIZE, dtype=torch.float64)
    times = [values * (64.0 if number not in (4, 6) else 1.0) for number, values in enumerate(VALUES)]
    expected, norms = clip_and_sum(params(), clip, VALUES, chosen)
    sums, scaled_norms = clip_and_sum(params(), scaled, times, chosen)
    assert torch.allclose(norms, scaled_norms)
    assert all(torch.allclose(total, reference, atol=1e-6) for total, reference in zip(sums, expected, strict=True))


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_an_example_that_is_not_finite_contributes_nothing(value: float) -> None:
    spoilt = [values.clone() for values in VALUES]
    spoilt[5][2] = value
    clip = ClipTargets(Flat(1.0), [1.0], 1.0)
    sums, norms = clip_and_sum(params(), clip, spoilt, torch.ones(SIZE, dtype=torch.float64))
    assert norms.isnan().tolist() == [[False, False, True, False, False, False]]
    chosen = torch.tensor([1.0, 1, 0, 1, 1, 1], dtype=torch.float64)
    expected, _ = clip_and_sum(params(), clip, VALUES, chosen)
    assert all(torch.allclose(total, reference) for total, reference in zip(sums, expected, strict=True))


def test_disjoint_parts_stay_apart_and_overlapping_ones_are_added() -> None:
    """A broken twin that measured a part and the whole by themselves would miss that they overlap."""
    parts = _pieces(ParameterUses((6, 5), 0, PARTS), VALUES)
    assert [rows for _, rows in parts] == [(0, 2), (2, 4), (4, 6)]
    together = _pieces(ParameterUses((6, 5), 0, [*PARTS, WHOLE]), VALUES)
    assert [rows for _, rows in together] == [None]
    assert torch.allclose(together[0][0].materialize(), dense([*PARTS, WHOLE]))
    again = _pieces(ParameterUses((6, 5), 0, [PARTS[0], PARTS[0]]), VALUES)
    assert torch.allclose(again[0][0].materialize(), 2 * VALUES[0])


def test_copies_are_made_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only forms whose product is a copy count: the factors of a linear layer are there anyway."""

    class Copied(DenseGradient):
        def product(self) -> tuple[Tensor, Tensor]:
            return self.values.clone(), self.values.clone()

    monkeypatch.setattr(clipped_sum_module, "_MIN_COPIED", 2 * VALUES[0].nbytes)
    gradients = [(Copied(VALUES[0]), 0), (OuterProducts(VALUES[4], VALUES[5]), 1), (Copied(VALUES[1]), 0)] * 2
    batches = [groups for _, groups in clipped_sum_module._products(gradients)]
    assert batches == [[0, 1, 0], [0, 1, 0]]


def test_uses_can_be_renumbered() -> None:
    moved = TABLE.moved(10)
    assert moved.taps == (16, 17)
    assert (moved.layer, moved.param, moved.form) == (TABLE.layer, TABLE.param, TABLE.form)
