"""Labels and cells are read one by one: none changes how others are read, and no message quotes one."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import hush.estimators as he
from estimators.neighbours import planned_releases
from estimators.purse import Purse
from hush.errors import InvalidArgument
from hush.estimators import PrivateGaussianNB
from hush.estimators.base.labels import with_numbers_only
from hush.numerics import number_or_nan
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
    foreign = [
        ([0, 1], np.array(["0", "1"])),
        ([0, 1], ["0", "1"]),
        ([0.0, 1.0], np.array(["0", "1"], dtype=object)),
        ([0, 1], pd.Series(["0", "1"])),
        ([0, 1], pd.Series(["0", "1"], dtype="category")),
        ([0, 1], np.array([b"0", b"1"])),
        ([0, 1], np.array(["2020", "2021"], dtype="datetime64[Y]")),
        (["a", "b"], np.array([0, 1])),
        (["a", "b"], [0, 1]),
        (["a", "b"], np.array([b"a", b"b"])),
    ]
    for classes, y in foreign:
        with pytest.raises(InvalidArgument, match="compares with classes"):
            bayes(classes=classes, budget=purse).fit(np.zeros((2, 1)), y)
    assert purse.charged == []


@pytest.mark.parametrize(
    "y",
    [
        [0.0, 1.0],
        [False, True],
        [np.int8(0), np.float32(1)],
        [Fraction(0), Decimal(1)],
        np.array([0, 1], dtype=np.uint8),
        pd.Series([0, 1], dtype="Int64"),
    ],
)
def test_numbers_of_any_type_match_numbers(monkeypatch, y):
    x = np.zeros((2, 1))
    (as_integers,), (as_given,) = (
        planned_releases(monkeypatch, lambda labels=labels: bayes().fit(x, labels)) for labels in ([0, 1], y)
    )
    assert (as_integers[1] == as_given[1]).all()


@pytest.mark.parametrize("y", [[None, None], [2, 3], ["0", 1], [1, "0"], [None, "0"]])
def test_a_label_that_is_no_class_is_dropped_and_not_refused(y):
    bayes().fit(np.zeros((2, 1)), y)  # whether it occurs depends on a row


CELLS = [1, -1.5, True, "1.5", " 1_0 ", b"1", "x", "", None, 10**400, -(10**400), 2**63 + 1, [1], (), {}, 1j, object()]
CELLS += [pd.NA, pd.NaT, np.datetime64("2020"), np.timedelta64(3, "s"), np.ma.masked, np.zeros(1), np.array(1.0)]
CELLS += [np.complex64(1j), math.inf, Fraction(1, 3), Decimal("sNaN"), np.float32(0.1), np.int8(3)]


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: type(cell).__name__)
def test_a_cell_is_read_alone_as_among_others(cell):
    expected = number_or_nan(cell)
    for others in ([], [["x", 0]], [[10**400, 0]], [[0.5, None]]):
        rows = [[cell, 0], *others]
        objects = np.empty((len(rows), 2), dtype=object)
        for index, row in enumerate(rows):
            objects[index, 0], objects[index, 1] = row
        for table in (rows, objects, pd.DataFrame(objects)):
            assert np.array_equal(np.asarray(with_numbers_only(table))[0], [expected, 0.0], equal_nan=True)


def test_tables_of_numbers_stay_as_they_are():
    for table in (
        np.zeros((2, 1), dtype=np.float32),
        pd.DataFrame({"a": [1, 2]}),
        [1, 2],
        [[1], [1, 2]],
        [[[1]], [[2]]],
    ):
        assert with_numbers_only(table) is table


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


def test_other_readers_of_rows_take_odd_cells_as_missing():
    """An encoder, clusters and a local randomizer: no error, and no message that quotes a cell."""
    rows = [[0.5, 0.5], [-0.5, 0.0], ["Ann", 0.5], [10**400, 0.5], [[1], 0.5], [1j, 0.5]]
    missing = np.array([[0.5, 0.5], [-0.5, 0.0]] + [[math.nan, 0.5]] * 4)
    encoder = he.PublicOneHotEncoder(categories=[[0.5], [0.5]])
    makers = (
        lambda X: encoder.fit(X).transform(X),
        lambda X: he.LocalRandomizer(epsilon=1.0, bounds=(-1, 1), source=TestSource(1)).fit(X).transform(X),
        lambda X: he.PrivateKMeans(
            epsilon=1.0, n_iter=1, n_clusters=2, bounds=(-1, 1), source=TestSource(1)
        ).fit_predict(X),
    )
    for make in makers:
        assert np.array_equal(make(rows), make(missing), equal_nan=True)


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean"])
def test_missing_values_of_data_frames(monkeypatch, dtype):
    column = pd.Series([True, False, pd.NA], dtype=dtype)
    frame, y = pd.DataFrame({"a": column, "b": [0.5] * 3}), pd.Series([0, 1, 1])
    array = np.array([[1.0, 0.5], [0.0, 0.5], [math.nan, 0.5]])
    releases = [
        planned_releases(monkeypatch, lambda x=x, y=y: bayes().fit(x, y))[0][1].tolist()
        for x, y in ((array, y), (frame, y), (np.ones((3, 2)) * 0.5, column), (np.ones((3, 2)) * 0.5, [1, 0, None]))
    ]
    assert releases[0] == releases[1]
    assert releases[2] == releases[3]
