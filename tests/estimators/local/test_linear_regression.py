"""Linear regression in the local model: accuracy, bias, units, and too few rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from hush.errors import InvalidArgument
from hush.estimators import LocalLinearRegression
from hush.randomness import TestSource

WEIGHTS = np.array([1.0, -0.5])
LINEAR = {"bounds": (-1, 1), "target_bounds": (-2, 2)}


def line(n, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(n, 2))
    return x, x @ WEIGHTS + 0.25 + rng.uniform(-0.2, 0.2, n)


# Figures next to thresholds are means and deviations over 24 other seeds, of data and of noise. Thresholds are at least
# 6 standard deviations away, which a normal distribution exceeds with probability 1e-9.
def test_linear_regression():
    x, y = line(150_000)
    model = LocalLinearRegression(epsilon=4.0, source=TestSource(1), **LINEAR).fit(x, y)
    assert model.coef_ == pytest.approx(WEIGHTS, abs=0.15)  # off by 0.02 +- 0.017
    assert model.intercept_ == pytest.approx(0.25, abs=0.05)  # off by 0.002 +- 0.007
    assert 0 < model.regularization_ < 0.05


def test_units_of_features_and_target():
    x, y = line(20_000)
    plain = LocalLinearRegression(epsilon=4.0, source=TestSource(1), **LINEAR).fit(x, y)
    rescaled = LocalLinearRegression(epsilon=4.0, bounds=(7, 11), target_bounds=(0, 40), source=TestSource(1))
    rescaled.fit(9 + 2 * x, 20 + 10 * y)
    assert rescaled.coef_ == pytest.approx(5 * plain.coef_, rel=1e-6)
    assert rescaled.predict(9 + 2 * x[:5]) == pytest.approx(20 + 10 * plain.predict(x[:5]), rel=1e-6)


def test_coefficients_without_penalty_have_no_bias():
    coefficients = [
        LocalLinearRegression(epsilon=8.0, alpha=0.0, source=TestSource(seed), **LINEAR).fit(*line(8000, seed)).coef_
        for seed in range(40)
    ]
    scores = (np.mean(coefficients, axis=0) - WEIGHTS) / (np.std(coefficients, axis=0) / math.sqrt(len(coefficients)))
    # False alarms: both are as Student's with 39 degrees of freedom: beyond 7 with 4e-8.
    assert np.abs(scores).max() < 7


@pytest.mark.parametrize("wrong", [{"alpha": -1.0}, {"target_bounds": ([0, 0], 1)}, {"bounds": None}, {"epsilon": 0}])
def test_wrong_parameters_of_linear_regression(wrong):
    with pytest.raises(InvalidArgument):
        LocalLinearRegression(**{"epsilon": 1.0, **LINEAR, **wrong})


class TestRegressionFromTooFewRows:
    """By default, the model does not mistake noise for weights."""

    def scores(self, x, y, **settings):
        models = [LocalLinearRegression(source=TestSource(seed), **settings).fit(x, y) for seed in range(5)]
        return [model.score(x, y) for model in models]

    def test_diabetes(self):
        x, y = load_diabetes(return_X_y=True)
        assert (
            min(self.scores(x, y, epsilon=1.0, bounds=(-0.2, 0.2), target_bounds=(25, 346))) > -0.4
        )  # -0.188 for each of 60 seeds

    def test_many_features(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, size=(10_000, 20))
        y = x @ rng.normal(size=20) / math.sqrt(20) + 0.3 * rng.normal(size=10_000)
        settings = {"epsilon": 1.0, "bounds": (-1, 1), "target_bounds": (-3, 3)}
        # The worst of 40 is -0.16. With a fixed penalty, the best is -190.
        assert min(self.scores(x, y, **settings)) > -3
        assert min(self.scores(x, y, alpha=0.1, **settings)) < -10

    def test_few_features_lose_little(self):
        rng = np.random.default_rng(0)
        x = rng.uniform(-1, 1, size=(100_000, 3))
        y = x @ [0.5, -0.4, 0.3] + 0.1 * rng.normal(size=100_000)
        assert min(self.scores(x, y, epsilon=4.0, bounds=(-1, 1), target_bounds=(-2, 2))) > 0.91  # 0.939 +- 0.003
