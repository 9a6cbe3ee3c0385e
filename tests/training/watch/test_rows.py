"""Invented rows: within the ranges of the columns, the same where they should be, extreme where they are replaced."""

from __future__ import annotations

import pytest
import torch

from hush.training.watch.rows import InventedRows, invent


def invented(*tensors: torch.Tensor, seed: int = 0) -> InventedRows:
    return invent(list(tensors), len(tensors[0]), seed)


@pytest.mark.parametrize("seed", range(5))
def test_values_are_within_the_range_of_their_column(seed: int) -> None:
    x = torch.tensor([[1.0, -5.0], [2.0, 5.0], [4.0, 0.0], [1.5, 1.0]])
    labels, mask = torch.tensor([3, 7, 3, 4]), torch.tensor([[True, False], [True, True]] * 2)
    rows = invented(x, labels, mask, seed=seed)
    for values, numbers, flags in (rows.first, rows.second):
        assert bool(((values >= x.amin(0)) & (values <= x.amax(0))).all())
        assert numbers.dtype == labels.dtype
        assert bool(((numbers >= 3) & (numbers <= 7)).all())
        assert bool(flags[:, 0].all()), "a column that is always true"
    for before, after in zip(rows.first, rows.second, strict=True):
        assert torch.equal(before[rows.same], after[rows.same])
    assert 0 < int(rows.same.sum()) < 4


def test_extremes_are_reached_in_replaced_rows_only() -> None:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    rows = invented(x)
    low, high, span = x.amin(0), x.amax(0), x.amax(0) - x.amin(0)
    replaced = rows.second[0][~rows.same]
    assert bool((replaced == low).all(1).any())
    assert bool((replaced - high < 1e-6).all(1).any())
    kept = rows.first[0]
    assert bool(((kept >= low + 0.249 * span) & (kept <= low + 0.751 * span)).all())


def test_rows_of_a_crowded_batch_are_equal() -> None:
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(1))
    rows = invent([x], 8, 0, crowded=True)
    assert torch.equal(rows.first[0], rows.first[0][:1].expand(8, 3))
    assert torch.equal(rows.first[0][rows.same], rows.second[0][rows.same])
    assert not torch.equal(rows.first[0], rows.second[0])


def test_other_contents_of_the_same_range_change_nothing() -> None:
    """What is invented depends on the ranges of columns, and on nothing else."""
    first = torch.tensor([[0.0], [1.0], [0.2], [0.9]])
    second = torch.tensor([[0.5], [0.0], [0.5], [1.0]])
    assert torch.equal(invented(first).second[0], invented(second).second[0])


def test_unusual_tensors() -> None:
    nothing = invented(torch.full((3, 2), torch.nan), torch.full((3,), torch.inf))
    assert bool(nothing.first[0].isfinite().all())
    phases = torch.randn(4, 2, dtype=torch.complex64)
    assert invented(phases).first[0].dtype == torch.complex64
    assert invented(torch.randn(2, 3)).same.sum() == 1
    assert invented(torch.randn(4, 2).half()).second[0].dtype == torch.float16
    assert invented(torch.zeros(1, 2)).same.shape == (1,)
