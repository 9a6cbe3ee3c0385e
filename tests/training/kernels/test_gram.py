"""Norms of sums of outer products, against the sums themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hush.training.kernels import gram as gram_module
from hush.training.kernels.gram import gram


def example(positions: int = 6) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(4, positions, 5, generator=generator), torch.randn(4, positions, 3, generator=generator)


def gradients(x: Tensor, g: Tensor) -> Tensor:
    return torch.einsum("btp,btd->bpd", g.double(), x.double())


@pytest.mark.parametrize("positions", [1, 2, 6, 40])
def test_squares_are_those_of_the_gradients(positions: int) -> None:
    x, g = example(positions)
    squares, largest, _ = gram([(x, g), (2 * x, g)])
    expected = gradients(x, g).square().sum((1, 2))
    assert torch.allclose(squares, torch.stack([expected, 4 * expected]), rtol=1e-12)
    lengths = (x.double().norm(dim=2) * g.double().norm(dim=2)).sum(1)
    assert torch.allclose(largest[0], lengths.square(), rtol=1e-12)
    assert bool((squares <= largest * (1 + 1e-12)).all())


def test_wide_rows_are_converted_a_few_columns_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    x, g = example(6)
    expected = gram([(x, g)])
    monkeypatch.setattr(gram_module, "_CONVERTED", 50)
    assert all(torch.allclose(ours, whole, rtol=1e-12) for ours, whole in zip(gram([(x, g)]), expected, strict=True))


def test_positions_that_cancel_are_small_beside_the_largest_norm() -> None:
    """Rounding is relative to the second result; a broken twin that took the first would trust a norm of nothing."""
    x, g = example(1)
    squares, largest, _ = gram([(torch.cat([x, x], 1), torch.cat([g, -g], 1))])
    assert bool((squares.abs() < 1e-12 * largest).all())
    assert bool((largest > 1).all())


def test_spread_bounds_what_smaller_elements_make() -> None:
    """For 200 ways to shrink the elements of g, and for the worst one: a single singular vector."""
    x, g = example()
    _, _, spread = gram([(x, g)])
    generator = torch.Generator().manual_seed(2)
    for _ in range(200):
        smaller = g * (2 * torch.rand(g.shape, generator=generator) - 1)
        assert bool((gradients(x, smaller).square().sum((1, 2)) <= spread[0]).all())
    x = torch.ones(1, 6, 1)  # one singular value: the bound is attained
    squares, _, spread = gram([(x, torch.ones(1, 6, 1))])
    assert torch.allclose(squares, spread)


def test_an_input_too_large_for_exact_factors_is_infinite() -> None:
    x, g = example()
    x = x.double()
    x[2, 3] = 1e31
    squares, _, _ = gram([(x, g.double() * 1e-31)])
    assert squares[0].isinf().tolist() == [False, False, True, False]
