"""Settings of private training to audit, and bugs to plant in its code.

The models are linear, so that an example's gradient is its input: the canary's is whatever its row says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from hush.audit.training import Setup
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
    PrivateTraining,
    Projected,
    ShuffledEpochs,
    UserGroups,
    Users,
)
from hush.training.loop import session
from hush.training.loop.update import Updater
from hush.training.per_example import clipped_sum
from hush.training.per_example import engine as engine_module
from hush.training.plan.contributions import Microbatches as MicrobatchesType

WIDTH = 32


class Probe(nn.Module):
    """Linear: its gradient is the input."""

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
        self.one, self.two = (nn.Linear(WIDTH // 2, 1, bias=False) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        one, two = x.split(WIDTH // 2, 1)
        return (self.one(one) + self.two(two)).squeeze(1)


def loss(model: nn.Module, x: Tensor) -> Tensor:
    return model(x)


def data(rows: int = 6, *, canary: tuple[float, float] = (100.0, 0.0), others: float = -3.0) -> tuple[Tensor, ...]:
    """The canary's gradient lies in the first and the second half; those of the others against it, and aside."""
    x = torch.zeros(rows, WIDTH)
    x[1:, 0], x[1:, 1] = others, 1.0
    x[0, 0], x[0, WIDTH // 2] = canary
    return (x,)


ASIDE = data(others=0.0)  # for samples: who else is in one must not hide the canary
AGAINST = data(others=-30.0)


def setup(*, model: type[nn.Module] = Probe, dataset: tuple[Tensor, ...] | None = None, **settings: Any) -> Setup:
    chosen = {"noise_multiplier": 0.6, "clip_norm": 4.0, **settings}
    if "clipping" in settings:
        del chosen["clip_norm"]
    return Setup(model=model, dataset=data() if dataset is None else dataset, loss=loss, settings=chosen)


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
    "poisson": Case(setup(dataset=ASIDE, batch_size=3, noise_multiplier=0.7)),
    "poisson twice": Case(setup(dataset=ASIDE, batch_size=3, noise_multiplier=0.1), 2),
    "limited poisson": Case(setup(dataset=ASIDE, sampling=Poisson(2, max_batch_size=6))),
    "fixed size": Case(setup(dataset=ASIDE, sampling=FixedSize(3), relation=Relation.REPLACE)),
    "shuffled": Case(setup(dataset=ASIDE, sampling=ShuffledEpochs(3), relation=Relation.ZERO_OUT), 2),
    "in order": Case(setup(dataset=ASIDE, sampling=InOrder(2), relation=Relation.ZERO_OUT), 3),
    "balls in bins": Case(setup(dataset=ASIDE, sampling=BallsInBins(3), relation=Relation.ADD_OR_REMOVE), 2),
    "cyclic": Case(setup(dataset=ASIDE, sampling=CyclicPoisson(2, 2), relation=Relation.ADD_OR_REMOVE), 2),
    "automatic": Case(setup(clipping=Automatic(4.0))),
    "normalized": Case(setup(clipping=Normalized(4.0))),
    "by layer": Case(setup(model=TwoLayers, dataset=data(canary=(100.0, 50.0)), clipping=Flat(4.0, groups=PerLayer()))),
    "tied": Case(setup(model=Twice)),
    "micro-batches": Case(
        setup(dataset=AGAINST, contribution=Microbatches(2), sampling=Full(), relation=Relation.ZERO_OUT)
    ),
    "augmented": Case(setup(contribution=Augmented(2))),
    "users": Case(setup(dataset=_rows_of_users(), unit=Users(USERS, rows_per_unit=2))),
    "groups": Case(setup(dataset=_rows_of_users(), unit=UserGroups(USERS, rows_per_unit=2))),
    "projected": Case(setup(dataset=ASIDE, contribution=Projected(8), batch_size=3)),
}


def unchecked(patch: pytest.MonkeyPatch) -> None:
    """Switch off the comparison with a loop that begins every run: it refuses some of the bugs before they do harm."""
    patch.setattr(session, "check_calls", lambda engine: None)


def _inverted_clip(patch: pytest.MonkeyPatch) -> None:
    unchecked(patch)
    patch.setattr(Flat, "factors", lambda self, norms, targets: torch.clamp(targets / norms, min=1.0))


def _clipped_batch(patch: pytest.MonkeyPatch, *, mean: bool) -> None:
    """The sum of a batch, or its mean, is clipped, and no example by itself."""
    unchecked(patch)
    real = clipped_sum._sums

    def sums(groups: Any, pieces: Any, clip: Any, chosen: Tensor) -> tuple[list[Tensor], Tensor]:
        found, norms = real(groups, pieces, replace(clip, targets=[1e9]), chosen)
        most = clip.targets[0] * (len(chosen) if mean else 1)
        total = torch.stack([each.square().sum() for each in found]).sum().sqrt()
        return [each * torch.clamp(most / total, max=1.0) for each in found], norms

    patch.setattr(clipped_sum, "_sums", sums)


def _noise(patch: pytest.MonkeyPatch, change: Callable[[float], float]) -> None:
    real = Updater.__call__
    patch.setattr(
        Updater,
        "__call__",
        lambda self, key, step, totals, noise, divisor, stream=None: real(
            self, key, step, totals, change(noise), divisor, stream
        ),
    )


def _same_noise(patch: pytest.MonkeyPatch) -> None:
    real = Updater.__call__
    patch.setattr(Updater, "__call__", lambda self, key, step, *more: real(self, key, 0, *more))


def _tied_counted_once(patch: pytest.MonkeyPatch) -> None:
    """Norms are of a weight's first use; the sum has all of them."""
    unchecked(patch)

    real, own = clipped_sum.finish, clipped_sum._factors

    def finish(groups: Any, clip: Any, values: Any, chosen: Tensor, *, rows: int = 1) -> Any:
        pieces = [clipped_sum._pieces(replace(group, uses=group.uses[:1]), values) for group in groups]
        everything = [gradient for piece in pieces for gradient, _ in piece]
        found = own(everything, [group.place for group in groups], clip, chosen)
        patch.setattr(clipped_sum, "_factors", lambda *given: found)
        return real(groups, clip, values, chosen, rows=rows)

    patch.setattr(engine_module, "finish", finish)


def _shuffled_as_poisson(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Poisson, "sample", lambda self, *given: ShuffledEpochs(self.batch_size).sample(*given))


def _divided_by_number(patch: pytest.MonkeyPatch) -> None:
    """Sums are divided by how many took part, not by how many were expected."""
    real, update = PrivateTraining._clipped_sum, Updater.__call__
    counted = [0.0]

    def clipped(self: Any, losses: Any, batch: Any) -> Any:
        counted[0] = float(batch.weights.sum())
        return real(self, losses, batch)

    patch.setattr(PrivateTraining, "_clipped_sum", clipped)
    patch.setattr(
        Updater,
        "__call__",
        lambda self, key, step, totals, noise, divisor, stream=None: update(
            self, key, step, totals, noise, max(counted[0], 1.0), stream
        ),
    )


@dataclass(frozen=True)
class Bug:
    """Where to plant it, how many observations show it for sure, and how it is planted."""

    case: str
    observations: int
    plant: Callable[[pytest.MonkeyPatch], None]


# What is twice as far from private as claimed takes four times as many observations as what is far worse.
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
        lambda patch: patch.setattr(MicrobatchesType, "sensitivity", lambda self, relation: 1.0),
    ),
    "tied weights counted once": Bug("tied", 1200, _tied_counted_once),
    "shuffled, accounted for as Poisson": Bug("poisson twice", 800, _shuffled_as_poisson),
    "divided by the number of examples": Bug("small", 300, _divided_by_number),
}
