"""What attackers found once: each test fails on the code before."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import hush.estimators as he
from estimators.neighbours import gaussian_distance, gaussian_releases, planned_releases
from estimators.purse import Purse
from hush.errors import HushError, InvalidArgument
from hush.estimators import pate
from hush.estimators.base.estimator import noise_multiplier
from hush.estimators.moments.bingham import bingham
from hush.estimators.selection.grid_table import build_table
from hush.randomness import TestSource


def bayes(**given):
    return he.PrivateGaussianNB(
        **{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)} | given
    )


class TestOneLabelDoesNotChangeHowOthersAreRead:
    @pytest.mark.parametrize("strange", ["x", None, [1], {}, math.nan, 1 + 2j, object()])
    def test_in_a_list(self, monkeypatch, strange):
        x, y = np.zeros((200, 1)), [0, 1] * 100
        (one,), (other,) = (
            planned_releases(monkeypatch, lambda x=x, y=y: bayes().fit(x, y))
            for x, y in ((x, y), (np.zeros((201, 1)), [*y, strange]))
        )
        assert (one[1] == other[1]).all()  # a row that is not declared is left out, and all others are there

    def test_in_a_list_of_targets(self):
        model = he.PrivateRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-1, 1), source=TestSource(1))
        x = np.linspace(-1, 1, 201)[:, None]
        y = [0.5] * 200
        first, second = (
            clone(model).set_params(source=TestSource(1)).fit(x, [*y, last]).coef_ for last in (None, "Ann")
        )
        assert first == second

    def test_of_an_array_the_type_is_public(self):
        purse = Purse(1)
        for classes, y in (([0, 1], np.array(["0", "1"])), (["a", "b"], np.array([0, 1]))):
            with pytest.raises(InvalidArgument, match="compares with classes"):
                bayes(classes=classes, budget=purse).fit(np.zeros((2, 1)), y)
        assert purse.charged == []

    def test_cells_of_a_list_keep_their_type(self):
        plain, odd = [[0.0, 1]] * 300, [[0.0, 1]] * 300 + [["x", 1]]
        randomizer = he.LocalRandomizer(epsilon=20.0, bounds=(0, 1), categories={1: [1, 2]}, source=TestSource(1))
        for rows in (plain, odd):
            told = randomizer.fit(rows).transform(rows)
            assert np.nanmean(told[:300, 1]) < 0.1  # 1 is the first of the categories

    def test_no_message_quotes_a_cell(self):
        with pytest.raises(ValueError, match="text") as caught:
            bayes().fit([["Ann"], [1.0]], [0, 1])
        assert "Ann" not in str(caught.value)


@pytest.mark.parametrize("norm", [1e-160, 1e-300, 5e-324, 1e200, math.inf, math.nan])
def test_norms_whose_squares_are_no_numbers_are_refused(norm):
    for make in (
        lambda: he.PrivateRidge(epsilon=1, delta=1e-6, data_norm=norm, target_bounds=(0, 1)),
        lambda: he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=norm),
        lambda: he.PrivateCovariance(epsilon=1, delta=1e-6, data_norm=norm),
        lambda: he.PrivateLDA(epsilon=1, delta=1e-6, data_norm=norm, classes=[0, 1]),
        lambda: he.PrivateSelectBest(k=1, epsilon=1, data_bound=norm, classes=[0, 1]),
    ):
        with pytest.raises(InvalidArgument):
            make()


def test_the_smallest_norm_is_clipped_to(monkeypatch):
    rows, norm = np.array([[1e-99, 0.0]]), 2e-100
    model = he.PrivatePCA(epsilon=1.0, delta=1e-6, data_norm=norm, source=TestSource(1))
    one, other = (
        gaussian_releases(monkeypatch, lambda x=x: clone(model).fit(x)) for x in (rows, np.vstack([rows, rows]))
    )
    assert gaussian_distance(one, other) <= 1 / noise_multiplier(1.0, 1e-6) * (1 + 1e-9)


@pytest.mark.parametrize("size", [1, 2, 20, 21, 45, 47, 49, 93])
def test_directions_of_nothing_are_no_error(size):
    found = bingham(np.zeros((size, size)), TestSource(1))
    assert np.linalg.norm(found) == pytest.approx(1)


class TestRowsThatMissSomethingPassThroughPipelines:
    STEPS = (
        he.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1)),
        he.PrivateMinMaxScaler(epsilon=1.0, bounds=(-1, 1)),
        he.PrivatePCA(1, epsilon=1.0, delta=1e-6, data_norm=1.0),
        he.PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1]),
    )

    @pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
    @pytest.mark.parametrize("strange", [math.nan, math.inf, -math.inf])
    def test_fit(self, step, strange):
        x, y = np.linspace(-1, 1, 40).reshape(20, 2), np.arange(20) % 2
        x[3, 0] = strange
        model = make_pipeline(step, he.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1]))
        assert np.isfinite(model.fit(x, y)[-1].coef_).all()


class TestBudgetsTravelWithTheirEstimators:
    def voted(self, **given):
        settings = {"num_teachers": 2, "aggregator": pate.GNMax(sigma=20.0), "epsilon": 5.0, "delta": 1e-5}
        return pate.PATEClassifier(DecisionTreeClassifier(), LogisticRegression(), classes=[0, 1], **settings, **given)

    def test_copies_of_pate_charge_the_same_budget(self):
        purse = Purse(1)
        assert clone(self.voted(budget=purse)).budget is purse

    def test_cross_validation_charges_every_fit(self):
        purse = Purse(10)
        cross_val_score(bayes(budget=purse), np.zeros((40, 1)), np.arange(40) % 2, cv=5)
        assert len(purse.charged) == 5

    def test_a_fitted_model_is_stored_without_its_budget_and_cannot_be_fitted_without_one(self, tmp_path):
        from hush import Ledger

        budget = Ledger(f"sqlite:///{tmp_path}/b.db").dataset("people", epsilon=3, delta=1e-6, unit="example")
        model = bayes(budget=budget, source=None).fit(np.zeros((4, 1)), [0, 1, 0, 1])
        for loaded in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert (loaded.theta_ == model.theta_).all()
            with pytest.raises(HushError, match="budget"):
                loaded.fit(np.zeros((4, 1)), [0, 1, 0, 1])
            with pytest.raises(HushError, match="budget"):
                clone(loaded).fit(np.zeros((4, 1)), [0, 1, 0, 1])

    def test_what_is_no_budget_is_refused_at_once(self):
        for make in (bayes, self.voted):
            with pytest.raises(InvalidArgument, match="budget"):
                make(budget=3.0)
            with pytest.raises(InvalidArgument, match="source"):
                make(source=42)


class TestSettings:
    def test_priors_are_in_the_order_of_classes(self):
        rows = np.zeros((10, 1))
        y = np.arange(10) % 2
        model = bayes(classes=[1, 0], priors=[0.9, 0.1]).fit(rows, y)
        assert dict(zip(model.classes_.tolist(), model.class_prior_.tolist(), strict=True)) == {1: 0.9, 0: 0.1}

    @pytest.mark.parametrize("wrong", [{0, 1}, [0, "a"], "ab", [0], [0, 0], 3, None, [[0, 1]]])
    def test_classes(self, wrong):
        with pytest.raises(InvalidArgument, match="classes"):
            bayes(classes=wrong)

    @pytest.mark.parametrize("wrong", ["x", [0.5], [0.5, math.nan], he.LearnBounds()])
    def test_priors(self, wrong):
        with pytest.raises(InvalidArgument, match="priors"):
            bayes(priors=wrong)

    @pytest.mark.parametrize("wrong", ["x", math.nan, [[0.0]], he.LearnBounds()])
    def test_center(self, wrong):
        for kind in (he.PrivatePCA, he.PrivateCovariance):
            with pytest.raises(InvalidArgument, match="center"):
                kind(epsilon=1, delta=1e-6, data_norm=1, center=wrong)
        with pytest.raises(InvalidArgument, match="center"):
            he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=1, center=[0, 0, 0]).fit(np.zeros((3, 2)))

    def test_bounds_that_are_to_be_learned_say_where(self):
        for make in (lambda b: bayes(bounds=b), lambda b: he.PrivatePCA(epsilon=1, delta=1e-6, data_norm=b)):
            with pytest.raises(InvalidArgument, match="PrivateMinMaxScaler"):
                make(he.LearnBounds())


def test_a_person_is_the_same_whatever_type_the_column_has():
    rappor = he.Rappor(permanent_noise=0.5, source=TestSource(1)).fit([[1.0, "a"]])
    for rows in (
        [[1.0, "a"]],
        np.array([[1.0, "b"]], dtype=object),
        np.array([["1.0", "c"]]),
        [["1", "d"]],
        [[1, "e"]],
    ):
        rappor.transform(rows)
    assert len(rappor._memory) == 1


def test_a_missing_category_is_no_error():
    pandas = pytest.importorskip("pandas")
    encoder = he.PublicOneHotEncoder(categories=[["a", "b"]])
    rows = np.array([["a"], [pandas.NA], [None], [math.nan], [["b"]], ["b"]], dtype=object)
    assert encoder.fit(rows).transform(rows).tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 1]]


def test_more_rows_than_sums_have_room_for_are_refused(monkeypatch):
    monkeypatch.setattr(he.PrivateLogisticRegression, "_max_rows", 3)
    purse = Purse(1)
    with pytest.raises(InvalidArgument, match="at most 3 rows"):
        he.PrivateLogisticRegression(epsilon=1.0, data_norm=1.0, classes=[0, 1], budget=purse).fit(
            np.zeros((4, 1)), [0, 1, 0, 1]
        )
    assert purse.charged == []


def test_labels_that_are_not_declared_do_not_change_how_a_network_is_trained():
    torch = pytest.importorskip("torch")

    x, y = np.zeros((20, 2)), np.arange(20) % 2
    model = he.PrivateClassifier(torch.nn.Linear, epsilon=3.0, delta=1e-5, data_norm=1.0, classes=[0, 1], epochs=1)
    events = [clone(model).fit(x, np.where(np.arange(20) < odd, 7, y)).event_ for odd in (0, 1, 20)]
    assert events[0] == events[1] == events[2]


class TestSearches:
    def test_what_keeps_all_rows_is_not_free(self):
        from sklearn.gaussian_process import GaussianProcessRegressor

        x = np.linspace(-1, 1, 40)[:, None]
        search = he.PrivateGridSearch(
            GaussianProcessRegressor(), {"alpha": [1e-6, 1e-3]}, score_epsilon=0.5, loss_bound=1.0, cv=he.Folds(2)
        )
        with pytest.raises(InvalidArgument, match="not paid"):
            search.fit(x, x[:, 0])

    def test_copies_charge_the_same_budget(self):
        purse = Purse(1)
        search = he.PrivateGridSearch(bayes(source=None), {"priors": [None]}, score_epsilon=1.0, budget=purse)
        assert clone(search).budget is purse

    def test_the_best_says_what_the_whole_search_cost(self):
        search = he.PrivateGridSearch(bayes(source=None), {"priors": [None, [0.5, 0.5]]}, score_epsilon=1.0)
        search.fit(np.zeros((50, 1)), np.arange(50) % 2)
        assert search.best_estimator_.guarantee_ == search.guarantee_
        assert search.guarantee_.epsilon == pytest.approx(2)

    @pytest.mark.parametrize("strange", [None, "Ann", 2**70, [1.0]])
    def test_one_cell_does_not_change_which_other_rows_count(self, strange):
        plain = [[1e200]] * 50 + [[1.0]] * 20 + [[math.nan]] * 3
        tables = [build_table(rows, [0] * len(rows), classes=True) for rows in (plain, [*plain, [strange]])]
        assert tables[0].row_numbers.tolist() == list(range(50, 70))
        assert tables[1].row_numbers.tolist() in (list(range(50, 70)), [*range(50, 70), 73])

    def test_one_cell_of_a_frame_does_not_either(self):
        pandas = pytest.importorskip("pandas")
        for rows in ([[1e200]] * 5 + [[1.0]] * 2, [[1e200]] * 5 + [[1.0]] * 2 + [["Ann"]]):
            kept = build_table(pandas.DataFrame(rows), [0] * len(rows), classes=True).row_numbers.tolist()
            assert kept[:2] == [5, 6]

    def test_large_labels_stay_what_they_are_beside_a_fraction(self):
        large = 2**53 + 1
        table = build_table([[0.0]] * 3, [large, large, 0.5], classes=True)
        assert table.labels[:3].tolist() == [large, large, 0.5]

    def test_huge_rows_are_in_no_comparison(self):
        search = he.PrivateGridSearch(
            make_pipeline(he.PrivateStandardScaler(epsilon=1.0, bounds=(-1, 1)), bayes(source=None)),
            {"privategaussiannb__priors": [None]},
            score_epsilon=1.0,
        )
        rows = np.zeros((50, 1))
        rows[3] = 1e305
        search.fit(rows, np.arange(50) % 2)


def test_bounds_that_are_lost_in_noise_are_told():
    rows = np.full((50, 30), 655.0)  # far too few; still, one of 30,000 runs takes a feature's noise for something
    with pytest.warns(UserWarning, match="of 30 features are lost in noise"):
        he.PrivateStandardScaler(epsilon=1.0, bounds=he.LearnBounds(), source=TestSource(1)).fit(rows)
