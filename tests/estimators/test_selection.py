"""Private selection of features and settings: reach of scores, costs of all fits, one charge, secrets kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from hush.accounting import ApproximateDP, Composed, PldAccountant
from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators import PrivateGridSearch, PrivateLogisticRegression, PrivateSelectBest
from hush.estimators._select_best import class_contrasts
from hush.mechanisms import ExponentialMechanism
from hush.randomness import TestSource


def test_scikit_learn() -> None:
    assert unexpected_failures(PrivateSelectBest(k=1, epsilon=50.0, data_bound=10.0, classes=[0, 1, 2])) == []


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_one_record_moves_every_score_by_one_at_most(num_classes: int) -> None:
    chance = np.random.default_rng(num_classes)
    worst = 0.0
    for _ in range(50):
        values, places = chance.choice([-1.0, 1.0, 0.5], (6, 4)), chance.integers(0, num_classes, 6)
        moved = class_contrasts(values, places, num_classes) - class_contrasts(values[1:], places[1:], num_classes)
        worst = max(worst, float(np.abs(moved).max()))
    assert 0.9 < worst <= 1


@pytest.mark.parametrize("unclamped", [False, True])
def test_features_as_a_black_box(unclamped: bool) -> None:
    bound = 1e-3 if unclamped else 1.0  # the twin divides by another bound than it clamps to

    def choose(data: Any, source: Any) -> int:
        values = np.clip(data[0], -1, 1) / bound
        scores = class_contrasts(values, data[1], 2)
        return int(ExponentialMechanism(epsilon=1.0).release(scores, source).value)

    first, second = (np.zeros((0, 2)), np.zeros(0, dtype=np.int64)), (np.array([[9.0, 0.0]]), np.array([1]))
    found = audit(choose, first, second, samples=4000, source=TestSource("features"))
    assert found.compare(1.0).violated is unclamped


def test_the_selector_spends_its_epsilon_and_finds_features() -> None:
    X = np.zeros((400, 6))
    y = np.arange(400) % 2
    X[:, 2], X[:, 5] = 2 * y - 1, 0.8 * (1 - 2 * y)
    selector = PrivateSelectBest(k=2, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=TestSource(1)).fit(X, y)
    assert selector.get_support(indices=True).tolist() == [2, 5]
    assert selector.transform(X).shape == (400, 2)
    assert 0.99 < PldAccountant().compose(selector.event_).epsilon(0.0) <= 1 + 1e-9
    with pytest.raises(InvalidArgument, match="k=9"):
        PrivateSelectBest(k=9, epsilon=1.0, data_bound=1.0, classes=[0, 1]).fit(X, y)


class Purse:
    """A budget that remembers charges, or refuses."""

    def __init__(self, refuses: bool = False) -> None:
        self.charges: list[Charge] = []
        self.refuses = refuses

    def reserve(self, charge: Charge) -> Purse:
        if self.refuses:
            raise BudgetExceeded("nothing is left")
        self.charges.append(charge)
        return self

    def commit(self, event: Any = None, *, answer: Any = None) -> None:
        return None


class Coin:
    """A law of the number of fits, as those of hush.training: geometric."""

    mean = 3.0

    def event(self, run: Any) -> Any:
        from hush.accounting import RepeatNegativeBinomial

        return RepeatNegativeBinomial(run, 1 / 3, 1.0)

    def draw(self, source: Any) -> int:
        return 3


X, Y = np.array([[1.0, 0.0], [-1.0, 0.0]] * 300), np.array([1, 0] * 300)
GRID = {"regularization": [1.0, 1e6], "fit_intercept": [True, False]}


def search(**settings: Any) -> PrivateGridSearch:
    inner = PrivateLogisticRegression(
        epsilon=0.5, data_norm=1.0, classes=[0, 1], budget=Purse(refuses=True), source=TestSource(2)
    )
    return PrivateGridSearch(inner, GRID, **({"score_epsilon": 1.0, "source": TestSource(3)} | settings))


def test_all_fits_are_paid_for_once_and_together() -> None:
    purse = Purse()
    found = search(budget=purse).fit(X, Y)
    assert found.best_params_["regularization"] == 1.0
    assert found.score(X, Y) > 0.95
    assert len(purse.charges) == 1, "fits are charged with the search, not each to its own budget"
    assert found.guarantee_.epsilon == pytest.approx(4 * 0.5), "four fits; those held out pay less, and only that"
    assert purse.charges[0].event == found.event_
    naive = PldAccountant().compose(Composed((ApproximateDP(0.5),))).epsilon(0.0)
    assert found.guarantee_.epsilon > naive, "a twin that charges the best fit only"
    assert search(score_epsilon=9.0).fit(X, Y).guarantee_.epsilon == pytest.approx(9.0)


def test_a_refused_search_leaves_nothing() -> None:
    refused = search(budget=Purse(refuses=True))
    with pytest.raises(BudgetExceeded):
        refused.fit(X, Y)
    assert not hasattr(refused, "best_estimator_")


def test_a_secret_number_of_fits_costs_the_same_whatever_was_drawn() -> None:
    found = search(repetitions=Coin(), delta=1e-6).fit(X, Y)
    again = search(repetitions=Coin(), delta=1e-6, source=TestSource(9)).fit(X, Y)
    assert found.event_ == again.event_
    assert 0.5 < found.guarantee_.epsilon < 3.1, "Liu & Talwar 2019: three times the epsilon of one, which is 1 here"
    assert found.score(X, Y) > 0.9


@pytest.mark.parametrize(
    "wrong",
    [
        {"score_epsilon": 0},
        {"delta": float("nan")},
        {"held_out": 1.0},
        {"repetitions": Coin()},
        {"loss_bound": -1},
    ],
)
def test_wrong_parameters_are_refused_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        search(**wrong)


def test_deltas_of_fits_must_fit_into_that_of_the_search() -> None:
    inner = PrivateLogisticRegression(epsilon=0.5, delta=1e-5, data_norm=1.0, classes=[0, 1], source=TestSource(2))
    settings: dict[str, Any] = {"score_epsilon": 1.0, "source": TestSource(3)}
    with pytest.raises(InvalidArgument, match="delta"):
        PrivateGridSearch(inner, GRID, delta=1e-6, **settings).fit(X, Y)
    assert PrivateGridSearch(inner, GRID, delta=1e-4, **settings).fit(X, Y).guarantee_.epsilon <= 2.0
