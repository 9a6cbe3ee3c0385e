"""Teachers: a unit is in one part and moves one vote; a teacher that fails abstains."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

from estimators.pate.blobs import LABELS, PUBLIC, TRAIN, pate
from hush.estimators import OneRowPerUser
from hush.estimators.pate.rows import private_rows
from hush.estimators.pate.teachers import assign_rows, vote
from hush.guarantee import Unit
from hush.randomness import TestSource


class Moody(ClassifierMixin, BaseEstimator):
    """Fails, warns or predicts nonsense, depending on its data."""

    def fit(self, x: Any, y: Any) -> Moody:
        if x[0, 0] > 3:
            raise RuntimeError("private!")
        warnings.warn("private!", stacklevel=1)
        self.said = 99 if x[0, 0] > 2 else int(y[0])
        return self

    def predict(self, x: Any) -> NDArray[np.int64]:
        return np.full(len(x), self.said)


def test_teachers_that_fail_abstain_in_silence() -> None:
    for first, expected in ((4.0, -1), (2.5, -1), (0.0, 1)):
        votes = vote(Moody(), np.array([[first], [0.0]]), np.array([1, 0]), np.zeros((3, 1)), 2)
        assert votes.tolist() == [expected] * 3
    assert vote(Moody(), np.zeros((0, 1)), np.zeros(0, dtype=np.int64), np.zeros((3, 1)), 2).tolist() == [-1] * 3
    assert vote(Moody(), np.full((2, 1), 9.0), np.array([1, 1]), np.zeros((3, 1)), 2).tolist() == [1] * 3
    pate(teacher=Moody()).fit(TRAIN, LABELS, public=PUBLIC)


def test_all_rows_of_a_user_have_one_teacher_and_one_user_moves_one_teacher() -> None:
    units = np.random.default_rng(8).integers(0, 100, 1000)
    assigned = assign_rows(1000, units, 20, TestSource("units"))
    owners = [set(units[part]) for part in assigned]
    assert sum(map(len, owners)) == len(set.union(*owners))
    assert sorted(np.concatenate(assigned)) == list(range(1000))
    # Coins are drawn unit by unit: without the last unit, all others stay.
    last = units.max()
    others = units[units != last]
    fewer = assign_rows(len(others), others, 20, TestSource("units"))
    changed = [
        set(units[part]) - {last} == set(units[units != last][smaller_part])
        for part, smaller_part in zip(assigned, fewer, strict=True)
    ]
    assert all(changed)
    model = pate().fit(TRAIN, LABELS, public=PUBLIC, units=np.arange(2500) // 5)
    assert model.guarantee_.unit == Unit.user()


def test_a_user_may_be_stated_to_have_one_row() -> None:
    model = pate().fit(TRAIN, LABELS, public=PUBLIC, units=OneRowPerUser())
    assert model.guarantee_.unit == Unit.user()
    assert "no person has more than one row (the caller's statement)" in model.guarantee_.assumptions
    assert model.guarantee_.epsilon <= 4.0


def test_equal_ids_have_one_teacher_however_they_are_written() -> None:
    ids = [7, 7.0, np.int64(7), "7", None, float("nan")]
    private = private_rows(TRAIN[:6], LABELS[:6], ids, np.unique(LABELS), pate())
    assert len(private.rows) == len(private.labels) == 4  # rows without an id are left out
    first, second, third, text = private.units
    assert first == second == third != text


def test_a_user_moves_one_vote() -> None:
    # With coins and teachers fixed, one user's rows change the votes of one teacher only.
    units = np.arange(2500) // 10
    votes = []
    for missing in (None, 249):
        keep = np.ones(2500, dtype=bool) if missing is None else units != missing
        rows = assign_rows(int(keep.sum()), units[keep], 25, TestSource("votes"))
        votes.append([vote(GaussianNB(), TRAIN[keep][r], LABELS[keep][r], PUBLIC, 3) for r in rows])
    moved = [t for t in range(25) if (votes[0][t] != votes[1][t]).any()]
    assert len(moved) <= 1
