"""Moving and tail averages of weights: their formulas, and that they stay with the run they belong to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hush.errors import InvalidArgument
from hush.training import MovingAverage, PrivateTraining, TailAverage, freeze_except
from training.loops import data, network, run, train, weights


def averaged(average: Any) -> Tensor:
    return weights(average.copy())


def test_the_moving_average_follows_its_formula() -> None:
    model = network()
    average, seen = MovingAverage(model, decay=0.8), []
    assert torch.equal(averaged(average), weights(model)), "before the first step: the weights"

    def after_step() -> None:
        average.update()
        seen.append(weights(model).double())

    train(run(model=model, lr=0.5), after_step=after_step)
    shares = 0.2 * 0.8 ** np.arange(5, -1, -1) / (1 - 0.8**6)
    assert sum(shares) == pytest.approx(1)
    expected = sum(float(share) * params for share, params in zip(shares, seen, strict=True))
    assert torch.allclose(averaged(average).double(), expected, atol=1e-6)  # type: ignore[arg-type]
    assert torch.equal(weights(model).double(), seen[-1]), "the model itself is unchanged"


def test_the_tail_average_follows_its_formula() -> None:
    model = network()
    average, seen = TailAverage(model, since=2), []

    def after_step() -> None:
        average.update()
        seen.append(weights(model))
        if len(seen) <= 2:
            assert torch.equal(averaged(average), seen[-1])

    train(run(model=model, lr=0.5), after_step=after_step)
    expected = torch.stack(seen[2:]).mean(0)
    assert torch.allclose(averaged(average), expected, atol=1e-6)
    average.apply()
    assert torch.equal(weights(model), averaged(average))


def test_a_copy_is_an_ordinary_model_with_current_buffers() -> None:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8).eval(), nn.Linear(8, 3)).eval()
    freeze_except(model, "0", "2")
    average = MovingAverage(model, decay=0.9)
    train(run(model=model, lr=0.5), after_step=average.update)
    model[1].running_mean.fill_(7.0)  # type: ignore[union-attr, operator]
    twin = average.copy()
    assert float(twin[1].running_mean[0]) == 7.0  # type: ignore[index]
    assert not twin.training
    F.cross_entropy(twin(data()[0]), data()[1]).backward()
    assert twin[0].weight.grad is not None  # type: ignore[index]


@pytest.mark.parametrize(
    "kind", [lambda model: MovingAverage(model, decay=0.7), lambda model: TailAverage(model, since=2)]
)
def test_averages_resume_with_their_run(kind: Callable[[nn.Module], Any]) -> None:
    def begin(seed: int) -> tuple[PrivateTraining, Any]:
        model = network()
        return run(seed, model, lr=0.5), kind(model)

    uninterrupted, average = begin(5)
    train(uninterrupted, after_step=average.update)
    first, early = begin(5)
    train(first, 3, early.update)
    stored = {"run": first.state_dict(), "average": early.state_dict()}
    train(first, 4, early.update)
    late = early.state_dict()
    second, resumed = begin(99)
    with pytest.raises(InvalidArgument, match="^weights="):
        resumed.load_state_dict(stored["average"])  # before the run
    second.load_state_dict(stored["run"])
    with pytest.raises(InvalidArgument, match="^weights="):
        resumed.load_state_dict(late)  # it includes a step that this run does not account for
    resumed.load_state_dict(stored["average"])
    train(second, after_step=resumed.update)
    assert torch.equal(averaged(resumed), averaged(average))


def test_refusals() -> None:
    model = network()
    for wrong in (0.0, 1.0, math.nan):
        with pytest.raises(InvalidArgument, match="^decay="):
            MovingAverage(model, decay=wrong)
    with pytest.raises(InvalidArgument, match="^decay"):
        MovingAverage(model, decay="a")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^since="):
        TailAverage(model, since=-1)
    with pytest.raises(InvalidArgument, match="^kind="):
        TailAverage(model).load_state_dict(MovingAverage(model, decay=0.5).state_dict())
    freeze_except(model, "2")
    average = TailAverage(model)
    model.requires_grad_(True)
    with pytest.raises(InvalidArgument, match=r"^model=.*0\.bias"):
        average.update()


def test_half_precision_weights_are_averaged_in_single_precision() -> None:
    model = nn.Linear(1, 1, bias=False, dtype=torch.bfloat16)
    average = MovingAverage(model, decay=0.999)
    for value in [1.0] * 500 + [2.0] * 100:
        nn.init.constant_(model.weight, value)
        average.update()
    share = (1 - 0.999**100) / (1 - 0.999**600)
    assert average.copy().weight.item() == pytest.approx(1 + share, rel=0.01)  # type: ignore[operator, union-attr]
