"""A compiled private step gives the same numbers: by dynamo and AOTAutograd, and by inductor in the slow suite."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
import torch
import torch._dynamo
import torch._dynamo.testing
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.training import Flat, PrivateTraining, privatize
from hush.training.per_example import autograd
from hush.training.per_example.engine import GradientEngine
from training.models import BATCH, MODELS, losses

# torch warns about its own code where a graph breaks.
pytestmark = pytest.mark.filterwarnings(r"ignore:::torch\..*")


def compare(name: str, backend: str) -> None:
    torch._dynamo.reset()
    torch.manual_seed(3)
    model, x = MODELS[name]()
    engine = GradientEngine(model, backend=backend)
    results = []
    for _ in range(2):
        with engine.batch(BATCH):
            engine.backward(losses(model, x))
            results.append(engine.clipped_sum(Flat(0.5)))
    eager, compiled = results
    assert torch.allclose(eager.norms, compiled.norms, rtol=1e-4)
    for key, gradient in eager.gradients.items():
        assert torch.allclose(gradient, compiled.gradients[key], rtol=1e-3, atol=1e-5), key


# Layers that differ most from each other; the others are traced in the slow suite.
QUICK = {"conv2d", "embedding-bag", "tied", "attention-cross"}
TRACED = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]


@pytest.mark.parametrize("name", TRACED)
@pytest.mark.quick_cases(2)
def test_traced_steps_are_the_same(name: str) -> None:
    compare(name, "aot_eager")


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a compiler")
def test_compiled_steps_are_the_same(name: str) -> None:
    compare(name, "inductor")


def run(model: nn.Module, compiled: bool | str, **settings: Any) -> PrivateTraining:
    torch.manual_seed(1)
    data = torch.randn(60, 6), torch.randint(0, 3, (60,))
    chosen: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-5, "num_steps": 4, "batch_size": 20} | settings
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return privatize(model, optimizer, data, compile=compiled, source=TestSource(5), **chosen)


def network() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))


def train(private: PrivateTraining) -> Tensor:
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
    return torch.cat([param.detach().flatten() for param in private.model.parameters()])


def test_many_runs_in_one_process_are_all_compiled() -> None:
    """Dynamo gives up on code that was compiled 8 times: runs must not share theirs."""
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounter()
    for width in range(1, 11):
        engine = GradientEngine(nn.Linear(4, width), backend=counter)  # type: ignore[arg-type]
        for _ in range(2):
            with engine.batch(3):
                engine.backward(engine.model(torch.ones(3, 4)).sum(1))
    assert counter.frame_count == 10


def test_runs_are_the_same() -> None:
    torch._dynamo.reset()
    assert torch.allclose(train(run(network(), False)), train(run(network(), "aot_eager")), atol=1e-6)


def test_a_parameter_frozen_half_way_is_noticed() -> None:
    torch._dynamo.reset()
    model = network()
    private = run(model, "aot_eager", num_steps=6)
    for x, y in private.loader:
        private.step(F.cross_entropy(private.model(x), y, reduction="none"))
        if private.steps_taken == 3:
            model[0].weight.requires_grad_(False)
            before = model[0].weight.detach().clone()
    assert torch.equal(model[0].weight, before)


def test_evaluation_and_copies_are_ordinary() -> None:
    torch._dynamo.reset()
    private = run(network(), "aot_eager")
    train(private)
    x = torch.randn(3, 6)
    with torch.no_grad():
        expected = private.model(x)
    model = private.close()
    assert model._compiled_call_impl is None
    assert torch.allclose(model(x), expected)


def test_compiled_models_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^model="):
        run(torch.compile(network()), True)  # type: ignore[arg-type]


def test_gradients_that_dynamo_loses_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in torch 2.11, the compiled function loses gradients. The first step compares."""
    torch._dynamo.reset()
    honest = autograd._summed

    def lossy(values: Tensor, dims: tuple[int, ...]) -> Tensor:
        total = honest(values, dims)
        return total * 0 if torch.compiler.is_compiling() else total

    monkeypatch.setattr(autograd, "_summed", lossy)
    with pytest.raises(Unsupported, match="1.weight, 1.bias"):
        train(run(network(), "aot_eager"))


class Growing(nn.Module):
    """A model that may use another layer in a later step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.deep = False

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x)) if self.deep else self.first(x)


def test_a_model_may_use_more_layers_than_before() -> None:
    """It asked for more taps than were known, which once was an error."""
    torch._dynamo.reset()
    model, x = Growing(), torch.randn(BATCH, 6)
    engine = GradientEngine(model, backend="aot_eager")
    for deep in (False, False, True, True, False):
        model.deep = deep
        with engine.batch(BATCH):
            engine.backward(losses(model, x))
            used = {name.split(".")[0] for name in engine.clipped_sum(Flat(0.5)).gradients}
        assert used == ({"first", "second"} if deep else {"first"})
