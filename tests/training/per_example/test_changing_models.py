"""Models whose backward pass or control flow differs from what a check saw."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch._dynamo
import torch.nn.functional as F
from torch import Tensor, nn

from hush.training import Flat
from hush.training.per_example.engine import GradientEngine
from hush.training.per_example.projected_clipping import ProjectedClipping

TORCHS_OWN = pytest.mark.filterwarnings(r"ignore:::torch\..*")


class Switch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.use = nn.Linear(6, 6), nn.Linear(6, 6), "a"

    def forward(self, x: Tensor) -> Tensor:
        return getattr(self, self.use)(x)


def sums_of(engine: GradientEngine, losses: Any) -> dict[str, Tensor]:
    with engine.batch(4):
        engine.backward(losses())
        return engine.clipped_sum(Flat(1.0)).gradients


@TORCHS_OWN
def test_compiled_models_may_switch_layers() -> None:
    torch._dynamo.reset()
    model, x = Switch(), torch.randn(4, 6)
    engine = GradientEngine(model, backend="aot_eager")
    for use in ("a", "a", "b", "b", "a"):
        model.use = use
        assert {name[0] for name in sums_of(engine, lambda: model(x).sum(1))} == {use}


@TORCHS_OWN
def test_compiled_models_may_be_called_twice_on_other_shapes() -> None:
    torch._dynamo.reset()
    torch.manual_seed(2)
    model = nn.Linear(6, 2)
    x, y = torch.randn(4, 6), [torch.randn(4, length, 6) for length in (3, 5, 3, 5)]
    engine, plain = GradientEngine(model, backend="aot_eager"), copy.deepcopy(model)
    eager = GradientEngine(plain)
    for sequences in y:
        compiled, expected = (
            sums_of(compute, lambda m=module, z=sequences: m(z).sum((1, 2)) + m(x).sum(1))
            for compute, module in ((engine, model), (eager, plain))
        )
        assert all(torch.allclose(compiled[key], expected[key], atol=1e-5) for key in expected)


def test_a_wrong_backward_of_one_row_is_noticed_among_many() -> None:
    """Projected norms with a backward pass that does not match the forward pass, for one example of thousands."""

    class Larger(torch.autograd.Function):
        @staticmethod
        def forward(x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.set_materialize_grads(True)

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return torch.cat([15 * g[:1], g[1:]])

        @staticmethod
        def jvp(ctx: Any, tangent: Tensor) -> Tensor:
            return tangent.clone()

    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    clip = ProjectedClipping(model, projections=3, key=bytes(32))
    x, y = torch.randn(5000, 4), torch.randint(0, 2, (5000,))

    def losses() -> Tensor:
        return F.cross_entropy(Larger.apply(model(x)), y, reduction="none")

    # A step's vector is nearly orthogonal to that gradient with probability 0.7 %; all five with 2e-11.
    for step in range(5):
        clip(losses, clip_norm=0.1, weights=torch.ones(5000), step=step)
    assert clip.way == "double backward", "which measures what the backward does"
