"""Rounding and extreme values: no contribution exceeds the clip norm, and none wipes out the others.

Each test is an attack on clipped sums that once worked.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.training import clipped_sum
from training.loops import quiet_run


def size_of(gradients: dict[str, Tensor]) -> float:
    return float(torch.sqrt(sum((part.double().square().sum() for part in gradients.values()), torch.zeros(()))))


class Difference(nn.Module):
    """Positions that nearly cancel: the gradient is far smaller than the products it is the sum of."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        return (hidden[:, 0] - hidden[:, 1]).sum(1)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("width", "large", "small"), [(16, 1e4, 0.7), (64, 300.0, 0.05)])
def test_positions_that_cancel_do_not_hide_a_gradient(seed: int, width: int, large: float, small: float) -> None:
    torch.manual_seed(seed)
    base = torch.randn(1, width) * large
    x = torch.stack([base + small * torch.randn(1, width), base], 1)
    clipped = clipped_sum(Difference(width), x, lambda module, batch: module(batch), clip_norm=0.1)
    assert size_of(clipped.gradients) <= 0.1
    assert torch.isfinite(clipped.norms).all()


@pytest.mark.parametrize("kind", ["weight", "bias", "embedding"])
def test_positions_that_cancel_do_not_wipe_out_the_others(kind: str) -> None:
    """Its positions, 1e12 and -1e12, cancel. Added one by one, they absorbed the contributions of the others."""
    torch.manual_seed(1)

    class Summed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Embedding(3, 4) if kind == "embedding" else nn.Linear(4, 4, bias=kind == "bias")

        def forward(self, batch: tuple[Tensor, Tensor]) -> Tensor:
            x, scale = batch
            hidden = self.layer(torch.ones(x.shape[:2], dtype=torch.long) if kind == "embedding" else x)
            return (hidden * scale.unsqueeze(-1)).sum((1, 2))

    x, scale = torch.ones(64, 2, 4), torch.ones(64, 2)
    scale[63] = torch.tensor([1e12, -1e12])
    without = scale.clone()
    without[63] = 0
    model = Summed()
    if kind == "bias":
        model.layer.weight.requires_grad_(False)
    sums = [
        clipped_sum(model, (x, factors), lambda module, batch: module(batch), clip_norm=1.0).gradients
        for factors in (scale, without)
    ]
    assert size_of({key: sums[0][key] - sums[1][key] for key in sums[0]}) <= 1.0


def test_squares_that_underflow_do_not_give_a_norm_of_zero() -> None:
    model = nn.Linear(150_528, 1, bias=False)
    x = torch.full((1, 150_528), 2.5e-23)
    clipped = clipped_sum(model, x, lambda module, batch: module(batch).squeeze(1) * 1.8e19, clip_norm=0.1)
    assert size_of(clipped.gradients) <= 0.1
    with pytest.raises(InvalidArgument, match="^clip_norm="):
        quiet_run(nn.Linear(3, 1), (torch.ones(8, 3),), clip_norm=1e-26)


def test_half_precision_models_stay_within_the_clip_norm() -> None:
    torch.manual_seed(2)
    model = nn.Linear(64, 64, bias=False).half()
    x = torch.randn(4, 64).half()
    for scale in (1.0, 1e3):

        def scaled(module: nn.Module, batch: Tensor, by: float = scale) -> Tensor:
            total: Tensor = module(batch).float().sum(1) * by
            return total

        assert size_of(clipped_sum(model, x, scaled, clip_norm=1e-3).gradients) <= 4e-3


@pytest.mark.parametrize(("x", "scale"), [(1e100, 1e-100), (1e39, 1e-39), (1e50, 1.0)])
def test_double_precision_models_do_not_overflow_in_sums(x: float, scale: float) -> None:
    model = nn.Linear(1, 1, bias=False).double()
    batch = torch.tensor([[1.0], [x]], dtype=torch.float64), torch.tensor([1.0, scale], dtype=torch.float64)
    clipped = clipped_sum(model, batch, lambda module, pair: module(pair[0])[:, 0] * pair[1], clip_norm=1.0)
    assert 0.99 <= size_of(clipped.gradients) <= 2


class Raw(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.values = nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        return (self.values * x).sum(-1)


def test_norms_of_many_equal_numbers_are_not_too_small() -> None:
    clipped = clipped_sum(Raw(4_000_000), torch.full((1, 1), 1.3), lambda model, x: model(x).view(1), clip_norm=1.0)
    assert size_of(clipped.gradients) <= 1


@pytest.mark.parametrize(("positions", "x", "g", "clip_norm"), [(1, 5e18, 1e18, 5e-9), (2, 4.47e37, 1.0, 8e-7)])
def test_factors_are_not_rounded_up(positions: int, x: float, g: float, clip_norm: float) -> None:
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    values = torch.full((1, positions, 2), x)
    clipped = clipped_sum(model, values, lambda module, batch: (module(batch) * g).sum((1, 2)), clip_norm=clip_norm)
    assert size_of(clipped.gradients) <= clip_norm
