"""A holdout in parts: every part is used once, and the width is Hoeffding's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from hush.errors import BudgetExceeded, InvalidArgument
from hush.stability import SplitHoldout
from hush.stability.split_holdout import split_width


def test_every_question_has_rows_of_its_own() -> None:
    split = SplitHoldout((np.arange(11),), num_queries=3)
    rows = [[], [], []]
    for seen in rows:
        split.ask(lambda x, seen=seen: seen.extend(x.tolist()) or np.zeros(len(x)))
    assert rows == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]
    with pytest.raises(BudgetExceeded, match="every part was used"):
        split.ask(lambda x: x)


def test_the_width_is_that_of_the_smallest_parts() -> None:
    split = SplitHoldout((np.zeros(1000),), num_queries=4)
    assert split.width(0.95) == pytest.approx(math.sqrt(math.log(2 * 4 / 0.05) / 500))
    assert split_width(3, 4, 0.95) == 1.0


def test_the_width_holds_however_queries_are_chosen() -> None:
    # Each question is about the rows that the last answer favoured: coins, with a mean of 1/2.
    rng = np.random.default_rng(8)
    failures, runs = 0, 400
    for _ in range(runs):
        split = SplitHoldout((rng.integers(0, 2, size=(200, 5)),), num_queries=5)
        column, worst = 0, 0.0
        for _ in range(5):
            answer = split.ask(lambda x, column=column: x[:, column])
            worst, column = max(worst, abs(answer - 0.5)), column if answer > 0.5 else (column + 1) % 5
        failures += worst > split.width(0.8)
    assert failures <= binom.isf(1e-6, runs, 0.2)  # fixed seed


def test_more_questions_than_rows_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="at most 3"):
        SplitHoldout((np.zeros(3),), num_queries=4)


def test_queries_cannot_change_rows() -> None:
    rows = np.ones(10)
    split = SplitHoldout((rows,), num_queries=2)
    with pytest.raises(ValueError, match="read-only"):
        split.ask(lambda x: np.add(x, -3.0, out=x))
    rows[:] = 0.0
    assert split.ask(lambda x: x) == 1.0
