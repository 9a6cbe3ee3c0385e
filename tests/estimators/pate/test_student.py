"""The student: factories, semi-supervised students, and too few answers."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.semi_supervised import SelfTrainingClassifier

from estimators.pate.blobs import LABELS, PUBLIC, TRAIN, Y, pate
from hush.estimators.pate import ConfidentGNMax


def test_factories_and_semi_supervised_students() -> None:
    model = pate(
        teacher=lambda: GaussianNB(),
        student=lambda: SelfTrainingClassifier(LogisticRegression()),
        semi_supervised=True,
        epsilon=3.0,
    ).fit(TRAIN, LABELS, public=PUBLIC)
    assert model.score(PUBLIC, Y[2500:]) > 0.8


def test_a_student_without_answers_is_constant_and_says_so() -> None:
    silent = ConfidentGNMax(threshold=1e6, sigma_threshold=20.0, sigma=8.0)
    with pytest.warns(UserWarning, match="fewer than two classes"):
        model = pate(aggregator=silent).fit(TRAIN, LABELS, public=PUBLIC)
    assert set(model.predict(PUBLIC)) == {0}
    assert model.num_answered_ == 0
