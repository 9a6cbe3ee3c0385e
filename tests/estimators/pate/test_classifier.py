"""PATEClassifier: scikit-learn compatibility, budgets, units, and what a fitted model holds."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from black_box.certainty import audit
from estimators.checks import PATE
from estimators.pate.blobs import LABELS, PUBLIC, TRAIN, Y, pate
from estimators.purse import Purse
from hush.accounting import PldAccountant
from hush.errors import BudgetExceeded, InvalidArgument
from hush.estimators.pate import CostReport, GNMax, InteractiveGNMax, LNMax, PATEClassifier, VoteAggregator
from hush.estimators.pate.report import ExPostCost
from hush.guarantee import Relation
from hush.randomness import RandomSource, TestSource


class Own(VoteAggregator):
    """A user's own aggregator, without a data-dependent cost."""

    def plan(self, num_queries: int, *, epsilon: float, delta: float) -> Any:
        return GNMax(sigma=8.0).plan(num_queries, epsilon=epsilon, delta=delta)

    def answer(self, counts: Any, source: RandomSource, **settings: Any) -> Any:
        return GNMax(sigma=8.0).answer(counts, source, **settings)


def test_it_learns_within_its_budget() -> None:
    model = pate().fit(TRAIN, LABELS, public=PUBLIC)
    assert model.score(PUBLIC, Y[2500:]) > 0.85
    assert model.guarantee_.epsilon <= 4.0
    assert model.guarantee_.delta == 1e-5
    assert model.guarantee_.relation is Relation.ADD_OR_REMOVE
    assert "test randomness" in " ".join(model.guarantee_.assumptions)
    assert PldAccountant().compose(model.event_).epsilon(1e-5) == model.guarantee_.epsilon
    assert 0 < model.num_answered_ <= model.num_asked_ < len(PUBLIC)
    assert model.predict_proba(PUBLIC[:5]).shape == (5, 3)


@pytest.mark.parametrize(
    "aggregator",
    [LNMax(scale=12.0), GNMax(sigma=8.0), InteractiveGNMax(threshold=20.0, sigma_threshold=20.0, sigma=8.0, rounds=3)],
    ids=lambda one: type(one).__name__,
)
def test_every_aggregator_teaches(aggregator: Any) -> None:
    model = pate(aggregator=aggregator).fit(TRAIN, LABELS, public=PUBLIC)
    assert model.score(PUBLIC, Y[2500:]) > 0.8
    assert model.guarantee_.epsilon <= 4.0


def test_more_budget_asks_more() -> None:
    numbers = [pate(epsilon=e).fit(TRAIN, LABELS, public=PUBLIC).num_asked_ for e in (2.0, 4.0)]
    assert numbers[0] < numbers[1]


def test_a_few_public_rows_cost_less_than_allowed() -> None:
    model = pate().fit(TRAIN, LABELS, public=PUBLIC[:20])
    assert model.num_asked_ == 20
    assert model.guarantee_.epsilon < 4.0


def test_the_fitted_object_holds_no_votes_and_no_raw_cost() -> None:
    report = CostReport(epsilon=1.0, delta=1e-6)
    model = pate(report=report, source=None).fit(TRAIN, LABELS, public=PUBLIC)
    fitted = {name for name in vars(model) if name.endswith("_")}
    assert fitted == {
        "classes_",
        "data_dependent_",
        "event_",
        "guarantee_",
        "n_features_in_",
        "num_answered_",
        "num_asked_",
        "student_",
    }
    assert model.guarantee_.epsilon <= 4.0
    assert model.data_dependent_.epsilon >= report.epsilon
    assert model.data_dependent_.delta == pytest.approx(1e-5)
    text = pickle.dumps(model)
    assert b"RawCost" not in text
    assert b"_pate_costs" not in text


def test_interactive_queries_have_a_report_of_their_loss() -> None:
    aggregator = InteractiveGNMax(threshold=20.0, sigma_threshold=20.0, sigma=8.0, rounds=3)
    report = CostReport(epsilon=1.0, delta=1e-6)
    model = pate(aggregator=aggregator, report=report).fit(TRAIN, LABELS, public=PUBLIC)
    assert model.guarantee_.epsilon <= 4.0
    assert isinstance(model.data_dependent_, ExPostCost)
    assert report.epsilon < model.data_dependent_.epsilon


def test_a_budget_is_charged_once_and_before_teachers_are_trained() -> None:
    budget = Purse(1)
    model = pate(budget=budget).fit(TRAIN, LABELS, public=PUBLIC)
    assert budget.charged[0].event == model.event_
    assert budget.committed == 1
    with pytest.raises(BudgetExceeded):
        pate(budget=budget, teacher=lambda: 1 / 0).fit(TRAIN, LABELS, public=PUBLIC)


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"delta": 0.0},
        {"delta": 1.0},
        {"num_teachers": 1},
        {"num_teachers": 2.0},
        {"aggregator": "gnmax"},
        {"teacher": 3},
        {"student": None},
        {"semi_supervised": 1},
        {"report": "yes"},
        {"report": CostReport(epsilon=9.0, delta=1e-6)},
        {"report": CostReport(epsilon=1.0, delta=1e-5)},
        {"report": CostReport(epsilon=1.0, delta=1e-6), "aggregator": Own()},
    ],
)
def test_arguments_are_checked_at_construction(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        pate(**wrong)


@pytest.mark.parametrize(
    ("changes", "arguments", "named"),
    [
        ({"classes": None}, {}, "classes"),
        ({"classes": [1]}, {}, "classes"),
        ({}, {"public": None}, "public"),
        ({}, {"public": PUBLIC[:, :1]}, "public"),
        ({}, {"public": PUBLIC[:0]}, "minimum of 1"),
        ({}, {"units": [1, 2]}, "inconsistent"),
        ({"epsilon": 0.01}, {}, "epsilon"),
    ],
)
def test_fit_refuses_by_public_facts_alone(changes: Any, arguments: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        pate(**changes).fit(TRAIN, LABELS, **({"public": PUBLIC} | arguments))


def test_it_is_cloned_with_its_parameters() -> None:
    model = pate(source=None)
    copy = clone(model)
    assert copy.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert copy.aggregator == model.aggregator
    assert model.set_params(epsilon=3.0).epsilon == 3.0


class Majority(ClassifierMixin, BaseEstimator):
    """Predicts the most common label of its rows: one row sways it as much as possible."""

    def fit(self, x: Any, y: Any) -> Majority:
        self.said_ = int(np.bincount(y, minlength=2).argmax())
        return self

    def predict(self, x: Any) -> NDArray[np.int64]:
        return np.full(len(x), self.said_)


def test_the_whole_fit_as_a_black_box() -> None:
    # Three rows, of which the last is missing in the neighbouring dataset.
    first = (np.zeros((3, 1)), np.array([1, 0, 1]))
    second = (np.zeros((2, 1)), np.array([1, 0]))
    aggregator = GNMax(sigma=1.5)
    delta = 1e-2
    claimed = PldAccountant().compose(aggregator.plan(1, epsilon=50.0, delta=delta).event).epsilon(delta)

    def run(data: Any, source: RandomSource) -> int:
        model = pate(
            teacher=Majority(),
            student=Majority(),
            num_teachers=2,
            aggregator=aggregator,
            epsilon=claimed * 1.001,
            delta=delta,
            classes=[0, 1],
            source=source,
        )
        with warnings.catch_warnings():
            # hush's own warning: the rows are few, so that one matters.
            warnings.filterwarnings("ignore", "the answers have fewer than two classes")
            return int(model.fit(*data, public=np.zeros((1, 1))).predict(np.zeros((1, 1)))[0])

    result = audit(run, first, second, delta=delta, samples=120, source=TestSource("whole"))
    assert not result.compare(claimed).violated


class Checked(PATEClassifier):
    """Brings its own public rows, since scikit-learn's checks pass none, and the classes that they use."""

    def __init__(self, *, epsilon: float = 500.0) -> None:
        self.epsilon = epsilon

    teacher, student = GaussianNB(), GaussianNB()
    num_teachers, aggregator, delta = 3, GNMax(sigma=0.5), 1e-3
    classes, semi_supervised, report, budget, n_jobs = (0, 1, 2, 3), False, None, None, None

    @property
    def source(self) -> RandomSource:
        """The same for every fit: several checks compare two fits."""
        return TestSource("checks")

    def fit(self, X: Any, y: Any, public: Any = None, units: Any = None) -> Any:
        shape = np.asarray(X).shape if not hasattr(X, "tocsr") else X.shape
        wide = int(shape[1]) if len(shape) == 2 else 1
        points = np.random.default_rng(0).normal(scale=2.0, size=(40, max(wide, 1)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the answers have fewer than two classes")
            return super().fit(X, y, public=points, units=units)


@parametrize_with_checks([Checked()], expected_failed_checks=lambda estimator: PATE)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


TABLE = np.random.default_rng(0).uniform(-1, 1, size=(300, 3))


class TestTeachers:
    def fitted(self, rows, public, student=None):
        return PATEClassifier(
            DecisionTreeClassifier(),
            student or LogisticRegression(),
            num_teachers=3,
            aggregator=GNMax(sigma=2.0),
            epsilon=500.0,
            delta=1e-5,
            classes=[0, 1],
            source=TestSource(1),
        ).fit(rows, (TABLE[:, 0] > 0).astype(int), public=public)

    def test_log_probabilities(self):
        model = self.fitted(TABLE, TABLE)
        assert np.exp(model.predict_log_proba(TABLE)) == pytest.approx(model.predict_proba(TABLE))

    def test_names(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(TABLE, columns=["a", "b", "c"])
        model = self.fitted(frame, frame)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
        for wrong in (
            lambda: model.predict(frame[["b", "a", "c"]]),
            lambda: self.fitted(frame, frame[["b", "a", "c"]]),
        ):
            with pytest.raises(ValueError, match="names"):
                wrong()

    def test_a_cell_is_not_quoted(self):
        rows = TABLE.astype(str)
        rows[3, 1] = "secret"
        with pytest.raises(ValueError, match="strings") as caught:
            self.fitted(rows, TABLE)
        assert "secret" not in str(caught.value)
