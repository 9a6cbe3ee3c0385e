"""The sparse vector technique: the shares of epsilon, the noises, and the end of a session."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from hush.errors import BudgetExceeded, HushError, InvalidArgument
from hush.mechanisms import AboveThreshold, Monotone, NumericSparseVector
from hush.randomness import TestSource


def test_a_session_ends_after_its_positive_answers() -> None:
    # Laplace noise of scales 0.09 and 0.16: 90 is exceeded with e^-300 at most.
    session = AboveThreshold(epsilon=50.0, count=3).start(0.0)
    answers = [session.ask(value) for value in (-90.0, 90.0, -90.0, 90.0, 90.0)]
    assert answers == [False, True, False, True, True]
    assert session.remaining == 0
    for value in (-90.0, 90.0):
        with pytest.raises(BudgetExceeded, match="3 positive answers"):
            session.ask(value)


def test_thresholds_may_change_from_query_to_query() -> None:
    # Laplace noise of scales 0.16 and 0.42: their sum exceeds 40 with e^-90 at most.
    session = AboveThreshold(epsilon=50.0, count=9).start(100.0)
    assert session.ask(50.0) is False
    assert session.ask(50.0, threshold=10.0) is True


@pytest.mark.parametrize("count", [1, 4, 50])
@pytest.mark.parametrize(("sensitivity", "directions"), [(3.0, 2), (Monotone(3.0), 1)])
@pytest.mark.parametrize("share", [None, 0.5, 0.2])
def test_the_shares_add_up(count: int, sensitivity: Any, directions: int, share: float | None) -> None:
    """epsilon = D / t_1 + (2) c D / t_2 + c D / t_3, in steps of the grid (Lyu, Su & Li 2017, Theorem 4)."""
    settings: dict[str, Any] = {"epsilon": 0.8, "sensitivity": sensitivity, "count": count}
    mechanism = AboveThreshold(**settings) if share is None else NumericSparseVector(**settings, numeric_share=share)
    step = 3.0 / mechanism._grid.spacing + 1  # a query that is rounded moves by up to one step more
    first, second, third = mechanism._scales
    spent = step / first + directions * count * step / second + (count * step / third if third else 0.0)
    assert 0.79 < spent <= 0.8
    assert bool(third) == (share is not None)


def test_the_noisy_threshold_is_drawn_once_and_queries_have_their_own_noise() -> None:
    """Answers within a session are correlated through the threshold, but not equal."""
    mechanism = AboveThreshold(epsilon=1.0, count=2)
    source = TestSource(11)
    first, twice = 0, 0
    for _ in range(8000):
        session = mechanism.start(0.0, source)
        a, b = session.ask(0.0), session.ask(0.0)
        first, twice = first + a, twice + (a and b)
    # Probabilities 1/2 and, by integration over the threshold, 0.3039. False alarms: 3e-8, of P(twice < 0.276). Of
    # independent answers 6e-8 pass.
    assert 0.45 < first / 8000 < 0.55
    assert 0.276 < twice / 8000 < 0.45, "independent would be 0.25, the same noise 0.5"


def test_values_have_fresh_noise() -> None:
    mechanism = NumericSparseVector(epsilon=2.0)
    source = TestSource(12)
    errors = np.array([mechanism.start(0.0, source).ask(500.0) - 500.0 for _ in range(3000)])
    # Laplace noise of scale 1: the means of 3,000 deviate by 0.018 and 0.026, so 8.2 and 7.7 standard deviations.
    assert np.abs(errors).mean() == pytest.approx(mechanism._scales[2] * mechanism._grid.spacing, rel=0.15)
    assert abs(errors.mean()) < 0.2, "noise of the comparison would show as a bias"


def test_sessions_cannot_be_duplicated() -> None:
    session = AboveThreshold(epsilon=1.0).start(0.0)
    for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(HushError, match="cannot be copied"):
            attempt(session)


def test_a_forked_session_does_not_answer() -> None:
    session = AboveThreshold(epsilon=1.0).start(0.0)
    with warnings.catch_warnings():  # from Python 3.12 on: other threads of the test run may exist
        warnings.filterwarnings("ignore", "This process", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 0
        try:
            session.ask(1.0)
        except HushError:
            status = 7
        finally:  # whatever happens, this is not a second run of the tests
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    session.ask(1.0)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf"), "3", None, [1.0, 2.0]])
def test_thresholds_are_public_numbers(threshold: Any) -> None:
    with pytest.raises(InvalidArgument, match="^threshold"):
        AboveThreshold(epsilon=1.0).start(threshold)


@pytest.mark.parametrize("share", [0, 1.0, 1.5, float("nan")])
def test_shares_are_shares(share: float) -> None:
    with pytest.raises(InvalidArgument, match="^numeric_share="):
        NumericSparseVector(epsilon=1.0, numeric_share=share)


def test_threads_get_no_more_answers_than_one() -> None:
    session = AboveThreshold(epsilon=100.0, count=3).start(0.0)
    positive: list[bool] = []

    def ask() -> None:
        for _ in range(200):
            try:
                positive.append(session.ask(1e6))
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(positive) == 3
    assert session.remaining == 0
