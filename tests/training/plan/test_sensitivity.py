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
    Banded,
    BufferedToeplitz,
    Curve,
    Flat,
    Global,
    Microbatches,
    Normalized,
    PerExample,
    PerLayer,
    Projected,
    Schedule,
    UserGroups,
    Users,
)
from hush.training.loop import batch_sums
from training.sums import COUNT, IDS, SAMPLINGS, data, run, sums

CONTRIBUTIONS = [PerExample(), Augmented(3), Microbatches(4), Projected(4)]


CLIPPINGS = [
    Flat(0.5),
    Flat(0.5, PerLayer()),
    Flat(1e6),
    Automatic(0.5),
    Normalized(0.5),
    Global(0.5, threshold=3.0),
    Adaptive(0.5),
    Adaptive(0.5, PerLayer()),
]


UNITS = ["example", "users", "groups", "windows"]


MORE: list[dict[str, Any]] = [
    {},
    {
        "schedule": Schedule(
            noise_multiplier=Curve.linear(1.0, 2.0, num_steps=3), clip_norm=Curve.exponential(1.0, 0.5, num_steps=3)
        )
    },
    {"schedule": Schedule(batch_size=Curve.piecewise({0: 1.0, 1: 2.0}))},
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
    # All pairs of settings; of larger combinations, those that change a contribution.
    if (clipping == CLIPPINGS[0]) + (kind == "example") + (more == {}) >= 2
]


@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=repr)
def test_one_unit_moves_a_sum_by_at_most_its_sensitivity(
    sampling: Any, stride: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Default settings run in several physical batches. The checks of the first batch have tests of their own.

    The quick variant takes every third combination, others for each sampler.
    """
    for check in ("check_batch", "check_calls"):
        monkeypatch.setattr(batch_sums, check, lambda *_, **__: None)
    worked = refused = 0
    unnamed: list[str] = []
    of_sampling = [combination[1:] for combination in COMBINATIONS if combination[0] is sampling]
    for contribution, clipping, kind, more in of_sampling[SAMPLINGS.index(sampling) % stride :: stride]:
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
                compare_sums(settings, relation)
                worked += 1
            except Unsupported as error:
                names = [type(part).__name__ for part in (sampling, contribution, clipping, *more.values())]
                words = [*names, "UserGroups", "users", "schedule", "relation", "group", "gaussian", "noise"]
                unnamed += [] if any(word in str(error) for word in words) else [str(error)]
                refused += 1
    assert not unnamed
    assert worked > 10 / stride
    assert refused > 10 / stride


def compare_sums(settings: dict[str, Any], relation: Relation) -> None:
    """Change all data of example 20's unit, and compare the sums of all steps."""
    x, y = data()
    other = x.clone()
    changed = np.flatnonzero(IDS[20] == IDS) if settings["unit"] is not None else np.array([20])
    if getattr(settings["unit"], "window", None) is not None:
        changed = np.arange(20, 24)
    generator = torch.Generator().manual_seed(4)
    other[changed] = 50.0 * torch.randn(len(changed), 5, generator=generator) if relation is Relation.REPLACE else 0.0
    before, after = run(x, y, **settings), run(other, y, **settings)
    plan = before.plan
    PldAccountant(relation=relation, unit=plan.unit).compose(plan.event())  # it can be accounted for
    group = plan.group_size
    taken = [batch.indices[batch.real] for step in range(plan.num_steps) for batch in before._batches(step)]
    moved = False
    for step, ((total, noise, divisor), (other_total, _, _)) in enumerate(zip(sums(before), sums(after), strict=True)):
        clip_norm = plan.clipping.clip_norm * plan.clip_factor(step)
        if isinstance(plan.clipping, Adaptive):
            clip_norm = max(clip_norm, 1.0)  # it has moved; test_clipping looks closer
        allowed = clip_norm * plan.contribution.sensitivity(relation) * (2 if relation is Relation.REPLACE else 1)
        if not isinstance(plan.contribution, Projected):
            assert float((total - other_total).norm()) <= allowed * group * (1 + 1e-4)
        moved = moved or not torch.equal(total, other_total)
        if not isinstance(plan.clipping, Adaptive):
            expected = plan.setting(step)[0] * clip_norm * plan.contribution.sensitivity(relation)
            assert noise == pytest.approx(expected)
        assert divisor == plan.setting(step)[1] / plan.contribution.examples
    assert moved == bool(np.isin(changed, np.concatenate(taken)).any())
