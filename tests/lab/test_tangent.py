"""A model as functions of its parameters: Jacobians and gradients against plain loops and against the engine."""

from __future__ import annotations

import copy
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.errors import Unsupported
from hush.lab import ntk
from hush.lab.tangent import TangentObjective, factors, precise
from hush.training import ByName, Flat, PerLayer
from hush.training.per_example.engine import GradientEngine
from lab.problems import CLIPPED, TABLE, network, worst_case
from training.models import MODELS

LAYERS = ["mlp", "conv2d", "embedding", "layer-norm", "tied", "four-times", "raw-parameter"]


@pytest.mark.parametrize("name", LAYERS)
def test_jacobians_are_those_of_a_loop(name: str) -> None:
    torch.manual_seed(2)
    model, x = MODELS[name]()
    jacobian = ntk.jacobian(model, x)
    precise = copy.deepcopy(model).double()
    params = dict(precise.named_parameters())
    assert list(jacobian) == list(params)
    for index in range(len(x)):
        example = x[index : index + 1]
        outputs = precise(example.double() if example.is_floating_point() else example).flatten()
        for output in range(0, len(outputs), max(len(outputs) // 10, 1)):
            gradients: tuple[Tensor, ...] = torch.autograd.grad(
                outputs[output], list(params.values()), retain_graph=True
            )
            for key, gradient in zip(params, gradients, strict=True):
                assert torch.allclose(jacobian[key][index, output], gradient, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", TABLE)
def test_a_step_moves_outputs_as_the_kernel_says(name: str) -> None:
    """The model is linear: to the last digit. A broken twin, with factors on rows, is right about the loss alone."""
    model, x, y, loss = worst_case()
    clipping = TABLE[name][0]
    kernel = ntk.kernel(model, x, y, loss, clipping=clipping)
    objective = TangentObjective(model, x, y, loss)
    step = objective.mean_gradient(objective.params, clipping)
    after = objective.outputs({key: value - 0.1 * step[key] for key, value in objective.params.items()}, objective.x)
    moved = (after - objective.outputs(objective.params, objective.x)).flatten()
    assert torch.allclose(moved, -0.1 / len(x) * kernel.matrix @ kernel.residual, rtol=1e-9, atol=1e-12)
    twin = kernel.matrix.mT @ kernel.residual
    assert torch.allclose(moved, -0.1 / len(x) * twin, rtol=1e-6) == TABLE[name][1]


@pytest.mark.parametrize(("problem", "name"), list(product([worst_case, network], CLIPPED)))
def test_gradients_are_the_engines(problem: Any, name: str) -> None:
    model, x, y, loss = problem()
    clipping: Any = TABLE[name][0]
    if isinstance(clipping.groups, ByName):
        clipping = type(clipping)(clipping.clip_norm, ByName({"": 1, "left": 1, "0.": 2}))
    objective = TangentObjective(model, x, y, loss)
    gradient = objective.mean_gradient(objective.params, clipping)
    engine = GradientEngine(model)
    with engine.batch(len(x)):
        engine.backward(loss(model(x), y))
        expected = engine.clipped_sum(clipping).gradients
    engine.detach()
    for key, value in expected.items():
        assert torch.allclose(gradient[key].double() * len(x), value, rtol=1e-3, atol=1e-3 * float(value.abs().max()))


def test_models_stay_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Dropout(), nn.Linear(4, 3)).double()
    _, x, y, loss = network()
    x = x.double()
    for module in (model, model[2]):
        before = copy.deepcopy(model.state_dict())
        module.train()
        with pytest.raises(Unsupported, match="model.eval()"):
            ntk.kernel(model, x, y, loss)
        model.eval()
        assert ntk.kernel(model, x, y, loss).is_symmetric
        ntk.descent(model, x, y, loss, learning_rate=0.1, num_steps=2, clipping=Flat(1.0))
        assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
        assert all(param.grad is None for param in model.parameters())


def test_frozen_parameters_take_no_part() -> None:
    model, x, y, loss = network()
    first: Any = model.get_submodule("0")
    first.requires_grad_(False)
    assert list(ntk.jacobian(model, x)) == ["2.weight", "2.bias"]
    parts = ntk.kernel(model, x, y, loss).matrix
    first.requires_grad_(True)
    assert float(torch.linalg.eigvalsh(ntk.kernel(model, x, y, loss).matrix - parts)[0]) > -1e-9


def test_clip_factors_by_hand() -> None:
    """Two examples, two layers: norms 3 and 0.3 in one, 4 and 0.4 in the other."""
    gradients = {"left.weight": torch.tensor([[3.0], [0.3]]), "right.weight": torch.tensor([[4.0], [0.4]])}
    ones, groups = factors(gradients, None)
    assert ones.tolist() == [[1, 1]]
    assert groups == [0, 0]
    together, groups = factors(gradients, Flat(1.0))
    assert torch.allclose(together, torch.tensor([[0.2, 1.0]]))
    assert groups == [0, 0]
    by_layer, groups = factors(gradients, Flat(1.0, PerLayer()))
    assert torch.allclose(by_layer, torch.tensor([[0.5**0.5 / 3, 1.0], [0.5**0.5 / 4, 1.0]]))
    assert groups == [0, 1]


def test_copies_are_precise_and_leave_the_numbers_alone() -> None:
    value = torch.ones(2, requires_grad=True)
    copied = precise(value)
    copied += 1
    assert copied.dtype is torch.float64
    assert not copied.requires_grad
    assert value.tolist() == [1, 1]
    assert precise(torch.tensor([1, 2])).dtype is torch.int64
