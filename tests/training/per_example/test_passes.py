"""Passes: derivatives along vectors, weighted gradients, and the same random state in every pass."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jvp

from hush.errors import InvalidArgument, Unsupported
from hush.training.per_example.passes import Passes
from training.models import BATCH, MODELS, losses

LAYERS = ["mlp", "conv2d", "embedding", "layer-norm", "tied", "lstm", "attention"]


def example(name: str) -> tuple[nn.Module, Tensor, Passes]:
    torch.manual_seed(3)
    model, x = MODELS[name]()
    model, x = model.double(), x.double() if x.is_floating_point() else x
    return model, x, Passes(model, lambda: losses(model, x), BATCH)


def directions(model: nn.Module) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(param.shape, generator=generator, dtype=param.dtype)
        for name, param in model.named_parameters()
        if param.requires_grad
    }


@pytest.mark.parametrize("name", [name for name in LAYERS if name != "embedding"])  # whose padding has no gradient
def test_tangents_are_directional_derivatives(name: str) -> None:
    model, x, passes = example(name)
    vectors = directions(model)
    before = {key: param.clone() for key, param in model.named_parameters()}
    values, tangents = passes.tangents(vectors)
    gradients = [
        torch.autograd.grad(losses(model, x)[index], list(passes.params.values()), allow_unused=True)
        for index in range(BATCH)
    ]
    expected = torch.stack(
        [
            sum((g * vectors[key]).sum() for key, g in zip(passes.params, row, strict=True) if g is not None)
            for row in gradients
        ]
    )
    assert torch.allclose(values, losses(model, x))
    assert torch.allclose(tangents, expected)
    assert not tangents.requires_grad
    for key, param in model.named_parameters():
        assert param.requires_grad
        assert torch.equal(param, before[key])


def test_padding_has_no_tangent() -> None:
    """As it has no gradient; a broken twin without the hook would measure what the backward pass drops."""
    model = nn.Embedding(5, 3, padding_idx=2).double()
    indices = torch.tensor([[2, 2], [1, 2], [0, 1]])
    passes = Passes(model, lambda: model(indices).sum((1, 2)), 3)
    vectors = {"weight": torch.ones(5, 3, dtype=torch.float64)}
    assert passes.tangents(vectors)[1].tolist() == [0, 3, 6]
    _, twin = jvp(
        lambda weight: functional_call(model, {"weight": weight}, (indices,)).sum((1, 2)),
        (model.weight.detach(),),
        (vectors["weight"],),
    )
    assert twin.tolist() == [6, 6, 6]


def test_no_grad_stops_tangents() -> None:
    model, x = nn.Linear(4, 2).double(), torch.randn(BATCH, 4).double()

    def with_a_constant_part() -> Tensor:
        with torch.no_grad():
            constant = model(x).sum(1)
        return model(x).sum(1) + 100 * constant

    vectors = directions(model)
    _, tangents = Passes(model, with_a_constant_part, BATCH).tangents(vectors)
    _, expected = Passes(model, lambda: model(x).sum(1), BATCH).tangents(vectors)
    assert torch.allclose(tangents, expected)


@pytest.mark.parametrize("name", LAYERS)
def test_weighted_sums_are_gradients_of_weighted_losses(name: str) -> None:
    model, x, passes = example(name)
    factors = torch.tensor([0.5, 0.0, 1.0, 2.0, 0.0])
    sums = passes.weighted_sum(passes.losses(), factors)
    params = dict(model.named_parameters())
    gradients = torch.autograd.grad((losses(model, x) * factors).sum(), list(params.values()), allow_unused=True)
    for key, gradient in zip(params, gradients, strict=True):
        assert gradient is not None
        assert torch.allclose(sums[key], gradient)


def test_examples_left_out_are_zeros_everywhere() -> None:
    """Where a factor of 0 would be multiplied with infinity: the root of 0 has an infinite slope."""
    model, x = nn.Linear(3, 2, bias=False), torch.ones(BATCH, 3)
    x[1] = 0.0
    passes = Passes(model, lambda: model(x).square().sum(1).sqrt(), BATCH)
    factors = (torch.arange(BATCH) != 1).float()
    assert not passes.weighted_sum(passes.losses(), factors)["weight"].isfinite().all()
    x[1] = torch.nan
    passes = Passes(model, lambda: model(x).sum(1), BATCH)
    with passes.without(factors == 0):
        assert passes.weighted_sum(passes.losses(), factors)["weight"].isfinite().all()
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_every_pass_draws_the_same_numbers() -> None:
    model, x = nn.Sequential(nn.Linear(6, 6), nn.Dropout()), torch.randn(BATCH, 6)
    passes = Passes(model, lambda: losses(model, x), BATCH)
    first = passes.losses()
    torch.manual_seed(99)
    assert torch.equal(passes.losses(), first)
    assert torch.equal(passes.tangents(directions(model))[0], first)
    assert torch.equal(passes.losses_and_outputs()[0], first)


def test_outputs_of_modules_are_collected_by_name() -> None:
    _, _, passes = example("mlp")
    values, outputs = passes.losses_and_outputs()
    assert [name for name, _ in outputs] == ["0", "1", "2", "the model"]
    assert all(len(output) == BATCH for _, output in outputs)
    assert torch.autograd.grad(values.sum(), outputs[0][1])[0].shape == outputs[0][1].shape


def test_refusals() -> None:
    model, x = nn.Linear(6, 3), torch.randn(BATCH, 6)
    with pytest.raises(InvalidArgument, match="one loss per example"):
        Passes(model, lambda: losses(model, x).mean(), BATCH).losses()
    passes = Passes(model, lambda: losses(model, x), BATCH)
    with pytest.raises(Unsupported, match="^autocast"), torch.autocast("cpu", torch.bfloat16):
        passes.losses()

    def changing() -> Tensor:
        with torch.no_grad():
            model.weight.mul_(0.5)
        return losses(model, x)

    with pytest.raises(Unsupported, match="^weight: the forward pass changes these parameters"):
        Passes(model, changing, BATCH).losses()
