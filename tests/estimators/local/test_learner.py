"""Models that learn from reports: two parties, one price, black boxes and twins."""

from __future__ import annotations

import math

import numpy as np
import pytest

from estimators.checks import unexpected_failures
from estimators.purse import Purse
from hush.accounting import PldAccountant
from hush.audit.testers import Batched, audit_mechanism
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import LocalLinearRegression, LocalNaiveBayes
from hush.guarantee import Relation
from hush.mechanisms import RandomizedResponse
from hush.randomness import TestSource

BAYES = {"bounds": (-2, 2), "classes": [0, 1]}
LINEAR = {"bounds": (-1, 1), "target_bounds": (-2, 2)}
BOTH = pytest.mark.parametrize(("kind", "settings"), [(LocalNaiveBayes, BAYES), (LocalLinearRegression, LINEAR)])


def classes(n, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(size=(n, 4)) + (2 * y[:, None] - 1) / 2, y


@pytest.mark.parametrize(
    "model",
    [
        LocalNaiveBayes(epsilon=900.0, bounds=(-10, 10), classes=[0, 1, 2]),
        LocalLinearRegression(epsilon=900.0, bounds=(-10, 10), target_bounds=(-100, 100)),
    ],
    ids=["bayes", "linear"],
)
def test_scikit_learn_checks(model):
    assert unexpected_failures(model) == []


def reports_of(kind, settings):
    def draw(row, source, count):
        x, y = np.tile(row[:-1], (count, 1)), np.full(count, row[-1])
        return np.nan_to_num(kind(epsilon=1.0, source=source, **settings).randomize(x, y), nan=-99.0)

    return Batched(draw)


class TellsTheClassAgain(LocalNaiveBayes):
    """A broken twin: it reports the class with the feature and once more, for one epsilon."""

    def randomize(self, X, y):
        again = RandomizedResponse(epsilon=self.epsilon).release(y, self.source).value
        return np.concatenate([super().randomize(X, y), again[:, None]], axis=1)


class SumsNotProducts(LocalLinearRegression):
    """A broken twin: it adds unclamped values to its reports."""

    def randomize(self, X, y):
        return super().randomize(X, y) + np.asarray(X).sum(axis=1, keepdims=True)


def audited(kind, settings, replacement):
    return audit_mechanism(
        reports_of(kind, settings),
        [-1.0, -1.0, 0.0],
        replacement,
        samples=60_000,
        confidence=1 - 1e-6,
        source=TestSource(1),
        relation=Relation.REPLACE,
    )


@BOTH
@pytest.mark.parametrize("other", [[1.0, 1.0, 1.0], [math.nan, 1e300, 1.0], [math.inf, -1.0, 7.0]])
@pytest.mark.quick_cases(4)
def test_black_box(kind, settings, other):
    assert audited(kind, settings, other).epsilon_lower <= 1.0


@pytest.mark.parametrize(("kind", "settings"), [(TellsTheClassAgain, BAYES), (SumsNotProducts, LINEAR)])
def test_broken_twins_are_caught(kind, settings):
    assert audited(kind, settings, [1.0, 1.0, 1.0]).epsilon_lower > 1.0


@BOTH
def test_two_parties_learn_what_one_would(kind, settings):
    x, y = classes(500)
    together = kind(epsilon=2.0, source=TestSource(1), **settings).fit(x, y)
    owner = kind(epsilon=2.0, source=TestSource(1), **settings)
    analyst = kind(epsilon=2.0, **settings).fit_reports(owner.randomize(x, y), num_features=4)
    assert analyst.predict(x).tolist() == together.predict(x).tolist()
    assert analyst.guarantee_.epsilon == owner.guarantee_.epsilon == 2.0
    assert together.guarantee_.relation is Relation.REPLACE
    assert PldAccountant(relation=Relation.REPLACE).compose(together.event_).epsilon(0.0) <= 2.0 + 1e-9
    with pytest.raises(InvalidArgument, match="reports"):
        analyst.fit_reports(np.zeros((3, 2)), num_features=4)


@BOTH
def test_telling_is_charged_and_learning_is_not(kind, settings):
    (x, y), purse = classes(50), Purse(2)
    model = kind(epsilon=2.0, budget=purse, **settings)
    reports = model.randomize(x, y)
    model.fit_reports(reports, num_features=4)
    assert len(purse.charged) == 1
    model.fit(x, y)
    with pytest.raises(BudgetExceeded):
        model.fit(x, y)


@BOTH
def test_hostile_rows_are_reported_like_any_other(kind, settings):
    x = np.array([[math.nan, math.inf], [-1e300, 1e-300], [0.0, -math.inf]])
    for y in ([math.nan, 9.0, 1.0], [1e300, -math.inf, 0.0]):
        model = kind(epsilon=1.0, **settings).fit(x, np.array(y))
        assert np.isfinite(model.predict([[0.1, 0.2]])).all()


@BOTH
def test_the_guarantee_is_in_the_models_own_name(kind, settings):
    x, y = np.zeros((20, 2)), np.arange(20) % 2
    assert kind(epsilon=1.0, **settings).fit(x, y).guarantee_.method == kind.__name__
