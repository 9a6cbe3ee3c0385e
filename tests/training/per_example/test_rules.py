"""Rules: norms and clipped sums of every kind of layer against a plain loop, and layers that are refused."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import register_parametrization

from hush.errors import Unsupported
from hush.training import check, clipped_sum, looped_sum
from hush.training.per_example.engine import GradientEngine
from hush.training.per_example.rules import RULES, trained
from training.models import BATCH, MODELS, losses

every_model = pytest.mark.parametrize("name", MODELS)
CLIP = 0.5


def double_precision(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(3)
    model, x = MODELS[name]()
    return model.double(), x.double() if x.is_floating_point() else x


@every_model
@pytest.mark.parametrize("count", [BATCH, 1])
def test_norms_and_sums_are_those_of_a_loop(name: str, count: int) -> None:
    model, x = double_precision(name)
    fast = clipped_sum(model, x[:count], losses, clip_norm=CLIP)
    plain = looped_sum(model, x[:count], losses, clip_norm=CLIP)
    assert torch.allclose(fast.norms.double(), plain.norms.double(), rtol=1e-5)
    largest = max(float(gradient.abs().max()) for gradient in plain.gradients.values())
    for key, gradient in plain.gradients.items():
        other = fast.gradients.get(key, torch.zeros_like(gradient))
        assert float((other - gradient).abs().max()) <= 8e-4 * largest, key  # of which 7.2e-4 are slack for rounding
    check(model, x[:count], losses, clip_norm=CLIP)


@every_model
def test_outputs_are_those_of_the_ordinary_forward(name: str) -> None:
    """In a private step, under no_grad within one, and after the engine was detached."""
    model, x = double_precision(name)
    expected = model(x)
    engine = GradientEngine(model)
    with engine.batch(BATCH):
        assert torch.allclose(model(x), expected, rtol=1e-9, atol=1e-12)
        with torch.no_grad():
            assert torch.equal(model(x), expected)
    assert torch.equal(model(x), expected)
    engine.detach()
    assert torch.equal(model(x), expected)
    assert not any("forward" in module.__dict__ for module in model.modules())


@every_model
def test_an_example_that_is_not_finite_contributes_nothing(name: str) -> None:
    torch.manual_seed(6)
    model, x = MODELS[name]()
    others = [0, 2, 3, 4]
    factors = torch.ones(BATCH)
    factors[1] = torch.nan
    broken = clipped_sum(model, x, lambda module, batch: losses(module, batch) * factors, clip_norm=CLIP)
    clean = clipped_sum(model, x[others], losses, clip_norm=CLIP)
    assert torch.isnan(broken.norms[1])
    assert torch.allclose(broken.norms[others], clean.norms, rtol=1e-4)
    for key, gradient in clean.gradients.items():
        assert torch.allclose(broken.gradients[key], gradient, rtol=1e-3, atol=1e-6), key


def test_masked_tokens_and_ignored_targets() -> None:
    torch.manual_seed(7)
    model = nn.Sequential(nn.Embedding(9, 4, padding_idx=0), nn.Linear(4, 9)).double()
    x, y = torch.randint(0, 9, (BATCH, 6)), torch.randint(0, 9, (BATCH, 6))
    y[:, 4:] = -100
    y[1] = -100  # an example without any target

    def masked(module: nn.Module, batch: Any) -> Tensor:
        tokens, targets = batch
        outputs = module(tokens).transpose(1, 2)
        token_losses = nn.functional.cross_entropy(outputs, targets, reduction="none", ignore_index=-100)
        return token_losses.sum(1) / (targets != -100).sum(1).clamp_min(1)

    check(model, (x, y), masked)
    assert float(clipped_sum(model, (x, y), masked, clip_norm=1.0).norms[1]) == 0


def test_frozen_parameters_have_no_gradient() -> None:
    model, x = double_precision("transformer")
    for name, param in model.named_parameters():
        param.requires_grad_("linear1" in name)
    assert set(clipped_sum(model, x, losses, clip_norm=CLIP).gradients) == {"linear1.weight", "linear1.bias"}
    check(model, x, losses, clip_norm=CLIP)
    assert set(trained(weight=model.get_parameter("linear1.weight"), bias=None)) == {"weight"}


def test_subclasses_and_parametrized_layers_run_without_a_rule() -> None:
    """Their forward may be another one: the rule of the base class would be wrong about it."""

    class Doubled(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return 2 * super().forward(x)

    assert Doubled not in RULES
    torch.manual_seed(1)
    check(nn.Sequential(Doubled(6, 4), nn.Tanh(), nn.Linear(4, 2)).double(), torch.randn(BATCH, 6).double(), losses)
    parametrized = nn.Linear(6, 4)
    register_parametrization(parametrized, "weight", nn.Tanh())
    check(nn.Sequential(parametrized, nn.Linear(4, 2)).double(), torch.randn(BATCH, 6).double(), losses)


def test_copies_and_pickles_of_a_private_model_are_ordinary() -> None:
    model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    engine = GradientEngine(model)
    x = torch.randn(BATCH, 6)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with engine.batch(BATCH):
            assert torch.equal(other(x), model(x))
        GradientEngine(other).detach()
    with pytest.raises(Unsupported, match="replaced already"):
        GradientEngine(model)


@pytest.mark.parametrize(
    "norm", [nn.BatchNorm1d(4), nn.BatchNorm2d(4), nn.SyncBatchNorm(4), nn.InstanceNorm1d(4, track_running_stats=True)]
)
def test_layers_that_mix_examples_are_refused_by_name(norm: nn.Module) -> None:
    model = nn.Sequential(nn.Linear(4, 4), norm, nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)))
    with pytest.raises(Unsupported, match=r"^1 \(.*2\.1 \(BatchNorm1d\).*replace_batchnorm"):
        GradientEngine(model)


@pytest.mark.parametrize(
    "layer",
    [nn.Embedding(9, 4, max_norm=1.0), nn.Embedding(9, 4, scale_grad_by_freq=True), nn.Embedding(9, 4, sparse=True)],
)
def test_embeddings_that_look_at_the_batch_are_refused(layer: nn.Module) -> None:
    with pytest.raises(Unsupported, match="whole batch"):
        clipped_sum(layer, torch.randint(0, 9, (BATCH, 3)), losses, clip_norm=1.0)
