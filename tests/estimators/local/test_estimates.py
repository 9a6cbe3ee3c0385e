"""Estimates from reports: unbiased within their intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.estimators import LocalRandomizer
from hush.mechanisms import UnaryEncoding
from hush.randomness import TestSource

MIXED = {"bounds": (0, 10), "categories": {1: ["a", "b", "c"]}}


def test_estimates_are_unbiased_within_their_intervals():
    rng, source = np.random.default_rng(0), TestSource(5)
    shares, errors, held = np.array([0.6, 0.3, 0.1]), [], []
    for _ in range(200):
        rows = np.empty((300, 2), dtype=object)
        rows[:, 0], rows[:, 1] = rng.uniform(2, 6, 300), rng.choice(["a", "b", "c"], 300, p=shares)
        randomizer = LocalRandomizer(epsilon=4.0, sampled=2, source=source, **MIXED)
        reports = randomizer.fit_transform(rows)
        frequencies, mean = (
            randomizer.frequencies(reports, 1, confidence=0.5),
            randomizer.means(reports, confidence=0.5),
        )
        errors.append([*(frequencies.value - shares), mean.value[0] - 4.0])
        held.append([*((frequencies.low <= shares) & (shares <= frequencies.high)), mean.low[0] <= 4.0 <= mean.high[0]])
        assert frequencies.keys == ("a", "b", "c")
        assert math.isnan(mean.value[1])
    scores = np.mean(errors, axis=0) / (np.std(errors, axis=0) / math.sqrt(len(errors)))
    # False alarms: four means, each beyond 6 of Student's with 199 degrees of freedom by 1e-8; four counts of intervals
    # that hold, P(|Binomial(200, 0.5) - 100| > 42) = 1e-9. Intervals of twice the width hold 164 times.
    assert np.abs(scores).max() < 6
    assert np.abs(np.sum(held, axis=0) - 100).max() <= 42


def test_shares_reported_as_bits():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 40, (20_000, 1)) // 20 * 7
    randomizer = LocalRandomizer(epsilon=1.0, bounds=None, categories={0: range(40)}, source=TestSource(1)).fit(rows)
    assert isinstance(randomizer.channels_[0], UnaryEncoding)
    frequencies = randomizer.frequencies(randomizer.transform(rows), 0, confidence=1 - 1e-8)
    # False alarms: 1e-8, and of 38 normal ones beyond 6.5 standard deviations 3e-9.
    assert frequencies[7].low < 0.5 < frequencies[7].high
    assert np.abs(np.delete(frequencies.value, [0, 7])).max() < 6.5 * frequencies.noise_scale


def test_second_moments():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 40_000)
    rows = np.stack([x, 10 - x / 2], axis=1)
    randomizer = LocalRandomizer(epsilon=6.0, bounds=(0, 10), sampled=2, source=TestSource(1))
    moments = randomizer.second_moments(randomizer.fit_transform(rows))
    # Over 24 seeds +- 0.14 at most: 6.6 standard deviations.
    assert moments == pytest.approx(rows.T @ rows / len(rows), abs=0.9)
    reports = randomizer.transform(rows)
    assert abs(np.mean(reports[:, 0] ** 2) - np.mean(x**2)) > 3  # the correction is not small


def test_missing_values_as_a_category():
    rows = np.array([["a"]] * 3000 + [[None]] * 1000 + [["?"]] * 1000, dtype=object)
    for known, expected in (["a", "b"], [0.8, 0.2]), (["a", "b", None], [0.6, 0.0, 0.4]):
        randomizer = LocalRandomizer(epsilon=3.0, bounds=None, categories={0: known}, source=TestSource(1))
        frequencies = randomizer.frequencies(randomizer.fit_transform(rows), 0)
        # Standard errors are 0.005, so this is 7.5 of them.
        assert frequencies.value == pytest.approx(expected, abs=0.04)


def test_a_column_without_reports():
    randomizer = LocalRandomizer(epsilon=1.0, **MIXED).fit([[1, "a"]])
    reports = np.array([[math.nan, math.nan]])
    frequencies = randomizer.frequencies(reports, 1)
    assert np.isnan(frequencies.value).all()
    assert (frequencies.low.tolist(), frequencies.high.tolist()) == ([0] * 3, [1] * 3)
    assert np.isnan(randomizer.means(reports).value).all()
    assert np.isnan(randomizer.second_moments(reports)).all()


def test_wrong_columns_and_confidences():
    randomizer = LocalRandomizer(epsilon=1.0, **MIXED).fit([[1, "a"]])
    reports = np.zeros((3, 2))
    for column in (0, 2, -1, "x"):
        with pytest.raises(InvalidArgument, match="column"):
            randomizer.frequencies(reports, column)
    with pytest.raises(InvalidArgument, match="reports"):
        randomizer.means(np.zeros((3, 3)))
    with pytest.raises(InvalidArgument, match="confidence"):
        randomizer.means(reports, confidence=1.0)


WEIGHTS = np.array([1.0, -0.5])


def line(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    return x, x @ WEIGHTS + 0.25 + rng.uniform(-0.2, 0.2, n)


def test_regression_from_perturbed_rows():
    """The noise of the features is subtracted from X'X. Without this correction, coefficients shrink."""
    x, y = line(100_000)
    rows = np.column_stack([x, (y - 0.25) / 2])
    randomizer = LocalRandomizer(epsilon=6.0, bounds=(-1, 1), sampled=3, source=TestSource(1))
    reports = randomizer.fit_transform(rows)
    moments, naive = randomizer.second_moments(reports), reports.T @ reports / len(reports)
    corrected, shrunk = (2 * np.linalg.solve(m[:2, :2], m[:2, 2]) for m in (moments, naive))
    assert corrected == pytest.approx(WEIGHTS, abs=0.12)  # +- 0.019 over 24 seeds: 6 standard deviations
    assert (np.abs(shrunk) < 0.7 * np.abs(WEIGHTS)).all()
