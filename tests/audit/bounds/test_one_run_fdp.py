"""One run against the Gaussian trade-off curve: reference values, monotonicity, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from hush.audit import OneRun, OneRunFDP, audit_scores, roc
from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.one_run_fdp import contradicts, one_run_fdp_mu
from hush.errors import InvalidArgument


def normal_scores(shift: float, size: int) -> Any:
    return norm.ppf((np.arange(size) + 0.5) / size) + shift


@pytest.mark.parametrize(("shift", "epsilon"), [(1, 2.164749), (2, 4.7218075), (4, 9.133752)])
def test_reference_values_over_a_hull(shift: float, epsilon: float) -> None:
    """jax-privacy's own test, whose correction is by the hull's vertices; its tolerance is a part in 1e5."""
    hull = roc(normal_scores(shift, 10_000), normal_scores(0, 10_000)).hull()
    error, mu = 0.05 / hull.tp.size, 0.0
    for tp, fp in zip(hull.tp.tolist(), hull.fp.tolist(), strict=True):
        if tp and contradicts(20_000, tp + fp, tp, error, mu):  # the others show less
            mu = one_run_fdp_mu(20_000, tp + fp, tp, significance=error)
    assert gdp_epsilon(mu, 1e-6) == pytest.approx(epsilon, abs=2e-6)


def test_the_whole_curve_shows_more_than_one_point() -> None:
    inside, outside = normal_scores(2, 2000), normal_scores(0, 2000)
    point, curve = (
        audit_scores(inside, outside, delta=1e-5, method=kind(num_guesses=200)) for kind in (OneRun, OneRunFDP)
    )
    assert curve.epsilon_lower > 1.4 * point.epsilon_lower
    assert curve.mu_lower is not None
    assert 1 < curve.mu_lower < 2
    assert curve.epsilon_lower <= curve.epsilon


def test_more_correct_guesses_show_more() -> None:
    bounds = [one_run_fdp_mu(500, 100, correct, significance=0.05) for correct in range(0, 101, 5)]
    assert bounds == sorted(bounds)
    assert bounds[0] == 0
    assert bounds[-1] > 1


def test_the_bound_is_the_largest_mu_that_is_contradicted() -> None:
    mu = one_run_fdp_mu(1000, 100, 95, significance=0.05)
    assert contradicts(1000, 100, 95, 0.05, mu)
    assert not contradicts(1000, 100, 95, 0.05, mu * (1 + 1e-8))


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument):
        one_run_fdp_mu(*counts, significance=0.05)


@pytest.mark.parametrize("significance", [0.0, 1.0, float("nan")])
def test_significance_is_a_probability(significance: float) -> None:
    with pytest.raises(InvalidArgument):
        one_run_fdp_mu(10, 5, 5, significance=significance)
