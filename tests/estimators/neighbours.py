"""The effect of one row on a release, measured without noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hush.estimators.linear import regression
from hush.estimators.moments import discriminant, gram, second_moments
from hush.statistics import NoisePlan

EXTREMES = [0.0, 1.0, -1.0, 0.7, 1e9, -1e300, math.inf, math.nan, 1e-300]


def gaussian_releases(monkeypatch: Any, fit: Any) -> list[tuple[Any, float]]:
    """Run a fit without noise. Return the totals, in units, and the standard deviation of the noise of each."""
    releases: list[tuple[Any, float]] = []

    def exact(totals: Any, stddev: float, source: Any) -> Any:
        releases.append((totals / gram.UNIT, stddev))
        return totals / gram.UNIT

    with monkeypatch.context() as patched:
        for module in (gram, regression, second_moments, discriminant):
            patched.setattr(module, "add_noise", exact)
        fit()
    return releases


def gaussian_distance(before: list[tuple[Any, float]], after: list[tuple[Any, float]]) -> float:
    """Return the distance of two releases in units of their noise. It should be at most 1 / noise_multiplier."""
    assert [stddev for _, stddev in before] == [stddev for _, stddev in after]
    squares = [np.sum(((a - b) / stddev) ** 2) for (a, stddev), (b, _) in zip(before, after, strict=True)]
    return math.sqrt(sum(squares))


def planned_releases(monkeypatch: Any, fit: Any) -> list[tuple[NoisePlan, Any]]:
    """Run a fit without noise. Return its noise plans and exact totals."""
    releases: list[tuple[NoisePlan, Any]] = []

    def exact(plan: NoisePlan, totals: Any, source: Any) -> Any:
        releases.append((plan, totals))
        return totals.copy()

    with monkeypatch.context() as patched:
        patched.setattr(NoisePlan, "release", exact)
        fit()
    return releases


def check_blocks(plan: NoisePlan, before: Any, after: Any) -> None:
    """Check that totals of neighbours differ by at most the sensitivity of each block."""
    first = 0
    for block in plan.blocks:
        change = (before - after)[:, first : first + block.columns].astype(np.float64)
        assert np.abs(change).sum() <= block.l1
        assert np.sqrt((change**2).sum()) <= block.l2 * (1 + 1e-12)
        first += block.columns
