"""Scores of outputs: value ratios, bins and log-odds point to the likelier input."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.audit.testers.scores import Bins, all_scores, bin_edges, log_odds, value_ratio, varying


def column(*values: float) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array(values, dtype=np.float64)[:, None]


def test_columns_with_one_value_are_left_out() -> None:
    first, second = np.array([[1.0, 2.0, 5.0]]), np.array([[1.0, 3.0, 5.0]])
    assert varying(first, second) == [1]
    missing = np.array([[math.nan, 2.0, 5.0]])
    assert varying(missing, missing) == []
    assert varying(first, missing) == [0]


def test_value_ratios_count_exact_values() -> None:
    first, second = column(*[1.0] * 30, *[2.0] * 10, 3.0), column(*[1.0] * 10, *[2.0] * 30, 3.0)
    score = value_ratio(first, second)
    scores = score(column(1.0, 2.0, 3.0, 4.0))
    assert scores[0] == pytest.approx(math.log(30.5 / 10.5))
    assert scores[1] == pytest.approx(-scores[0])
    assert np.isnan(scores[2:]).all()  # too rare, or never seen


def test_value_ratios_of_rows_compare_whole_rows() -> None:
    first = np.array([[0.0, math.nan]] * 20 + [[1.0, 0.0]] * 20)
    second = np.array([[0.0, math.nan]] * 20 + [[1.0, 1.0]] * 20)
    scores = value_ratio(first, second)(np.array([[0.0, math.nan], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]))
    assert scores[0] == pytest.approx(0.0)
    assert scores[1] > 3
    assert scores[2] < -3
    assert math.isnan(scores[3])


def test_bins_hold_equally_many_values() -> None:
    assert bin_edges(np.arange(100.0), 4).tolist() == [24.0, 49.0, 74.0]
    assert bin_edges(np.array([1.0] * 10), 4).tolist() == [1.0]
    assert bin_edges(np.array([math.nan])).size == 0


def test_bins_have_one_more_for_missing_values() -> None:
    rng = np.random.default_rng(0)
    first, second = rng.normal(1, 1, (1000, 1)), rng.normal(0, 1, (1000, 1))
    first[:100] = math.nan
    bins = Bins(lambda rows: rows[:, 0], first, second, bins=4)
    assert bins.count(first).sum() == 1000
    assert bins.count(first)[-1] == 100
    assert np.all(np.diff(bins.ratios[:-1]) > 0)  # larger outputs point to the first input
    assert bins.ratio(column(math.nan))[0] == bins.ratios[-1]
    assert math.isnan(bins.known_ratio(column(math.nan))[0])
    assert bins.known_ratio(column(5.0)) == bins.ratio(column(5.0)) == bins.ratios[3]


@pytest.mark.parametrize("products", [False, True])
def test_log_odds_follow_the_likelihood_ratio(products: bool) -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(1, 1, (5000, 1)), rng.normal(0, 1, (5000, 1))
    score = log_odds(first, second, products=products)
    points = column(-1.0, 0.5, 2.0)
    # The log-likelihood ratio of unit Gaussians one apart is x - 1/2. Standard deviations below 0.1.
    assert score(points) == pytest.approx(np.array([-1.5, 0.0, 1.5]), abs=0.6)
    assert np.array_equal(score(points), score(points[::-1])[::-1])


def test_log_odds_use_products_where_no_line_separates() -> None:
    rng = np.random.default_rng(2)
    signs = rng.choice([-1.0, 1.0], size=(4000, 2))
    agree = signs[:, 0] == signs[:, 1]
    score = log_odds(signs[agree], signs[~agree], products=True)
    scores = score(np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]))
    assert scores[0] > 2
    assert scores[1] > 2
    assert scores[2] < -2


def test_the_search_tries_conditions_on_columns_with_few_values() -> None:
    rng = np.random.default_rng(3)
    first = np.column_stack([rng.integers(0, 2, 100), rng.normal(size=100)]).astype(np.float64)
    second = np.column_stack([rng.integers(0, 2, 100), rng.normal(size=100)]).astype(np.float64)
    scores = dict(all_scores(first, second))
    assert "output[1] where output[0] = 1" in scores
    assert "classifier" in scores
    conditional = scores["output[1] where output[0] = 1"](first)
    assert np.array_equal(np.isnan(conditional), first[:, 0] != 1)
