"""`audit_scores`, `audit_one_run` and `best_of`: what they compute, correct for, and refuse."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm

from hush.audit import (
    Bonferroni,
    ClopperPearson,
    Explicit,
    GaussianDP,
    Jeffreys,
    MultiSplit,
    OneRun,
    OneRunFDP,
    SplitScores,
    audit_one_run,
    audit_scores,
    best_of,
    epsilon_from_counts,
)
from hush.audit.bounds.one_run import one_run_epsilon
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Bound


def test_ties_pass_the_threshold_together() -> None:
    result = audit_scores([1.0, 1.0, 0.0], [1.0, 0.0, 0.0], threshold=Explicit(1.0))
    assert (result.details["tp"], result.details["fp"]) == (2, 1)


def test_infinite_scores_are_allowed() -> None:
    inside, outside = np.repeat([math.inf, -math.inf], [190, 10]), np.repeat([math.inf, -math.inf], [10, 190])
    finite = audit_scores(np.clip(inside, -1, 1), np.clip(outside, -1, 1))
    assert audit_scores(inside, outside).epsilon_lower == pytest.approx(finite.epsilon_lower)
    assert finite.epsilon_lower > 1


@pytest.mark.parametrize("method", [ClopperPearson(), GaussianDP(), OneRun(), OneRunFDP()], ids=str)
def test_constant_scores_show_nothing(method: Any) -> None:
    for value in (0.0, math.inf, -math.inf):
        assert audit_scores([value] * 50, [value] * 50, delta=1e-3, method=method).epsilon_lower == 0


def test_trials_weaken_the_bound() -> None:
    inside, outside = norm.ppf(expit(np.linspace(-5, 5, 200))) + 2, norm.ppf(expit(np.linspace(-5, 5, 200)))
    single, tenfold = (audit_scores(inside, outside, num_trials=trials) for trials in (1, 10))
    same_error = audit_scores(inside, outside, confidence=0.995)
    assert single.epsilon_lower > tenfold.epsilon_lower == pytest.approx(same_error.epsilon_lower)
    assert (tenfold.confidence, tenfold.details["num_trials"]) == (0.95, 10)


INVALID: list[tuple[dict[str, Any], str]] = [
    ({"scores_in": []}, "scores_in="),
    ({"scores_out": []}, "scores_out="),
    ({"scores_in": [1.0, math.nan]}, "scores_in=.*NaN"),
    ({"scores_in": [[1.0]]}, "scores_in="),
    ({"scores_in": ["a"]}, "scores_in="),
    ({"confidence": 1.0}, "confidence="),
    ({"confidence": math.nan}, "confidence="),
    ({"confidence": 95}, "confidence="),
    ({"delta": 1.0}, "delta="),
    ({"delta": math.nan}, "delta="),
    ({"num_trials": 0}, "num_trials="),
    ({"method": "clopper-pearson"}, "method="),
    ({"threshold": "bonferroni"}, "threshold="),
    ({"method": GaussianDP()}, "delta="),
    ({"threshold": SplitScores()}, "fraction="),
    ({"method": OneRun(num_guesses=3)}, "num_guesses="),
    ({"method": OneRun(num_guesses=1), "threshold": Bonferroni()}, "threshold="),
    ({"method": Jeffreys(), "threshold": Bonferroni()}, "Jeffreys over all"),
    ({"method": OneRunFDP(), "threshold": Explicit(0.0), "delta": 0.1}, "OneRunFDP at a threshold"),
]


@pytest.mark.parametrize(("change", "message"), INVALID)
def test_invalid_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"scores_in": [1.0], "scores_out": [0.0], **change}
    with pytest.raises(HushError, match=message):
        audit_scores(arguments.pop("scores_in"), arguments.pop("scores_out"), **arguments)


def test_one_run_is_the_bound_of_its_guesses() -> None:
    rng = np.random.default_rng(3)
    coins = rng.random(1000) < 0.5
    scores = coins * 2 + rng.normal(size=1000)
    result = audit_one_run(scores, coins, num_guesses=100, num_out_guesses=50, delta=1e-6)
    correct = int(result.details["num_correct"])
    assert result.details["num_guesses"] == 150
    assert result.epsilon_lower == one_run_epsilon(1000, 150, correct, significance=0.050000000000000044, delta=1e-6)
    same = audit_scores(scores[coins], scores[~coins], delta=1e-6, method=OneRun(num_guesses=100, num_out_guesses=50))
    assert same == result
    assert any("coin" in sentence for sentence in result.assumptions)


def test_rules_choose_the_guesses_of_one_run() -> None:
    rng = np.random.default_rng(2)
    coins = rng.random(1000) < 0.5
    scores = rng.normal(size=1000) + 4 * coins
    # The explicit threshold shows least: 3.3 over 20 seeds, with a standard deviation of 0.22.
    for rule in (Bonferroni(), Explicit(2.0), SplitScores(), MultiSplit(num_splits=5)):
        assert audit_one_run(scores, coins, threshold=rule).epsilon_lower > 1.5
    same = audit_scores(scores[coins], scores[~coins], method=OneRun(), threshold=Explicit(2.0))
    assert audit_one_run(scores, coins, threshold=Explicit(2.0)) == same
    with pytest.raises(InvalidArgument, match="threshold="):
        audit_one_run(scores, coins, num_guesses=5, threshold=SplitScores())


@pytest.mark.parametrize("rule", [SplitScores(), MultiSplit(num_splits=3)], ids=str)
def test_canaries_in_unknown_order_are_not_split(rule: Any) -> None:
    rng = np.random.default_rng(1)
    for method in (OneRun(), OneRunFDP()):
        with pytest.raises(InvalidArgument, match="use audit_one_run"):
            audit_scores(rng.normal(size=90), rng.normal(size=93), delta=1e-3, method=method, threshold=rule)
    with pytest.raises(InvalidArgument, match="does not depend on the coins"):
        audit_one_run(rng.normal(size=100), np.arange(100) < 50, threshold=rule)


@pytest.mark.parametrize(
    "arguments",
    [
        {"scores": [1.0, 2.0], "included": [1, 0]},
        {"scores": [1.0, 2.0], "included": [True]},
        {"scores": [1.0, 2.0], "included": [True, True]},
        {"scores": [1.0, math.nan], "included": [True, False]},
        {"scores": [1.0, 2.0], "included": [True, False], "num_guesses": 3},
        {"scores": [1.0, 2.0], "included": [True, False], "num_guesses": 0},
    ],
)
def test_invalid_runs_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        audit_one_run(**{"num_guesses": 1, **arguments})


def test_the_best_of_several() -> None:
    audits = [epsilon_from_counts(tp, 100, 10, 100, num_trials=3) for tp in (20, 80, 50)]
    assert best_of(audits) is audits[1]
    assert best_of(audits[:1]) is audits[0]


def test_the_best_of_more_than_were_corrected_for_is_refused() -> None:
    audits = [epsilon_from_counts(tp, 100, 10, 100, num_trials=2) for tp in (20, 80, 50)]
    with pytest.raises(InvalidArgument, match="num_trials=3"):
        best_of(audits)
    assert best_of(audits[1:]) is audits[1]
    with pytest.raises(InvalidArgument):
        best_of([audits[0], replace(audits[1], delta=0.1)])
    with pytest.raises(InvalidArgument):
        best_of([replace(audits[0], bound=Bound.ESTIMATE)])
    with pytest.raises(InvalidArgument):
        best_of([])
