"""ROC curves: counts, ties, hull, statistics, and the bootstrap's coverage."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import mannwhitneyu

from hush.audit import Roc, bootstrap, roc
from hush.errors import InvalidArgument

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=30)


@given(SCORES, SCORES)
def test_counts_at_every_threshold(inside: list[float], outside: list[float]) -> None:
    curve = roc(inside, outside)
    assert curve.tp.tolist() == [0, *(sum(x >= t for x in inside) for t in curve.thresholds[1:])]
    assert curve.fp.tolist() == [0, *(sum(x >= t for x in outside) for t in curve.thresholds[1:])]
    assert sorted(curve.thresholds[1:].tolist()) == sorted({*inside, *outside})  # ties are one vertex
    assert (curve.tp[-1], curve.fp[-1]) == (len(inside), len(outside))


@given(SCORES, SCORES)
def test_the_area_is_the_mann_whitney_statistic(inside: list[float], outside: list[float]) -> None:
    pairs = [(x > y) + 0.5 * (x == y) for x in inside for y in outside]
    assert roc(inside, outside).auc == pytest.approx(np.mean(pairs))


def test_the_area_of_a_large_sample() -> None:
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(1, 1, 3000), rng.normal(0, 1, 2000)
    curve = roc(inside, outside)
    assert curve.auc == pytest.approx(mannwhitneyu(inside, outside).statistic / 6e6)
    assert curve.advantage == pytest.approx(2 * ndtr(0.5) - 1, abs=0.12)  # standard deviation 0.015


@given(SCORES, SCORES, st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]))
def test_tpr_at_an_fpr_is_not_interpolated(inside: list[float], outside: list[float], fpr: float) -> None:
    curve = roc(inside, outside)
    reached = [tpr for tpr, rate in zip(curve.tpr, curve.fpr, strict=True) if rate <= fpr]
    assert curve.tpr_at(fpr) == max(reached)


@given(SCORES, SCORES)
def test_the_hull_is_concave_and_above(inside: list[float], outside: list[float]) -> None:
    curve = roc(inside, outside)
    hull = curve.hull()
    assert (hull.tp[0], hull.fp[0], hull.tp[-1], hull.fp[-1]) == (0, 0, len(inside), len(outside))
    turns = np.diff(hull.tp)[:-1] * np.diff(hull.fp)[1:] - np.diff(hull.tp)[1:] * np.diff(hull.fp)[:-1]
    assert np.all(turns > 0)
    # Every point is on or under the hull: by its upper value where it is vertical.
    for x, y in zip(curve.fp, curve.tp, strict=True):
        heights = [
            hull.tp[i] + (hull.tp[i + 1] - hull.tp[i]) * (x - hull.fp[i]) / (hull.fp[i + 1] - hull.fp[i])
            if hull.fp[i + 1] > hull.fp[i]
            else float(hull.tp[i + 1])
            for i in range(hull.tp.size - 1)
            if hull.fp[i] <= x <= hull.fp[i + 1]
        ]
        assert y <= max(heights) + 1e-9


def test_infinite_scores_are_allowed() -> None:
    curve = roc([math.inf, 0.0], [-math.inf, 0.0])
    assert curve.tp.tolist() == [0, 1, 2, 2]
    assert curve.fp.tolist() == [0, 0, 1, 2]


def auc(curve: Roc) -> float:
    return curve.auc


def test_bootstrap_intervals_cover() -> None:
    """AUC of unit Gaussians one apart is Phi(1 / sqrt 2); TPR at FPR .1 is Phi(1 - 1.2816)."""
    rng = np.random.default_rng(8)
    area, rate = float(ndtr(math.sqrt(0.5))), float(ndtr(1 - 1.2815515655446004))
    truths: list[tuple[Callable[[Roc], float], float]] = [(auc, area), (lambda curve: curve.tpr_at(0.1), rate)]
    for statistic, truth in truths:
        covered = 0
        for seed in range(60):
            inside, outside = rng.normal(1, 1, 200), rng.normal(0, 1, 200)
            interval = bootstrap(inside, outside, statistic, num_resamples=150, rng=seed, confidence=0.9)
            assert interval.low <= interval.high
            covered += interval.low <= truth <= interval.high
        # Of 240, 88 % and 90 % did. If 85 % do, 33 or fewer of 60 have a chance of 3e-8.
        assert covered > 33


def test_bootstrap_reports_the_observed_value_and_follows_its_seed() -> None:
    rng = np.random.default_rng(9)
    inside, outside = rng.normal(1, 1, 200).round(1), rng.normal(0, 1, 150).round(1)
    curve = roc(inside, outside)
    statistics: list[Callable[[Roc], float]] = [auc, lambda curve: curve.tpr_at(0.05), lambda curve: curve.advantage]
    for statistic in statistics:
        interval = bootstrap(inside, outside, statistic, num_resamples=100)
        assert interval.value == statistic(curve)
        assert interval == bootstrap(inside, outside, statistic, num_resamples=100)
        assert interval != bootstrap(inside, outside, statistic, num_resamples=100, rng=1)
        assert interval == bootstrap(inside, outside, statistic, num_resamples=100, rng=np.random.default_rng(0))


def test_bootstrap_resamples_with_replacement() -> None:
    """The spread of the AUC is that of its known variance, not of a permutation's."""
    rng = np.random.default_rng(10)
    inside, outside = rng.normal(1, 1, 300), rng.normal(0, 1, 300)
    interval = bootstrap(inside, outside, auc, num_resamples=500, confidence=0.6827)
    area = interval.value
    first, second = area / (2 - area), 2 * area**2 / (1 + area)  # Hanley & McNeil 1982
    variance = (area * (1 - area) + 299 * (first - area**2) + 299 * (second - area**2)) / 300**2
    # Over 20 seeds 2.6 % narrower, with a standard deviation of 1.3 %.
    assert (interval.high - interval.low) / 2 == pytest.approx(math.sqrt(variance), rel=0.2)


def test_invalid_arguments_are_refused() -> None:
    for call in (
        lambda: roc([], [1.0]),
        lambda: roc([math.nan], [1.0]),
        lambda: roc([1.0], [0.0]).tpr_at(math.nan),
        lambda: bootstrap([1.0], [0.0], lambda curve: curve.tpr_at(2.0)),
        lambda: bootstrap([1.0], [0.0], "auc"),  # type: ignore[arg-type]
        lambda: bootstrap([1.0], [0.0], auc, confidence=1.0),
        lambda: bootstrap([1.0], [0.0], auc, num_resamples=1),
    ):
        with pytest.raises(InvalidArgument):
            call()
