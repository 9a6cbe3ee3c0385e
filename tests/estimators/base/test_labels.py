"""Labels and cells are read one by one: none changes how others are read, and no message quotes one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone

import hush.estimators as he
from estimators.neighbours import planned_releases
from estimators.purse import Purse
from hush.errors import InvalidArgument
from hush.estimators import PrivateGaussianNB
from hush.randomness import TestSource


def bayes(**changes):
    return he.PrivateGaussianNB(
        **{"epsilon": 1.0, "bounds": (-1, 1), "classes": [0, 1], "source": TestSource(1)} | changes
    )


@pytest.mark.parametrize("strange", ["x", None, [1], {}, math.nan, 1 + 2j, object()])
def test_one_label_of_a_list_does_not_change_how_others_are_read(monkeypatch, strange):
    x, y = np.zeros((200, 1)), [0, 1] * 100
    (before,), (after,) = (
        planned_releases(monkeypatch, lambda x=x, y=y: bayes().fit(x, y))
        for x, y in ((x, y), (np.zeros((201, 1)), [*y, strange]))
    )
    assert (before[1] == after[1]).all()  # the row with the undeclared label is dropped, and all others count


@pytest.mark.parametrize("strange", ["x", None, [1], {}, math.nan, 1 + 2j, 10**400, object()])
def test_one_cell_does_not_make_a_fit_fail(strange):
    """Whether a fit fails would tell two neighbours apart, and nothing was charged for it."""
    rows, y = [[number / 100, 0.5] for number in range(200)], [0, 1] * 100
    model = he.PrivateRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-1, 1))
    first, second = (
        clone(model).set_params(source=TestSource(1)).fit([*rows, [cell, 0.5]], [*y, 0]).coef_.tolist()
        for cell in (math.nan, strange)
    )
    assert first == second


def test_one_target_of_a_list_does_not_change_how_others_are_read():
    model = he.PrivateRidge(epsilon=1.0, delta=1e-6, data_norm=1.0, target_bounds=(-1, 1), source=TestSource(1))
    x = np.linspace(-1, 1, 201)[:, None]
    y = [0.5] * 200
    first, second = (clone(model).set_params(source=TestSource(1)).fit(x, [*y, last]).coef_ for last in (None, "Ann"))
    assert first == second


def test_the_type_of_an_array_of_labels_is_public():
    purse = Purse(1)
    for classes, y in (([0, 1], np.array(["0", "1"])), (["a", "b"], np.array([0, 1]))):
        with pytest.raises(InvalidArgument, match="compares with classes"):
            bayes(classes=classes, budget=purse).fit(np.zeros((2, 1)), y)
    assert purse.charged == []


def test_no_message_quotes_a_cell():
    with pytest.raises(ValueError, match="text") as caught:
        bayes().fit(np.array([["Ann"], ["1.0"]]), [0, 1])
    assert "Ann" not in str(caught.value)


@pytest.mark.parametrize("wrong", [{0, 1}, [0, "a"], "ab", [0], [0, 0], 3, None, [[0, 1]]])
def test_wrong_classes(wrong):
    with pytest.raises(InvalidArgument, match="classes"):
        bayes(classes=wrong)


def test_labels_of_other_types():
    x = np.linspace(-1, 1, 1000)[:, None]
    y = np.where(x[:, 0] > 0, "yes", "no")
    model = PrivateGaussianNB(epsilon=5.0, bounds=(-1, 1), classes=["yes", "no"], source=TestSource(1)).fit(x, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.score(x, y) > 0.9
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(1)
