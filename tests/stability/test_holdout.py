"""A reusable holdout: it stays accurate under many queries, is private, and refuses what it must."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.audit.testers import audit_mechanism
from hush.errors import BudgetExceeded, InvalidArgument
from hush.guarantee import Relation
from hush.randomness import RandomSource, TestSource
from hush.stability import ReusableHoldout
from hush.stability.holdout import _mean


def reusable(training: Any, holdout: Any, **settings: Any) -> ReusableHoldout:
    arguments: dict[str, Any] = {"epsilon": 1.0, "max_overfits": 5, "tolerance": 0.1, "source": TestSource(1)}
    return ReusableHoldout((training,), (holdout,), **arguments | settings)


def identity(values: Any) -> Any:
    return values


def test_agreeing_queries_return_the_training_mean_for_free() -> None:
    # Laplace noise of scales 0.0023 and 0.0049 takes one of 50 comparisons across 0.09 with probability 3e-7.
    holdout = reusable(np.full(5000, 0.3), np.full(5000, 0.31))
    answers = [holdout.ask(identity) for _ in range(50)]
    assert all(not answer.overfitted and abs(answer.value - 0.3) < 1e-8 for answer in answers)
    assert holdout.remaining == 5


def test_disagreeing_queries_release_the_holdout_mean_with_noise_and_are_counted() -> None:
    holdout = reusable(np.full(5000, 0.9), np.full(5000, 0.3), max_overfits=2)
    answer = holdout.ask(identity)
    assert answer.overfitted
    assert 0 < abs(answer.value - 0.3) < 0.05  # Laplace noise of scale 0.0008: e^-62
    assert holdout.ask(identity).value != answer.value
    with pytest.raises(BudgetExceeded):
        holdout.ask(identity)


def test_values_are_clamped_and_nan_is_zero() -> None:
    values = np.full(5000, 0.5)
    for strange in (math.nan, math.inf, -math.inf, 1e300, -7.0):
        neighbour = values.copy()
        neighbour[0] = strange
        means = [_mean(reusable(values, rows)._holdout_values(identity), 5000) for rows in (values, neighbour)]
        assert abs(means[0] - means[1]) <= (1 + 1e-6) / 5000


def test_errors_of_a_query_reveal_nothing_about_a_row() -> None:
    # Laplace noise of scale 0.0025: more than 0.1 with probability e^-40.
    training, holdout = ["1"] * 20, ["0"] * 10 + ["Bob"] + ["1"] * 9
    settings = {"tolerance": 0.3, "epsilon": 200.0}
    assert reusable(training, holdout, **settings).ask(identity).value == pytest.approx(0.45, abs=0.1)

    def fails_on_bob(values: Any) -> Any:
        if "Bob" in values:
            raise KeyError(values)
        return [value == "1" for value in values]

    assert reusable(training, holdout, **settings).ask(fails_on_bob).value == pytest.approx(0.45, abs=0.1)


def test_an_exhausted_holdout_is_not_touched() -> None:
    first_values = []
    holdout = reusable(np.full(5000, 0.9), np.full(5000, 0.3), max_overfits=1)
    holdout.ask(identity)
    with pytest.raises(BudgetExceeded):
        holdout.ask(lambda values: first_values.append(values[0]) or values)
    assert first_values == [0.9]


def test_proven_width_falls_with_rows_and_grows_with_queries() -> None:
    small, large = (reusable(np.zeros(n), np.zeros(n), epsilon=0.05, max_overfits=3) for n in (10_000, 1_000_000))
    assert large.proven_width(100) < small.proven_width(100)
    assert large.proven_width(100) < large.proven_width(10_000)
    assert 0.1 + math.expm1(0.05) < large.proven_width(100) < 0.2


def test_the_guarantee_is_under_replacement() -> None:
    holdout = reusable(np.zeros(10), np.zeros(10))
    assert holdout.guarantee.epsilon == 1.0
    assert holdout.guarantee.relation is Relation.REPLACE


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.0},
        {"epsilon": math.nan},
        {"max_overfits": 0},
        {"tolerance": 1.5},
        {"tolerance": math.nan},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        reusable(np.zeros(10), np.zeros(10), **settings)


def test_invalid_rows_and_queries_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="training"):
        ReusableHoldout((np.zeros(3), np.zeros(4)), (np.zeros(3),), epsilon=1, max_overfits=1, tolerance=0.1)
    with pytest.raises(InvalidArgument, match="one number for each row"):
        reusable(np.zeros(10), np.zeros(10)).ask(lambda values: values[:5])


def test_a_holdout_cannot_be_copied() -> None:
    with pytest.raises(Exception, match="copied"):
        pickle.dumps(reusable(np.zeros(10), np.zeros(10)))


def test_a_budget_is_charged_once_before_any_query(tmp_path: Path) -> None:
    from hush.ledger import TestLedger

    ledger = TestLedger(f"sqlite:///{tmp_path}/privacy.db")
    budget = ledger.budget("held out", epsilon=1.5, delta=0, unit="example", relation=Relation.REPLACE)
    holdout = reusable(np.zeros(1000), np.zeros(1000), budget=budget)
    holdout.ask(identity)
    assert budget.spent == 1.0
    with pytest.raises(BudgetExceeded):
        reusable(np.zeros(1000), np.zeros(1000), budget=budget)


@pytest.mark.parametrize("broken", [False, True])
def test_an_audit_with_one_replaced_row_passes_and_catches_a_broken_twin(broken: bool) -> None:
    def release(rows: Any, source: RandomSource) -> Any:
        holdout = reusable(np.zeros(3), rows, epsilon=1.0, max_overfits=1, tolerance=0.4, source=source)
        if broken:  # far too little noise on the value
            holdout._value = type(holdout._value)(epsilon=20.0, sensitivity=1 / 3, relation=Relation.REPLACE)
        answer = holdout.ask(identity)
        return np.array([answer.value, float(answer.overfitted)])

    rows, neighbour = np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 1.0])
    # False alarms: 1e-7. The broken twin shows 2.51 or so, with a standard deviation of 0.05 over seeds.
    result = audit_mechanism(release, rows, neighbour, samples=500, confidence=1 - 1e-7, source=TestSource(3))
    assert (result.epsilon_lower > 1.0) == broken


def accuracy_of_selected_features(*, private: bool) -> float:
    """The experiment of the paper. Labels are coins; features are chosen on the training rows, then by the holdout.

    A feature is used if the holdout agrees with the training rows about its sign. The result is the accuracy that the
    holdout reports for a linear classifier on the chosen features. The truth is 1/2.
    """
    rng = np.random.default_rng(3)
    n, d, k = 2000, 2400, 800
    x = rng.standard_normal((2 * n, d)).astype(np.float32)
    y = rng.choice([-1.0, 1.0], 2 * n).astype(np.float32)
    training, held_out = (x[:n], y[:n]), (x[n:], y[n:])
    correlations = training[0].T @ training[1] / n
    settings: dict[str, Any] = {"epsilon": 10.0, "max_overfits": 20, "tolerance": 0.15, "source": TestSource(9)}
    holdout = ReusableHoldout(training, held_out, **settings)

    def mean(query: Any) -> float:
        return holdout.ask(query).value if private else float(np.mean(query(*held_out)))

    best = np.argsort(-np.abs(correlations))[: 3 * k]
    chosen = [j for j in best if (mean(lambda x, y, j=j: x[:, j] * y > 0) - 0.5) * correlations[j] > 0][:k]
    signs = np.sign(correlations[chosen])
    return mean(lambda x, y: (x[:, chosen] @ signs) * y > 0)


def test_a_naive_holdout_is_overfitted_and_a_reusable_one_is_not() -> None:
    # Over 30 seeds the naive holdout says 0.662, with a standard deviation of 0.0105: 6.9 of them above 0.59. The
    # reusable one returns a share of 2,000 coins, with 0.0112, and noise of 0.002: within 6.6 of them.
    assert accuracy_of_selected_features(private=False) > 0.59
    assert abs(accuracy_of_selected_features(private=True) - 0.5) < 0.075
