"""The student: a model trained on public rows and the released answers, in one round or several."""

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
from hush.estimators.pate.teachers import new_estimator
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
    """Ask the queries and train a student on the answers; in several rounds if the aggregator needs predictions.

    Args:
        student: An estimator, or a function that returns one.
        questions: Public rows.
        counts: Votes, one row per question: private.
        aggregator: Turns votes into answers.
        source: Random source.
        limit: Budget of all queries, in the aggregator's unit.
        num_teachers: Number of teachers.
        semi_supervised: Whether the student also gets the questions without an answer, as class -1.
    """
    remaining, rounds = limit, list[VoteAnswers]()
    fitted: Any = None
    for part in np.array_split(np.arange(len(questions)), aggregator.num_rounds):
        predictions = None if fitted is None else probabilities(fitted, questions[part], counts.shape[1])
        answers = aggregator.answer(
            counts[part], source, limit=remaining, predictions=predictions, num_teachers=num_teachers
        )
        # What a round spent depends on its outcomes. The next one gets the rest, so the filter covers all rounds at
        # once.
        remaining -= answers.spent
        rounds.append(answers)
        labels = np.concatenate([answered.labels for answered in rounds])
        fitted = _fit_student(student, questions, labels, semi_supervised=semi_supervised)
        # The budget is used up, and stays so.
        if answers.num_asked < len(part):
            break
    return fitted, _join_rounds(rounds, *counts.shape)


def _fit_student(student: Any, questions: Any, labels: Labels, *, semi_supervised: bool) -> Any:
    """Return a student trained on the answers so far. It sees only public rows and released answers."""
    # Queries without an answer are known from the release, so leaving them out reveals nothing more.
    known = labels >= 0
    if len(np.unique(labels[known])) < 2:
        warnings.warn("the answers have fewer than two classes: the student always predicts the same", stacklevel=5)
        # Estimators refuse to fit a single class.
        constant = int(labels[known][0]) if known.any() else 0
        return DummyClassifier(strategy="constant", constant=constant).fit(questions[:1], [constant])
    if semi_supervised:
        # -1 is how scikit-learn's semi-supervised estimators mark rows without a label.
        padded = np.full(len(questions), -1, dtype=np.int64)
        padded[: len(labels)] = labels
        return new_estimator(student).fit(questions, padded)
    return new_estimator(student).fit(questions[: len(labels)][known], labels[known])


def probabilities(student: Any, rows: Any, num_classes: int) -> NDArray[np.float64]:
    """Return a student's probabilities with a column for every class, including those that it never saw."""
    if not hasattr(student, "predict_proba"):
        raise InvalidArgument("student", student, "an estimator with predict_proba", "InteractiveGNMax needs it")
    columns: NDArray[np.float64] = np.zeros((len(rows), num_classes), dtype=np.float64)
    # A class that was never an answer has no column in the student's own output.
    columns[:, np.asarray(student.classes_, dtype=np.int64)] = student.predict_proba(rows)
    return columns


def _join_rounds(rounds: list[VoteAnswers], num_queries: int, num_classes: int) -> VoteAnswers:
    """Return the answers of all rounds as one; queries that were not reached count as not asked."""
    missing = num_queries - sum(len(answers.labels) for answers in rounds)
    labels = np.concatenate([*(answers.labels for answers in rounds), np.full(missing, -1, dtype=np.int64)])
    consulted = np.concatenate([*(answers.consulted for answers in rounds), np.zeros(missing, dtype=np.bool_)])
    expected = np.zeros((num_queries, num_classes), dtype=np.int64)
    start = 0
    for answers in rounds:
        if answers.expected is not None:
            expected[start : start + len(answers.labels)] = answers.expected
        start += len(answers.labels)
    spent = sum((answers.spent for answers in rounds), Fraction(0))
    return VoteAnswers(labels, consulted, sum(answers.num_asked for answers in rounds), spent, expected)
