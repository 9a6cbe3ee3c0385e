"""Clopper-Pearson and Gaussian bounds from scores: reference values, extremes and tightness."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.audit import ClopperPearson, Explicit, GaussianDP, audit_scores
from hush.audit.bounds.method import Level
from hush.audit.bounds.rates import _rates_at, _rates_everywhere
from hush.audit.bounds.sample import Sample

SCORES = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=40)


def test_a_gaussian_audit_shows_more_than_clopper_pearson() -> None:
    inside, outside = np.repeat([1.0, 0.0], [691, 309]), np.repeat([1.0, 0.0], [309, 691])
    gaussian = audit_scores(inside, outside, delta=1e-5, method=GaussianDP(), threshold=Explicit(0.5))
    assert gaussian.mu_lower == pytest.approx(0.83218, abs=5e-6)
    assert gaussian.epsilon_lower == pytest.approx(3.5431, abs=5e-5)
    assert any("Gaussian" in sentence for sentence in gaussian.assumptions)
    exact = audit_scores(inside, outside, delta=1e-5, threshold=Explicit(0.5))
    assert exact.epsilon_lower == pytest.approx(0.6692, abs=5e-5)


def test_a_gaussian_audit_is_tight() -> None:
    # False alarms: 1e-7 above, and below 0.8 ten standard deviations, of 0.01 at 0.90.
    rng = np.random.default_rng(6)
    inside, outside = rng.normal(1.0, 1.0, 20_000), rng.normal(0.0, 1.0, 20_000)
    result = audit_scores(
        inside, outside, delta=1e-5, confidence=1 - 1e-7, method=GaussianDP(), threshold=Explicit(0.5)
    )
    assert result.mu_lower is not None
    assert 0.8 < result.mu_lower < 1.0


@given(SCORES, SCORES)
def test_simultaneous_bounds_are_weaker_than_those_at_one_threshold(inside: list[float], outside: list[float]) -> None:
    sample, thresholds = Sample.of(inside, outside), np.arange(-3.0, 4.0)
    single, simultaneous = (rates(sample, thresholds, 0.05) for rates in (_rates_at, _rates_everywhere))
    assert np.all(simultaneous.tpr_lower <= single.tpr_lower + 1e-12)
    assert np.all(simultaneous.fpr_upper >= single.fpr_upper - 1e-12)
    assert np.array_equal(single.tp, simultaneous.tp)


@pytest.mark.parametrize(("tpr", "fpr", "mu"), [(0.0, 0.0, 0.0), (1.0, 1.0, 0.0), (1.0, 0.5, math.inf)])
def test_extreme_rates_have_a_strength(tpr: float, fpr: float, mu: float) -> None:
    method, level = GaussianDP(), Level(0.05, 1e-5)
    strength = float(method.strength(np.array([tpr]), np.array([fpr]), level)[0])
    assert strength == mu
    assert method.epsilon(strength, level) == (math.inf if mu == math.inf else 0.0)


def test_the_best_threshold_has_the_reported_counts() -> None:
    sample = Sample.of([5.0, 4.0, 3.0, 0.0] * 20, [2.0, 1.0, 0.5, 0.0] * 20)
    bound = ClopperPearson().bound_at_best(sample, Level(0.05, 0.0))
    tp, fp = sample.counts(float(bound.details["threshold"]))
    assert (bound.details["tp"], bound.details["fp"]) == (tp, fp) == (60, 0)
    assert bound.point == math.inf
