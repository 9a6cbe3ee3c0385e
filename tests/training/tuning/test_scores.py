"""Scores on private held-out examples: their noise, their sensitivity, and an audit of searches by them.

Statistical comparisons are made at p-values of 1e-8, at most six in a test. So a correct search fails a test with
probability at most 1e-7, whatever the seeds. Comments state how rarely broken twins are missed, which is less than once
in a million times. (All rates are exact sums over binomial laws, or those of chi-squared statistics.)
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import beta

from hush.accounting.events import DiscreteGaussianEvent
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.randomness import TestSource
from hush.training import Candidate, HeldOutAnswers, Repetitions, plan_tuning
from hush.training.tuning.scores import ChargedScore, PrivateScore, PublicScore
from hush.training.tuning.search import TuningPlan
from training.searches import ALARM, gaussian_cost


def quiet_total(answers: HeldOutAnswers, unit: Unit = Unit.example()) -> float:
    """The sum behind a score, plus noise that is always the same."""
    return PrivateScore(size=1).value(answers, 3.0, unit, TestSource("noise")) * 2


ODD = [math.nan, math.inf, -math.inf, 1e300, -5.0, 0.3, 1.0, 0.0]


class TestPrivateScore:
    def test_it_is_the_accuracy_with_noise(self) -> None:
        score, source = PrivateScore(size=100), TestSource("score")
        correct = torch.arange(100) < 80
        values = [score.value(HeldOutAnswers(correct), 5.0, Unit.example(), source) for _ in range(2000)]
        spread = 5.0 / 200  # half the noise on the sum of +1 and -1, over the size
        # Gaussian noise: the mean fails with probability 2e-9, the deviation, by its chi-squared law, with 3e-10.
        assert np.mean(values) == pytest.approx(0.8, abs=6 * spread / math.sqrt(2000))
        assert np.std(values) == pytest.approx(spread, rel=0.1)
        assert score.event(5.0) == DiscreteGaussianEvent(5.0 * 1024, 1024)

    @pytest.mark.parametrize("odd", ODD)
    def test_one_example_moves_the_sum_by_at_most_one(self, odd: float) -> None:
        others = [1.0, 0.0, 0.25]
        alone = quiet_total(HeldOutAnswers(np.array(others)))
        assert abs(quiet_total(HeldOutAnswers(np.array([*others, odd]))) - alone) <= 1.0
        for other in ODD:
            replaced = quiet_total(HeldOutAnswers(np.array([*others, other])))
            assert abs(quiet_total(HeldOutAnswers(np.array([*others, odd]))) - replaced) <= 2.0

    def test_a_user_counts_once(self) -> None:
        alone = quiet_total(HeldOutAnswers([True, False], units=["a", "b"]), Unit.user())
        many = HeldOutAnswers([True, False] + [True] * 500, units=["a", "b"] + ["c"] * 500)
        assert quiet_total(many, Unit.user()) - alone == pytest.approx(1.0)
        broken_twin = quiet_total(replace(many, units=None))  # as if the unit were an example
        assert broken_twin - alone > 400

    def test_an_empty_held_out_set(self) -> None:
        assert math.isfinite(quiet_total(HeldOutAnswers(np.zeros(0))))
        assert math.isfinite(quiet_total(HeldOutAnswers(np.zeros(0), units=np.zeros(0, dtype=int)), Unit.user()))

    def test_answers_that_are_refused(self) -> None:
        for answers, unit in (
            (HeldOutAnswers(0.9), Unit.example()),
            (HeldOutAnswers(np.zeros((3, 2))), Unit.example()),
            (HeldOutAnswers(["yes"]), Unit.example()),
            (HeldOutAnswers([True], units=[1]), Unit.example()),
            (HeldOutAnswers([True]), Unit.user()),
            (HeldOutAnswers([True, True], units=[1]), Unit.user()),
            (HeldOutAnswers([True, True], units=[1, None]), Unit.user()),
        ):
            with pytest.raises(InvalidArgument, match="^(correct|units)="):
                quiet_total(answers, unit)

    def test_searches_are_as_private_as_claimed(self) -> None:
        # Two models, of which the second is right about one more person. The winner reveals that person.
        plan = plan_tuning(
            [{"way": 0}, {"way": 1}],
            cost=gaussian_cost,
            score=PrivateScore(size=10),
            epsilon=0.5,
            delta=1e-2,
            repetitions=Repetitions.poisson(15.0),
        )
        assert plan.score_noise is not None
        assert certified(plan, 1e-2) <= 0.5
        # A broken twin with next to no noise: the first model wins with probability 1/2, or exp(-7.5). It is missed
        # with probability 1.3e-11.
        assert certified(replace(plan, score_noise=1e-2), 1e-2) > 0.5


def certified(plan: TuningPlan, delta: float, count: int = 250) -> float:
    """A lower bound on epsilon: how much more often the first model wins without the person than with."""
    wins = []
    for person in (False, True):
        source = TestSource(f"held out {person}")

        def train(settings: dict[str, Any], noise: float, person: bool = person) -> HeldOutAnswers:
            others = np.array([True, False] * 4)
            return HeldOutAnswers(np.append(others, settings["way"]) if person else others, settings["way"])

        runs = [plan._search(train, source) for _ in range(count)]
        wins.append(sum(run is not None and run.result == 0 for run in runs))
    low = beta.ppf(ALARM, wins[0], count - wins[0] + 1)
    high = beta.ppf(1 - ALARM, wins[1] + 1, count - wins[1])
    return math.log(max((low - delta) / high, 1e-9))


@pytest.mark.parametrize("reason", ["", "  ", "two\nlines", None])
def test_a_public_score_needs_a_reason(reason: Any) -> None:
    with pytest.raises(InvalidArgument, match="^reason="):
        PublicScore(reason)


@pytest.mark.parametrize("score", [PublicScore("made up"), ChargedScore()])
def test_scores_that_runs_compute_are_taken_as_they_are(score: Any) -> None:
    assert score.event(1.0) is None
    assert score.returned is Candidate
    assert score.value(Candidate(0.25), None, Unit.example(), TestSource(0)) == 0.25
    assert score.value(Candidate(torch.tensor(2)), None, Unit.example(), TestSource(0)) == 2.0
    assert score.value(Candidate(10**400), None, Unit.example(), TestSource(0)) == math.inf
    for wrong in ("0.5", b"1", torch.ones(2), None, [1.0]):
        with pytest.raises(InvalidArgument, match="^score="):
            score.value(Candidate(wrong), None, Unit.example(), TestSource(0))


def test_each_score_states_what_it_assumes() -> None:
    assert PublicScore("made up").assumptions(Unit.user()) == (
        "the runs were compared on data declared public: made up",
    )
    assert "includes its score" in ChargedScore().assumptions(Unit.user())[0]
    assert "no user is both held out and trained on" in PrivateScore(size=3).assumptions(Unit.user())[0]
