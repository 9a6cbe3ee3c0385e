"""The student: it is taught public rows and what was released about them, in one round or several."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier

from hush.errors import InvalidArgument
from hush.estimators.pate.aggregators import VoteAggregator, VoteAnswers
from hush.estimators.pate.noise import Counts, Labels
from hush.estimators.pate.teachers import made
from hush.randomness import RandomSource


def ask_and_teach(
    student: Any,
    questions: Any,
    counts: Counts,
    aggregator: VoteAggregator,
    source: RandomSource,
    *,
    limit: Fraction,
    num_teachers: int,
    semi_supervised: bool,
) -> tuple[Any, VoteAnswers]:
    """Return a student and what it was taught; in several rounds, if the aggregator wants the student's predictions."""
    left, found = limit, list[VoteAnswers]()
    fitted: Any = None
    for some in np.array_split(np.arange(len(questions)), aggregator.num_rounds):
        guesses = None if fitted is None else probabilities(fitted, questions[some], counts.shape[1])
        answers = aggregator.answer(counts[some], source, limit=left, predictions=guesses, num_teachers=num_teachers)
        left -= answers.spent
        found.append(answers)
        labels = np.concatenate([one.labels for one in found])
        fitted = _taught(student, questions, labels, semi_supervised=semi_supervised)
        if answers.num_asked < len(some):
            break
    return fitted, _joined(found, *counts.shape)


def _taught(student: Any, questions: Any, labels: Labels, *, semi_supervised: bool) -> Any:
    """Return a student of the answers so far: all that it sees is public, or was paid for."""
    known = labels >= 0
    if len(np.unique(labels[known])) < 2:
        warnings.warn("the answers have fewer than two classes: the student says always the same", stacklevel=5)
        constant = int(labels[known][0]) if known.any() else 0
        return DummyClassifier(strategy="constant", constant=constant).fit(questions[:1], [constant])
    if semi_supervised:
        padded = np.full(len(questions), -1, dtype=np.int64)
        padded[: len(labels)] = labels
        return made(student).fit(questions, padded)
    return made(student).fit(questions[: len(labels)][known], labels[known])


def probabilities(student: Any, rows: Any, num_classes: int) -> NDArray[np.float64]:
    """Return a fitted student's probabilities, one column for every class, those it never saw too."""
    if not hasattr(student, "predict_proba"):
        raise InvalidArgument("student", student, "one with predict_proba", "InteractiveGNMax asks for it")
    found: NDArray[np.float64] = np.zeros((len(rows), num_classes), dtype=np.float64)
    found[:, np.asarray(student.classes_, dtype=np.int64)] = student.predict_proba(rows)
    return found


def _joined(found: list[VoteAnswers], num_queries: int, num_classes: int) -> VoteAnswers:
    """Return all rounds as one, those not reached as not asked."""
    missing = num_queries - sum(len(one.labels) for one in found)
    labels = np.concatenate([*(one.labels for one in found), np.full(missing, -1, dtype=np.int64)])
    consulted = np.concatenate([*(one.consulted for one in found), np.zeros(missing, dtype=np.bool_)])
    expected = np.zeros((num_queries, num_classes), dtype=np.int64)
    start = 0
    for one in found:
        if one.expected is not None:
            expected[start : start + len(one.labels)] = one.expected
        start += len(one.labels)
    spent = sum((one.spent for one in found), Fraction(0))
    return VoteAnswers(labels, consulted, sum(one.num_asked for one in found), spent, expected)
