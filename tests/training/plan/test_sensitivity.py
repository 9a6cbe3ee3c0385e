"""All combinations of sampling, contribution, clipping, unit and schedule: how far one unit moves a sum."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from hush.accounting import PldAccountant
from hush.errors import Unsupported
from hush.guarantee import Relation
from hush.training import (
    Adaptive,
    Augmented,
    Automatic,
    BallsInBins,
    Banded,
    BufferedToeplitz,
    CyclicPoisson,
    ExponentialCurve,
    FixedSize,
    Flat,
    Full,
    Global,
    InOrder,
    LinearCurve,
    Microbatches,
    Normalized,
    PerExample,
    PerLayer,
    PiecewiseCurve,
    Poisson,
    Projected,
    Schedule,
    ShuffledEpochs,
    UserGroups,
    Users,
)
from hush.training.loop import session
from training.sums import COUNT, IDS, data, run, sums


SAMPLINGS = [
    Poisson(8),
    Poisson(8, max_batch_size=36),
    Full(),
    FixedSize(8),
    ShuffledEpochs(8),
    InOrder(8),
    BallsInBins(8),
    CyclicPoisson(3, parts=3),
]


CONTRIBUTIONS = [PerExample(), Augmented(3), Microbatches(4), Projected(4)]


CLIPPINGS = [
    Flat(0.5),
    Flat(0.5, PerLayer()),
    Flat(1e6),
    Automatic(0.5),
    Normalized(0.5),
    Global(0.5, threshold=3.0),
    Adaptive(0.5),
]


UNITS = ["example", "users", "groups", "windows"]


MORE: list[dict[str, Any]] = [
    {},
    {"schedule": Schedule(noise_multiplier=LinearCurve(1.0, 2.0, 3), clip_norm=ExponentialCurve(1.0, 0.5, 3))},
    {"schedule": Schedule(batch_size=PiecewiseCurve({0: 1.0, 1: 2.0}))},
    {"correlated": Banded(bands=3)},
    {"correlated": BufferedToeplitz(buffers=2)},
]


def unit(kind: str) -> Any:
    return {
        "example": None,
        "users": Users(IDS, rows_per_unit=4),
        "groups": UserGroups(IDS, rows_per_unit=4),
        "windows": Users(IDS // 2, 4, np.arange(COUNT) * 900.0, timedelta(hours=1)),
    }[kind]


COMBINATIONS = [
    (sampling, contribution, clipping, kind, more)
    for sampling, contribution, clipping, kind, more in product(SAMPLINGS, CONTRIBUTIONS, CLIPPINGS, UNITS, MORE)
    # all pairs; of larger combinations, those of the ways that change what a contribution is
    if (clipping == CLIPPINGS[0]) + (kind == "example") + (more == {}) >= 2
]


@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_one_unit_moves_a_sum_by_what_the_event_says(sampling: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches come in pieces where nothing else is unusual; and what the first one is checked for has its own tests."""
    for check in ("check_batch", "check_calls"):
        monkeypatch.setattr(session, check, lambda *_: None)
    worked = refused = 0
    unnamed: list[str] = []
    for one, contribution, clipping, kind, more in COMBINATIONS:
        if one is not sampling:
            continue
        for relation in Relation:
            settings = {
                "sampling": sampling,
                "contribution": contribution,
                "clipping": clipping,
                "unit": unit(kind),
                "relation": relation,
                "physical_batch_size": 24 if clipping == CLIPPINGS[0] and not more else 200,
            } | more
            try:
                move(settings, relation)
                worked += 1
            except Unsupported as error:
                names = [type(each).__name__ for each in (sampling, contribution, clipping, *more.values())]
                words = [*names, "UserGroups", "users", "schedule", "relation", "group", "gaussian", "noise"]
                unnamed += [] if any(word in str(error) for word in words) else [str(error)]
                refused += 1
    assert not unnamed
    assert worked > 10
    assert refused > 10


def move(settings: dict[str, Any], relation: Relation) -> None:
    """Change everything of the unit of example 20, and compare sums."""
    x, y = data()
    other = x.clone()
    own = np.flatnonzero(IDS[20] == IDS) if settings["unit"] is not None else [20]
    if getattr(settings["unit"], "window", None) is not None:
        own = np.arange(20, 24)
    chance = torch.Generator().manual_seed(4)
    other[own] = 50.0 * torch.randn(len(own), 5, generator=chance) if relation is Relation.REPLACE else 0.0
    before, after = run(x, y, **settings), run(other, y, **settings)
    plan = before.plan
    PldAccountant(relation=relation, unit=plan.unit).compose(plan.event())  # it can be accounted for
    group = plan.group_size
    taken = [batch.indices[batch.real] for step in range(plan.num_steps) for batch in before._batches(step)]
    moved = False
    for step, ((one, noise, divisor), (two, _, _)) in enumerate(zip(sums(before), sums(after), strict=True)):
        clip_norm = plan.clipping.clip_norm * plan.clip_factor(step)
        if isinstance(plan.clipping, Adaptive):
            clip_norm = max(clip_norm, 1.0)  # it has moved; its own test looks closer
        allowed = clip_norm * plan.contribution.sensitivity(relation) * (2 if relation is Relation.REPLACE else 1)
        if not isinstance(plan.contribution, Projected):
            assert float((one - two).norm()) <= allowed * group * (1 + 1e-4)
        moved = moved or not torch.equal(one, two)
        if not isinstance(plan.clipping, Adaptive):
            expected = plan.setting(step)[0] * clip_norm * plan.contribution.sensitivity(relation)
            assert noise == pytest.approx(expected)
        assert divisor == plan.setting(step)[1] / plan.contribution.examples
    assert moved == bool(np.isin(own, np.concatenate(taken)).any())
