"""Slices of an attack by group, and bounds on its advantage."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import HushError, InvalidArgument
from hush.lab.slicing import advantage_bounds, by_correctness, slices


def test_slices_find_a_minority_that_the_average_hides() -> None:
    rng = np.random.default_rng(6)
    member, groups = rng.random(6000) < 0.5, np.where(np.arange(6000) < 150, "few", "many")
    scores = rng.normal(size=6000) + np.where(groups == "few", 3.0, 0.0) * member
    parts = slices(scores, member, groups, fpr=0.1, num_resamples=200)
    assert parts["few"].auc is not None
    assert parts["many"].auc is not None
    assert parts["few"].tpr is not None
    # Over 15 seeds 0.959, 0.958 and 0.500, with standard deviations of 0.017, 0.023 and 0.008.
    assert parts["few"].auc.low > 0.8
    assert parts["few"].tpr.value > 0.75
    assert parts["many"].auc.value == pytest.approx(0.5, abs=0.06)
    assert parts["few"].num_in + parts["few"].num_out == 150
    without_members = slices(scores, groups == "many", groups, num_resamples=10)
    assert without_members["few"].auc is None
    assert by_correctness([1, 2], [1, 3]).tolist() == ["right", "wrong"]


def test_invalid_slices_are_refused() -> None:
    scores, member, groups = np.zeros(6), np.arange(6) < 3, np.repeat(["a", "b"], 3)
    with pytest.raises(InvalidArgument):
        slices(scores, member, groups[:5])
    with pytest.raises(InvalidArgument):
        slices(np.full(6, np.nan), member, groups)
    with pytest.raises(InvalidArgument):
        by_correctness([1, 2], [1])


def test_bounds_on_the_advantage() -> None:
    for epsilon, tight in ((0.1, 0.05), (0.5, 0.2449), (1, 0.4621), (2, 0.7616), (4, 0.964)):
        bounds = advantage_bounds(epsilon)
        assert round(bounds.tight, 4) == tight
        assert bounds.yeom == pytest.approx(math.expm1(epsilon))
        assert bounds.tight < bounds.yeom
    assert advantage_bounds(1.0, 0.1).tight == pytest.approx((math.e - 1 + 0.2) / (math.e + 1))
    assert advantage_bounds(1000.0).yeom == math.inf
    with pytest.raises(HushError):
        advantage_bounds(float("nan"))
