"""Promised excess risks: the published formulas, true of runs, and refused for what the theorems do not cover."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hush.errors import InvalidArgument, Unsupported
from hush.lab.lessons.utility import ConvexProblem, measured_excess, promised_excess
from hush.randomness import TestSource
from hush.training import (
    Adaptive,
    Augmented,
    Automatic,
    Curve,
    Flat,
    Full,
    PerLayer,
    Poisson,
    Schedule,
    ShuffledEpochs,
    TrainingPlan,
    start_training,
)
from training.loops import noisy_gradients

COUNT, DIMENSION = 500, 4
PROBLEM = ConvexProblem(lipschitz=1.0, radius=2.0, dimension=DIMENSION)


def plan(**changes: Any) -> TrainingPlan:
    settings: dict[str, Any] = {
        "sampling": Full(),
        "num_units": COUNT,
        "num_steps": 50,
        "clipping": Flat(1.01),
        "noise_multiplier": 5.0,
        "delta": 1e-6,
        "physical_batch_size": COUNT,
    }
    return TrainingPlan(**(settings | changes))


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = F.normalize(torch.randn(COUNT, DIMENSION, generator=generator))  # the logistic loss then has gradients up to 1
    return x, torch.sign(x[:, 0] + 0.3 * torch.randn(COUNT, generator=generator))


def logistic(predictions: Tensor, signs: Tensor) -> Tensor:
    return F.softplus(-predictions * signs)


def test_formulas() -> None:
    noise = 5.0 * 1.01 / COUNT
    squared = 1 + DIMENSION * noise**2
    assert promised_excess(plan(), PROBLEM).bound == pytest.approx(2 * math.sqrt(squared / 50))
    sampled = promised_excess(plan(sampling=Poisson(100)), PROBLEM)
    assert sampled.gradient**2 == pytest.approx(1 + 0.8 / 100 + DIMENSION * (5 * noise) ** 2)
    ridged = promised_excess(plan(), ConvexProblem(lipschitz=1.0, radius=2.0, dimension=DIMENSION, ridge=0.1))
    assert ridged.bound == pytest.approx(2 * (1.2**2 + DIMENSION * noise**2) / (0.1 * 51))
    for promised in (sampled, ridged):
        assert sum(promised.weights) == pytest.approx(1)
        assert len(promised.learning_rates) == 50


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("sampling", [Full(), Poisson(100)])
def test_runs_keep_the_promise(ridge: float, sampling: Any) -> None:
    problem = ConvexProblem(lipschitz=1.0, radius=2.0, dimension=DIMENSION, ridge=ridge)
    chosen = plan(sampling=sampling, noise_multiplier=20.0)
    # Fixed keys. The bound is on an expectation, and a run is far below it.
    excess = [measured_excess(chosen, problem, *data(), logistic, source=TestSource(seed)) for seed in (1, 2)]
    assert min(excess) > 0
    assert max(excess) < promised_excess(chosen, problem).bound


def test_noisy_gradients_are_as_long_as_the_bound_says() -> None:
    # Noise makes up nearly all of the length, so the bound is close. Fixed key: 200 squares with 4 coordinates each.
    chosen = plan(sampling=Poisson(100), noise_multiplier=1000.0, num_steps=200)
    model = nn.Linear(DIMENSION, 1, bias=False)
    private = start_training(chosen, model, torch.optim.SGD(model.parameters(), lr=1e-9), data(), source=TestSource(1))
    steps = noisy_gradients(private.optimizer)  # type: ignore[arg-type]
    for x, y in private.loader:
        private.step(logistic(model(x)[:, 0], y))
    squares = [float(gradient.square().sum()) for (gradient,) in steps]
    measured = math.sqrt(sum(squares) / len(squares))
    assert 0.9 < measured / promised_excess(chosen, PROBLEM).gradient < 1.1
    twin = math.sqrt(1 + DIMENSION * (1000.0 / COUNT) ** 2)  # divides by the number of all examples
    assert measured > 3 * twin


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"clipping": Flat(1.0)}, "clip_norm"),
        ({"clipping": Automatic(2.0)}, "Automatic"),
        ({"clipping": Adaptive(2.0)}, "Adaptive"),
        ({"clipping": Flat(2.0, PerLayer())}, "PerLayer"),
        ({"sampling": ShuffledEpochs(100)}, "ShuffledEpochs"),
        ({"sampling": Poisson(100, max_batch_size=200)}, "Poisson"),
        ({"contribution": Augmented(2)}, "several examples"),
        ({"schedule": Schedule(noise_multiplier=Curve.linear(1.0, 2.0, num_steps=50))}, "schedule"),
    ],
)
def test_what_the_theorems_do_not_cover_is_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises((InvalidArgument, Unsupported), match=words):
        promised_excess(plan(**changes), PROBLEM)


def test_numbers_are_checked() -> None:
    for wrong in ({"lipschitz": 0.0}, {"radius": math.nan}, {"dimension": 0}, {"ridge": -1.0}):
        with pytest.raises(InvalidArgument, match=next(iter(wrong))):
            ConvexProblem(**({"lipschitz": 1.0, "radius": 1.0, "dimension": 1} | wrong))  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"rows\.shape"):
        measured_excess(plan(), PROBLEM, torch.zeros(3, 4), torch.zeros(3), logistic)
