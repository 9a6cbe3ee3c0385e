"""The black-box tester on whole statistics, from rows to answer; twins that skip a step are caught.

Other twins, such as one without a bound on groups, give away a few times epsilon only: test_sensitivity.py catches them
exactly. Over 8 seeds, twins here show at least 2.36 +- 0.04 of epsilon where 0.8 is claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import hush.statistics as hs
from black_box.certainty import refuted
from hush.audit.testers import Batched
from hush.randomness import RandomSource, TestSource
from hush.statistics import NoisePlan, bounding
from hush.statistics.noise import selection as selection

EPSILON, DELTA, SAMPLES = 0.8, 0.01, 600
KEYS = 4  # of which others have three
# unit, group, value: the last unit has many rows, extreme values and a group that no other unit has.
OTHERS = [(unit, unit % 3, 1.0) for unit in range(4)]
ADDED = [(9, key, value) for key in range(KEYS) for value in (5.0, 1e300, float("nan"), float("inf"), 5.0) * 6]


def run(function: Callable[..., Any], *, private: bool = False, **settings: Any) -> Batched:
    """Ask once for many copies of the rows, each with its own units and groups: independent repetitions."""

    def draw(rows: Any, source: RandomSource, count: int) -> Any:
        units, groups, values = (np.array([row[column] for row in rows]) for column in range(3))
        copies = np.arange(count)[:, None]
        result = function(
            np.tile(values, count),
            units=(copies * 10 + units).ravel(),
            groups=(copies * KEYS + groups).ravel(),
            keys=None if private else range(count * KEYS),
            epsilon=EPSILON,
            source=source,
            **settings,
        )
        revealed = np.zeros((2, count * KEYS))
        revealed[:, list(result.keys)] = np.ones(len(result.keys)), result.value
        chosen, values = revealed[0].reshape(count, KEYS), revealed[1].reshape(count, KEYS)
        # Which groups of a unit are kept is drawn for each copy, so the sum over groups is worth a look, too.
        return np.column_stack([chosen, values, values.sum(axis=1)])

    return Batched(draw)


MECHANISMS = {
    "count": (run(hs.count, rows_per_unit=2, groups_per_unit=2), 0.0),
    "sum of totals": (run(hs.sum, total_bounds=(0, 2), groups_per_unit=2), 0.0),
    "mean": (run(hs.mean, bounds=(0, 2), groups_per_unit=1), 0.0),
    "private groups": (run(hs.count, private=True, delta=DELTA, noise=hs.LaplaceNoise(), groups_per_unit=2), DELTA),
    "thresholds": (
        run(hs.count, private=True, delta=DELTA, selection=hs.Selection.laplace_threshold(), groups_per_unit=1),
        DELTA,
    ),
}


def violated(name: str) -> bool:
    mechanism, delta = MECHANISMS[name]
    pair = OTHERS, [*OTHERS, *ADDED]
    return refuted(mechanism, *pair, epsilon=EPSILON, delta=delta, samples=SAMPLES, source=TestSource(name))


@pytest.mark.parametrize("name", MECHANISMS)
def test_no_violation_is_found(name: str) -> None:
    assert not violated(name)


def test_clamped_before_it_is_summed() -> None:
    original = bounding.Bounded.totals

    def clamped(contributions: Any, weights: Any, limits: Any = None) -> Any:
        return original(contributions, weights if limits is None else np.clip(weights, *limits))

    with mock.patch.object(bounding.Bounded, "totals", clamped):
        assert violated("sum of totals")


def test_groups_revealed_without_a_threshold() -> None:
    with mock.patch.object(selection._Probabilities, "choose", lambda plan, num_units, source: num_units > 0):
        assert violated("private groups")


def test_too_little_noise() -> None:
    original = NoisePlan._draw

    def thirtieth(plan: Any, block: Any, scale: float, size: int, source: RandomSource) -> Any:
        return original(plan, block, scale / 30, size, source)

    with mock.patch.object(NoisePlan, "_draw", thirtieth):
        assert violated("count")
