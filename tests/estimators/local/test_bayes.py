"""Naive Bayes in the local model: accuracy, categories, and refused parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.estimators import LocalNaiveBayes
from hush.randomness import TestSource

BAYES = {"bounds": (-2, 2), "classes": [0, 1]}


def classes(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) + (2 * y[:, None] - 1) / 2, y


# Figures next to thresholds are means and deviations over 24 other seeds, of data and of noise. Thresholds are at least
# 6 standard deviations away, which a normal distribution exceeds with probability 1e-9.
def test_naive_bayes():
    x, y = classes(60_000)
    model = LocalNaiveBayes(epsilon=1.0, source=TestSource(1), **BAYES).fit(x, y)
    assert 0.78 < model.score(*classes(5000, seed=1)) < 0.86  # 0.821 +- 0.005; 0.84 without privacy
    assert model.class_prior_ == pytest.approx([0.5, 0.5], abs=0.12)  # +- 0.016
    assert model.predict_proba(x[:9]).sum(axis=1) == pytest.approx(1)


def test_naive_bayes_of_categories():
    rng = np.random.default_rng(0)
    y = rng.choice(["no", "yes"], 20_000)
    x = np.where(rng.random(20_000) < 0.8, np.where(y == "yes", 2, 0), 1)[:, None]
    x = np.concatenate([x, rng.integers(0, 2, (20_000, 1))], axis=1)
    model = LocalNaiveBayes(
        epsilon=3.0, bounds=(-0.5, [2.5, 1.5]), bins=[3, 2], classes=["yes", "no"], source=TestSource(1)
    )
    assert model.fit(x, y).predict([[0, 0], [2, 1]]).tolist() == ["no", "yes"]
    assert np.exp(model.feature_log_prob_[0])[1] == pytest.approx([0, 0.2, 0.8], abs=0.1)  # off by 0.009 +- 0.008


@pytest.mark.parametrize(
    "wrong", [{"bins": 0}, {"bins": 1.5}, {"classes": [1]}, {"bounds": None}, {"epsilon": math.inf}]
)
def test_wrong_parameters_of_naive_bayes(wrong):
    with pytest.raises(InvalidArgument):
        LocalNaiveBayes(**{"epsilon": 1.0, **BAYES, **wrong})
    with pytest.raises(InvalidArgument, match="bins"):
        LocalNaiveBayes(epsilon=1.0, bins=[2, 2, 2], **BAYES).fit([[0.0]], [1])


def test_bins_without_rows_have_logarithms():
    x, y = np.linspace(-1, 0, 200)[:, None], np.arange(200) // 100
    model = LocalNaiveBayes(epsilon=900.0, bounds=(-1, 1), classes=[0, 1]).fit(x, y)
    assert np.isfinite(model.predict_log_proba([[-1.0], [1.0]])).all()
