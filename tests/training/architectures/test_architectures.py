"""Models as people load them have the gradients of a plain loop over the examples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from torch import nn

from hush.training import replace_batchnorm
from training.architectures import loops, packages
from training.architectures.loops import disturb, largest_error, losses, precision
from training.architectures.table import ARCHITECTURES, COMPILED, EXPECTED_FAILURES, QUICK

TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}

# transformers and timm speak about defaults of their own that are going to change.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def cases(names: Iterable[str], suffix: str, quick: Iterable[str] = ()) -> list[Any]:
    """Return tests of architectures, of which all but the quick ones are slow, and those that fail are expected to."""
    rows = []
    for name in names:
        marks = [] if name in quick else [pytest.mark.slow]
        reason = EXPECTED_FAILURES.get(name) or EXPECTED_FAILURES.get(f"{name} {suffix}")
        if reason is not None:
            marks.append(pytest.mark.xfail(strict=True, reason=reason))
        rows.append(pytest.param(name, marks=marks))
    return rows


def made(name: str) -> tuple[nn.Module, dict[str, Any]]:
    torch.manual_seed(0)
    model, inputs = ARCHITECTURES[name]()
    disturb(model)
    return model.eval(), inputs  # without dropout, which a loop draws differently


@pytest.mark.parametrize("name", cases(ARCHITECTURES, "in torch.float64", QUICK))
def test_gradients_are_those_of_a_loop(name: str) -> None:
    with precision(torch.float64):
        assert largest_error(*made(name)) < TOLERANCES[torch.float64]


@pytest.mark.parametrize("name", cases(ARCHITECTURES, "in torch.float32"))
def test_gradients_in_single_precision_are_those_of_a_loop(name: str) -> None:
    with precision(torch.float32):
        assert largest_error(*made(name)) < TOLERANCES[torch.float32]


@pytest.mark.parametrize("name", cases(COMPILED, "compiled"))
def test_compiled_gradients_are_those_of_a_loop(name: str) -> None:
    """The first step of a compiled model is eager, the second one is compiled."""
    torch._dynamo.reset()
    with precision(torch.float32):
        assert largest_error(*made(name), backend="aot_eager", steps=2) < TOLERANCES[torch.float32]


def test_the_table_is_as_broad_as_it_says() -> None:
    assert len(ARCHITECTURES) >= 60
    names = {name.removesuffix(" in torch.float32").removesuffix(" compiled") for name in EXPECTED_FAILURES}
    assert names | set(QUICK) | set(COMPILED) <= ARCHITECTURES.keys()


def test_a_twin_that_is_wrong_by_a_millionth_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one entry of one parameter, for one example."""
    packages.package("transformers")
    honest = loops.recorded

    def twin(*args: Any, **options: Any) -> Any:
        sums, norms = honest(*args, **options)
        smallest = min(sums, key=lambda name: float(sums[name].abs().max()))
        sums[smallest].view(-1)[0] *= 1 + 1e-6
        return sums, norms

    with precision(torch.float64):
        model, inputs = made("transformers gpt2")
        assert largest_error(model, inputs) < TOLERANCES[torch.float64]
        monkeypatch.setattr(loops, "recorded", twin)
        assert largest_error(model, inputs) > TOLERANCES[torch.float64]


def test_losses_depend_on_every_output() -> None:
    with precision(torch.float64):
        x = torch.randn(3, 4, 2, requires_grad=True)
        model = nn.Identity()
        losses(model, {"input": x}).sum().backward()
        assert x.grad is not None
        assert bool((x.grad != 0).all())


def test_replaced_batch_norms_keep_their_activations() -> None:
    """timm's norms go on with an activation: a broken twin lost all of them."""
    timm = packages.package("timm")
    before = timm.create_model("efficientnet_lite0", pretrained=False)
    activations = sum(type(module) is nn.ReLU6 for module in before.modules())
    norms = sum(isinstance(module, nn.BatchNorm2d) for module in before.modules())
    after = list(replace_batchnorm(before).modules())
    assert activations == 33
    assert sum(type(module) is nn.ReLU6 for module in after) == activations
    assert sum(type(module) is nn.GroupNorm for module in after) == norms
    assert not any(isinstance(module, nn.BatchNorm2d) for module in after)
