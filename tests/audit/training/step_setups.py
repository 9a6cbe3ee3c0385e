"""Settings of private training to audit, and bugs to plant in its code.

The models are linear, so an example's gradient is its input, and the canary's gradient is its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from hush.audit.training import Setup
from hush.audit.training.observed_steps import Observations
from hush.guarantee import Relation
from hush.training import (
    Augmented,
    Automatic,
    BallsInBins,
    CyclicPoisson,
    FixedSize,
    Flat,
    Full,
    InOrder,
    Microbatches,
    Normalized,
    PerLayer,
    Poisson,
    Projected,
    ShuffledEpochs,
    UserGroups,
    Users,
)
from hush.training.loop import batch_sums
from hush.training.loop.batch_sums import BatchSums
from hush.training.loop.update import Updater
from hush.training.per_example import clipped_sum
from hush.training.per_example import engine as engine_module

WIDTH = 32


class Probe(nn.Module):
    """A linear model, whose gradient is the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).squeeze(1)


class Twice(Probe):
    """One weight, used twice."""

    def forward(self, x: Tensor) -> Tensor:
        return (self.layer(x) + self.layer(x)).squeeze(1)


class TwoLayers(nn.Module):
    """Two layers side by side, each with half of the input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(WIDTH // 2, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        first_half, second_half = x.split(WIDTH // 2, 1)
        return (self.first(first_half) + self.second(second_half)).squeeze(1)


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


def data(rows: int = 6, *, canary: tuple[float, float] = (100.0, 0.0), others: float = -3.0) -> tuple[Tensor, ...]:
    """The canary's gradient has a component in each half. Those of the others are opposite to it, and orthogonal."""
    x = torch.zeros(rows, WIDTH)
    x[1:, 0], x[1:, 1] = others, 1.0
    x[0, 0], x[0, WIDTH // 2] = canary
    return (x,)


ORTHOGONAL = data(others=0.0)  # for sampled batches: the other examples in a batch must not hide the canary
OPPOSITE = data(others=-30.0)


def setup(*, model: type[nn.Module] = Probe, dataset: tuple[Tensor, ...] | None = None, **settings: Any) -> Setup:
    arguments = {"noise_multiplier": 0.6, "clip_norm": 4.0, **settings}
    if "clipping" in settings:
        del arguments["clip_norm"]
    return Setup(model=model, data=data() if dataset is None else dataset, loss=loss, settings=arguments)


@dataclass(frozen=True)
class Case:
    setup: Setup
    steps: int = 1


USERS = ["canary", "canary", "a", "b", "b", "c"]


def _rows_of_users() -> tuple[Tensor, ...]:
    (x,) = data()
    x[1] = x[0]
    return (x,)


CASES = {
    "full": Case(setup()),
    "two steps": Case(setup(), 2),
    "small": Case(setup(dataset=data(2))),
    "poisson": Case(setup(dataset=ORTHOGONAL, batch_size=3, noise_multiplier=0.7)),
    "poisson twice": Case(setup(dataset=ORTHOGONAL, batch_size=3, noise_multiplier=0.1), 2),
    "limited poisson": Case(setup(dataset=ORTHOGONAL, sampling=Poisson(2, max_batch_size=6))),
    "fixed size": Case(setup(dataset=ORTHOGONAL, sampling=FixedSize(3), relation=Relation.REPLACE)),
    "shuffled": Case(setup(dataset=ORTHOGONAL, sampling=ShuffledEpochs(3), relation=Relation.ZERO_OUT), 2),
    "in order": Case(setup(dataset=ORTHOGONAL, sampling=InOrder(2), relation=Relation.ZERO_OUT), 3),
    "balls in bins": Case(setup(dataset=ORTHOGONAL, sampling=BallsInBins(3), relation=Relation.ADD_OR_REMOVE), 2),
    "cyclic": Case(setup(dataset=ORTHOGONAL, sampling=CyclicPoisson(2, 2), relation=Relation.ADD_OR_REMOVE), 2),
    "automatic": Case(setup(clipping=Automatic(4.0))),
    "normalized": Case(setup(clipping=Normalized(4.0))),
    "by layer": Case(setup(model=TwoLayers, dataset=data(canary=(100.0, 50.0)), clipping=Flat(4.0, groups=PerLayer()))),
    "tied": Case(setup(model=Twice)),
    "micro-batches": Case(
        setup(dataset=OPPOSITE, contribution=Microbatches(2), sampling=Full(), relation=Relation.ZERO_OUT)
    ),
    "augmented": Case(setup(contribution=Augmented(2))),
    "users": Case(setup(dataset=_rows_of_users(), unit=Users(USERS, rows_per_unit=2))),
    "groups": Case(setup(dataset=_rows_of_users(), unit=UserGroups(USERS, rows_per_unit=2))),
    "projected": Case(setup(dataset=ORTHOGONAL, contribution=Projected(8), batch_size=3)),
}


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Switch off the comparison with a plain loop at the start of every run: it would refuse some of the bugs."""
    patch.setattr(batch_sums, "check_calls", lambda engine, calls: None)


def _inverted_clip(patch: pytest.MonkeyPatch) -> None:
    unchecked(patch)
    patch.setattr(Flat, "factors", lambda self, norms, targets: torch.clamp(targets / norms, min=1.0))


def _clipped_batch(patch: pytest.MonkeyPatch, *, mean: bool) -> None:
    """Clip the sum or the mean of a batch instead of each example."""
    unchecked(patch)
    real = clipped_sum._sums

    def sums(groups: Any, pieces: Any, clip: Any, chosen: Tensor) -> tuple[list[Tensor], Tensor]:
        raw_sums, norms = real(groups, pieces, replace(clip, targets=[1e9]), chosen)
        limit = clip.targets[0] * (len(chosen) if mean else 1)
        norm = torch.stack([part.square().sum() for part in raw_sums]).sum().sqrt()
        return [part * torch.clamp(limit / norm, max=1.0) for part in raw_sums], norms

    patch.setattr(clipped_sum, "_sums", sums)


def _noise(patch: pytest.MonkeyPatch, change: Callable[[float], float]) -> None:
    real = Updater.__call__
    patch.setattr(
        Updater,
        "__call__",
        lambda self, key, step, totals, grid, divisor, stream=None: real(
            self, key, step, totals, replace(grid, stddev=change(grid.stddev)), divisor, stream
        ),
    )


def _same_noise(patch: pytest.MonkeyPatch) -> None:
    real = Updater.__call__
    patch.setattr(Updater, "__call__", lambda self, key, step, *more: real(self, key, 0, *more))


def _tied_counted_once(patch: pytest.MonkeyPatch) -> None:
    """Compute norms from a weight's first use only, but sum over all uses."""
    unchecked(patch)

    real, clip_factors = clipped_sum.clip_and_sum, clipped_sum._factors

    def clip_and_sum(groups: Any, clip: Any, values: Any, chosen: Tensor, *, rows: int = 1) -> Any:
        pieces = [clipped_sum._pieces(replace(group, uses=group.uses[:1]), values) for group in groups]
        gradients = [gradient for piece in pieces for gradient, _ in piece]
        factors = clip_factors(gradients, [group.group for group in groups], clip, chosen)
        patch.setattr(clipped_sum, "_factors", lambda *arguments: factors)
        return real(groups, clip, values, chosen, rows=rows)

    patch.setattr(engine_module, "clip_and_sum", clip_and_sum)


def _shuffled_as_poisson(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Poisson, "sample", lambda self, *arguments: ShuffledEpochs(self.batch_size).sample(*arguments))


def _divided_by_number(patch: pytest.MonkeyPatch) -> None:
    """Divide sums by the number of sampled examples instead of the expected number."""
    real, update = BatchSums.__call__, Updater.__call__
    counted = [0.0]

    def clipped(self: Any, losses: Any, batch: Any, *arguments: Any, **settings: Any) -> Any:
        counted[0] = float(batch.weights.sum())
        return real(self, losses, batch, *arguments, **settings)

    patch.setattr(BatchSums, "__call__", clipped)
    patch.setattr(
        Updater,
        "__call__",
        lambda self, key, step, totals, grid, divisor, stream=None: update(
            self, key, step, totals, grid, max(counted[0], 1.0), stream
        ),
    )


@dataclass(frozen=True)
class Bug:
    """A bug: the case that reveals it, how many observations reveal it reliably, and how to plant it."""

    case: str
    observations: int
    plant: Callable[[pytest.MonkeyPatch], None]


# A bug that doubles the loss of privacy takes four times as many observations as one that is far worse.
BUGS = {
    "inverted clip": Bug("full", 300, _inverted_clip),
    "clipped sum of a batch": Bug("full", 1200, lambda patch: _clipped_batch(patch, mean=False)),
    "clipped mean of a batch": Bug("poisson", 1200, lambda patch: _clipped_batch(patch, mean=True)),
    "noise without the clip norm": Bug("full", 300, lambda patch: _noise(patch, lambda noise: noise / 4.0)),
    "half the noise": Bug("full", 1200, lambda patch: _noise(patch, lambda noise: noise / 2)),
    "a quarter of the noise on a sample": Bug("poisson", 1200, lambda patch: _noise(patch, lambda noise: noise / 4)),
    "the same noise in all steps": Bug("two steps", 300, _same_noise),
    "micro-batches of sensitivity C": Bug(
        "micro-batches",
        1200,
        lambda patch: patch.setattr(Microbatches, "sensitivity", lambda self, relation: 1.0),
    ),
    "tied weights counted once": Bug("tied", 1200, _tied_counted_once),
    "shuffled, accounted for as Poisson": Bug("poisson twice", 800, _shuffled_as_poisson),
    "divided by the number of examples": Bug("small", 300, _divided_by_number),
}


def simulated(mu: float, observed: Observations, seed: int, count: int = 200) -> Observations:
    """Replace the scores by those of a Gaussian mechanism with this mu."""
    random = np.random.default_rng(seed)
    scores_in, scores_out = random.normal(size=(count, 3)), random.normal(size=(count, 3))
    scores_in[:, 0] += mu
    return replace(observed, scores_in=scores_in, scores_out=scores_out)
