"""Attacks: they stay within their ball, and are the best possible on linear models."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from hush.errors import InvalidArgument  # noqa: E402
from hush.stability import InputNorm, fgsm, pgd  # noqa: E402
from hush.stability.adversarial_attack import _projected  # noqa: E402

ORDERS = {InputNorm.L1: 1.0, InputNorm.L2: 2.0, InputNorm.LINF: float("inf")}
DUALS = {InputNorm.L1: float("inf"), InputNorm.L2: 2.0, InputNorm.LINF: 1.0}


def linear() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(6, 2)


@pytest.mark.parametrize("norm", list(InputNorm))
@pytest.mark.parametrize("steps", [1, 25])
def test_a_linear_model_loses_exactly_the_dual_norm(norm: InputNorm, steps: int) -> None:
    model, inputs, classes = linear(), torch.randn(5, 6), torch.tensor([0, 1, 0, 1, 0])
    radius = 0.7
    if steps == 1:
        moved = fgsm(model, inputs, classes, radius=radius, norm=norm)
    else:
        moved = pgd(model, inputs, classes, radius=radius, norm=norm, num_steps=steps)
    assert bool((torch.linalg.vector_norm(moved - inputs, ORDERS[norm], dim=1) <= radius * (1 + 1e-5)).all())
    margins = [(model(batch) @ torch.tensor([1.0, -1.0])) * (1 - 2 * classes) for batch in (inputs, moved)]
    weight = model.weight[0] - model.weight[1]
    # The margin falls by radius times the dual norm of the weights, and by no more for any attack.
    fall = radius * torch.linalg.vector_norm(weight, DUALS[norm])
    assert torch.allclose(margins[0] - margins[1], fall.expand(5), rtol=1e-3)


@pytest.mark.parametrize("norm", list(InputNorm))
def test_projections_are_the_nearest_points_of_the_ball(norm: InputNorm) -> None:
    generator = torch.Generator().manual_seed(2)
    changes = torch.randn(50, 7, generator=generator, dtype=torch.float64)
    nearest = _projected(changes, 1.0, norm)
    assert bool((torch.linalg.vector_norm(nearest, ORDERS[norm], dim=1) <= 1 + 1e-9).all())
    inside = 0.1 * changes / torch.linalg.vector_norm(changes, 1, dim=1, keepdim=True)
    assert torch.allclose(_projected(inside, 1.0, norm), inside)
    # For the nearest point p of a convex set, (c - p) . (q - p) <= 0 for every q of the set.
    others = _projected(3 * torch.randn(400, 7, generator=generator, dtype=torch.float64), 1.0, norm)
    products = ((changes - nearest)[:, None, :] * (others[None] - nearest[:, None, :])).sum(-1)
    assert float(products.max()) <= 1e-9


def test_bounds_are_kept_and_the_model_is_left_alone() -> None:
    model, inputs = linear(), torch.rand(4, 6)
    before = [parameter.clone() for parameter in model.parameters()]
    moved = pgd(model, inputs, torch.zeros(4, dtype=torch.long), radius=5.0, bounds=(0.0, 1.0))
    assert 0 <= float(moved.min()) <= float(moved.max()) <= 1
    assert not moved.requires_grad
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert parameter.grad is None
        assert torch.equal(parameter, old)


def test_a_random_model_is_attacked_through_the_mean_of_its_draws() -> None:
    torch.manual_seed(3)

    class Noisy(nn.Module):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            sums = inputs.sum(1) + 5 * torch.randn(len(inputs))
            return torch.stack([sums, -sums], dim=1)

    moved = pgd(Noisy(), torch.zeros(20, 2), torch.zeros(20, dtype=torch.long), radius=1.0, num_draws=60)
    # Each gradient of the mean points down, but for 1 in 2^60 where no draw is on the steep side; fixed seed.
    assert bool((moved.sum(1) < -1.2).all())


def test_wrong_arguments_are_refused() -> None:
    arguments = linear(), torch.zeros(1, 6), torch.zeros(1, dtype=torch.long)
    for settings in ({"radius": 0.0}, {"radius": 1.0, "num_steps": 0}, {"radius": 1.0, "norm": "L2"}):
        with pytest.raises(InvalidArgument):
            pgd(*arguments, **settings)
