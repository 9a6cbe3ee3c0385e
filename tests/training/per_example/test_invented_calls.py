"""Invented examples: made without looking at real ones, and only where a comparison makes sense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.training.per_example.invented_calls import (
    Modes,
    comparable_calls,
    float_tensors,
    isolated,
    run_call,
    select_rows,
    without_tf32,
)

SIZE = 5


class Model(nn.Module):
    def __init__(self, compute: Callable[[nn.Linear, Tensor], Any]) -> None:
        super().__init__()
        self.layer, self.compute = nn.Linear(3, 2), compute

    def forward(self, x: Tensor) -> Any:
        return self.compute(self.layer, x)


def calls_on(x: Tensor) -> list[Any]:
    return [((x,), {})]


def test_real_numbers_do_not_matter() -> None:
    """Whether a run goes on must not depend on what examples contain."""
    model = Model(lambda layer, x: layer(x))
    invented = [
        next(iter(comparable_calls(model, calls_on(x), SIZE)))
        for x in (torch.zeros(SIZE, 3), torch.randn(SIZE, 3), torch.full((SIZE, 3), torch.nan))
    ]
    inputs = [call.arguments[0][0] for call in invented]
    assert all(torch.equal(x, inputs[0]) for x in inputs)
    assert inputs[0].shape == (2, 3)
    assert torch.equal(invented[0].outputs[0], model(inputs[0]))


def test_integers_may_be_indices_and_stay() -> None:
    model = nn.Embedding(7, 2)
    (call,) = comparable_calls(model, calls_on(torch.tensor([[6], [1], [2], [3], [4]])), SIZE)
    assert call.arguments[0][0].tolist() == [[6], [1]]


def test_outputs_of_examples_are_told_from_others() -> None:
    """One output has a row for each example; one has two rows always; one is an integer."""
    model = Model(lambda layer, x: {"a": layer(x), "b": layer.weight, "c": x.argmax(1), "d": (x.sum(1), 1.0)})
    (call,) = comparable_calls(model, calls_on(torch.randn(SIZE, 3)), SIZE)
    assert call.output_numbers == [0, 2]
    assert [tuple(output.shape) for output in call.outputs] == [(2, 2), (2,)]
    alone = call.outputs_of(run_call(model, call.example(1)))
    assert torch.allclose(alone[0], call.outputs[0][1:])


def test_models_that_need_positive_or_equal_numbers_get_them() -> None:
    """Normal numbers give NaN here, uniform ones do not; a model that divides by differences gets only ones."""
    (call,) = comparable_calls(Model(lambda layer, x: layer(x.log())), calls_on(torch.ones(SIZE, 3)), SIZE)
    assert bool((call.arguments[0][0] > 0).all())

    def only_ones(layer: nn.Linear, x: Tensor) -> Tensor:
        if not torch.equal(x, torch.ones_like(x)):
            raise ValueError("something else")
        return layer(x)

    (call,) = comparable_calls(Model(only_ones), calls_on(torch.ones(SIZE, 3)), SIZE)
    assert torch.equal(call.arguments[0][0], torch.ones(2, 3))


def test_random_models_are_compared_in_evaluation_mode() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout())
    calls = comparable_calls(model, calls_on(torch.randn(SIZE, 3)), SIZE)
    assert len(list(calls)) == 1
    assert not model.training
    always_random = Model(lambda layer, x: layer(x + torch.randn_like(x)))
    assert not list(comparable_calls(always_random, calls_on(torch.randn(SIZE, 3)), SIZE))


def test_what_cannot_be_compared() -> None:
    x = torch.randn(SIZE, 3)

    def fails(layer: nn.Linear, x: Tensor) -> Tensor:
        raise RuntimeError

    assert not list(comparable_calls(Model(fails), calls_on(x), SIZE))
    assert not list(comparable_calls(Model(lambda layer, x: layer(x).sum()), calls_on(x), SIZE))
    assert not list(comparable_calls(Model(lambda layer, x: layer(x)), calls_on(x[:1]), 1))
    assert not list(comparable_calls(Model(lambda layer, x: layer(x)), calls_on(x), None))


def test_isolated_runs_leave_no_trace() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.BatchNorm1d(3))
    model[2].eval()
    state, fast_path = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled()
    with isolated(model), torch.autocast("cpu", enabled=False):
        torch.manual_seed(3)
        model.eval()
        assert not torch.backends.mha.get_fastpath_enabled()
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == [True, True, True, False]
    assert torch.backends.mha.get_fastpath_enabled() == fast_path


def test_modes_are_restored_one_by_one() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    model[1].eval()
    modes = Modes(model)
    model.train()
    modes.restore()
    assert [module.training for module in model.modules()] == [True, True, False]


def test_tf32_is_off_for_a_while() -> None:
    backend: Any = torch.backends.cudnn
    before = backend.allow_tf32

    def fail() -> None:
        with without_tf32():
            assert not backend.allow_tf32
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert backend.allow_tf32 == before


def test_rows_are_selected_where_there_is_one_for_each_example() -> None:
    batch = {"x": torch.arange(6).view(3, 2), "shared": torch.arange(2), "name": "x", "number": torch.tensor(3)}
    part = select_rows(batch, 3, slice(1, 2))
    assert part["x"].tolist() == [[2, 3]]
    assert part["shared"].tolist() == [0, 1]
    assert part["name"] == "x"
    assert len(float_tensors((torch.ones(1), {"a": torch.ones(1)}, torch.tensor(1)))) == 2
