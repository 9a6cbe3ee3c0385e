"""Fits for people: one row of each user, whoever has how many; a statement instead; or a refusal."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier

import hush.estimators as he
from estimators.purse import Purse
from estimators.table import CASES, LEARNS_FROM_FEW
from hush import Unit
from hush.audit import audit_scores
from hush.errors import HushError, Unsupported
from hush.estimators.base import users as users_module
from hush.estimators.base.users import rows_of_users
from hush.ledger import LedgerBudget, TestLedger
from hush.randomness import TestSource

pytestmark = LEARNS_FROM_FEW
IDS = np.array([7, 3, 7, 7, 3, 9])
X = np.arange(6.0)[:, None]


def budget_for_people(folder: Path) -> LedgerBudget:
    ledger = TestLedger(f"sqlite:///{folder}/privacy.db")
    return ledger.budget("people", epsilon=100, delta=1e-3, unit="person")


@pytest.mark.parametrize("name", sorted(CASES))
def test_every_estimator_protects_people(name, tmp_path):
    """A budget for people refused all of them. Now a fit with ids costs as much as one with a row for each user."""
    case, people = CASES[name], budget_for_people(tmp_path)
    model = case.make(epsilon=1.0, source=TestSource(1), budget=people)
    rows, labels = case.second
    twice = np.repeat(np.arange(len(rows)), 2)
    doubled = (np.asarray(rows)[twice], None if labels is None else np.asarray(labels)[twice])
    with pytest.raises(Unsupported, match="pass units= to fit"):
        model.fit(*doubled)
    assert people.spent == 0.0
    model.fit(*doubled, units=twice)
    assert model.guarantee_.unit == Unit.user()
    assert "each person has exactly one id" in model.guarantee_.assumptions
    assert model.event_.unit == Unit.user()
    by_row = case.make(epsilon=1.0, source=TestSource(1)).fit(rows, labels)
    assert (model.guarantee_.epsilon, model.guarantee_.delta) == (by_row.guarantee_.epsilon, by_row.guarantee_.delta)
    assert by_row.guarantee_.unit == Unit.example()
    assert people.spent > 0.0


@pytest.mark.parametrize("rows", [X, pd.DataFrame(X, columns=["a"]), X.tolist()], ids=["array", "data frame", "list"])
def test_one_row_of_each_user_is_used(rows):
    for seed in range(20):
        kept, labels, _ = rows_of_users(IDS, rows, list("abcdef"), TestSource(seed))
        numbers = np.asarray(kept).ravel().astype(int)
        assert sorted(IDS[numbers]) == [3, 7, 9]
        assert list(labels) == [list("abcdef")[number] for number in numbers]


def test_every_row_of_a_user_can_be_the_one():
    """Fixed keys: 300 draws among three rows."""
    drawn = [int(rows_of_users(IDS, X, None, TestSource(seed))[0][0, 0]) for seed in range(300)]
    counts = np.bincount(drawn, minlength=4)
    assert counts[[0, 2, 3]].sum() + counts[1] == 300
    assert all(50 < count < 150 for count in counts[[0]])


def test_another_user_moves_no_row():
    """The rows of user 7, with and without user 3, have the same law: here the same bits choose the same row."""
    source = mock.Mock()
    source.words.side_effect = lambda count: np.full(count, 5 << 2, dtype=np.uint64)
    with_user = rows_of_users(IDS, X, None, source)[0].ravel()
    others = IDS != 3
    without = rows_of_users(IDS[others], X[others], None, source)[0].ravel()
    assert set(with_user) - set(without) == {float(np.flatnonzero(~others)[5 % 2])}
    assert set(without) <= set(with_user)


def test_rows_without_an_id_are_left_out():
    ids = [None, "ann", "ann", None, "bob", float("nan")]
    kept = rows_of_users(ids, X, None, TestSource(1))[0].ravel()
    assert len(kept) == 2
    assert 4.0 in kept


def density(source, ids):
    """Return the share of the first cell, as a histogram with epsilon 1 sees it."""
    cells = np.array([[0.9]] * 8 + [[0.1]] * (len(ids) - 8))
    model = he.PrivateHistogramDensity(epsilon=1.0, bounds=(0.0, 1.0), bins=2, source=source)
    return float(model.fit(cells, units=ids).score_samples([[0.1]])[0])


def scores(size, samples=700):
    """Return what fits show with and without a user of so many rows, beside eight others."""
    source = TestSource(size)
    others = list(range(8))
    return [[density(source, others + extra) for _ in range(samples)] for extra in ([99] * size, [])]


def test_an_audit_finds_no_more_than_the_claim():  # fixed keys
    present, absent = scores(6)
    assert audit_scores(present, absent, confidence=1 - 1e-6, unit=Unit.user()).epsilon_lower <= 1.0


def test_the_audit_catches_a_fit_of_all_rows_of_a_user():  # fixed keys
    with mock.patch.object(users_module, "one_row_per_unit", lambda codes, picks: codes >= 0):
        present, absent = scores(6)
    assert audit_scores(present, absent, confidence=1 - 1e-6, unit=Unit.user()).epsilon_lower > 1.0


def test_a_statement_instead_of_ids_is_written_down(tmp_path):
    people = budget_for_people(tmp_path)
    rows, labels = CASES["PrivateGaussianNB"].first
    model = CASES["PrivateGaussianNB"].make(epsilon=1.0, budget=people)
    model.fit(rows, labels, units=he.OneRowPerUser())
    assert model.guarantee_.unit == Unit.user()
    assert any("the caller's statement" in sentence for sentence in model.guarantee_.assumptions)
    assert "the caller's statement" in people.entries()[-2].event
    model.set_params(budget=None).fit(rows, labels)
    assert model.guarantee_.unit == Unit.example(), "the statement is about one fit"


def test_a_network_protects_people(tmp_path):
    torch = pytest.importorskip("torch")
    people = budget_for_people(tmp_path)
    settings = {"epsilon": 1.0, "delta": 1e-5, "data_norm": 1.0, "classes": [0, 1], "epochs": 1, "batch_size": 4}
    model = he.PrivateClassifier(torch.nn.Linear, **settings, budget=people, source=TestSource(1))
    rows = np.zeros((20, 2))
    with pytest.raises(Unsupported, match="pass units= to fit"):
        model.fit(rows, np.arange(20) % 2)
    model.fit(rows, np.arange(20) % 2, units=np.arange(20) // 2)
    assert model.guarantee_.unit == Unit.user()
    assert people.spent > 0


def test_ids_reach_a_step_of_a_pipeline_and_the_folds_of_scikit_learn():
    rows, labels = np.zeros((12, 2)), np.arange(12) % 2
    ids = np.arange(12) // 2
    purse = Purse(10)
    model = he.PrivateGaussianNB(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], budget=purse)
    pipeline = make_pipeline(he.PublicOneHotEncoder(categories=[[0.0], [0.0]]), model)
    pipeline.fit(rows, labels, privategaussiannb__units=ids)
    cross_val_score(clone(model), rows, labels, params={"units": ids}, cv=3)
    assert [charge.event.unit for charge in purse.charged] == [Unit.user()] * 4


@pytest.mark.parametrize("ids", [[1, 2], np.zeros((6, 2)), 3, np.arange(7)])
def test_ids_belong_to_rows(ids):
    with pytest.raises((HushError, ValueError), match="."):
        he.PrivateMinMaxScaler(epsilon=1.0, bounds=(0, 9)).fit(X, units=ids)


@pytest.mark.parametrize(
    "model",
    [
        he.PrivateGridSearch(
            he.PrivateGaussianNB(epsilon=1.0, bounds=(0, 9), classes=[0, 1]), {"epsilon": [1.0]}, score_epsilon=1.0
        ),
        he.LocalNaiveBayes(epsilon=1.0, bounds=(0, 9), classes=[0, 1]),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_without_a_proof_for_people_refuse(model):
    with pytest.raises(Unsupported, match="^units= of .* no proof is implemented for users"):
        model.fit(X, np.arange(6) % 2, units=IDS)


def test_votes_of_teachers_read_ids_themselves():
    settings = {"num_teachers": 2, "aggregator": he.pate.GNMax(sigma=20.0), "epsilon": 5.0, "delta": 1e-5}
    voted = he.PATEClassifier(DecisionTreeClassifier(), LogisticRegression(), **settings, classes=[0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        voted.fit(X, np.arange(6) % 2, public=X, units=IDS[:3])
