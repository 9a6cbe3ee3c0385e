"""The search: the best run wins, ties are fair, failures lose, and wrong results are refused.

Statistical comparisons are made at p-values of 1e-8, at most six in a test. So a correct search fails a test with
probability at most 1e-7, whatever the seeds. Comments state how rarely broken twins are missed, which is less than once
in a million times. (All rates are exact sums over binomial laws, or those of chi-squared statistics.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import poisson
from torch import nn

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import Candidate, HeldOutAnswers, Repetitions
from randomness.scripted import ScriptedSource
from training.searches import LAWS, planned, within


class TestSelection:
    # Where a test needs several runs, the law is Poisson with a large mean: fewer than two runs have probability 1e-30.

    def test_the_largest_score_wins(self) -> None:
        # One of the five settings is left out with probability 5 exp(-200 / 5) = 2e-17.
        plan = planned(Repetitions.poisson(200.0), [{"way": way} for way in range(5)])
        seen: list[int] = []

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            seen.append(settings["way"])
            return Candidate(score=-abs(settings["way"] - 3), result=settings["way"])

        best = plan.run(train, source=TestSource(1), progress=False)
        assert len(set(seen)) == 5
        assert (best.settings, best.score, best.result) == ({"way": 3}, 0.0, 3)
        assert best.found

    def test_ties_are_broken_evenly(self) -> None:
        plan = planned(Repetitions.poisson(12.0))
        source, firsts, count = TestSource("ties"), 0, 0
        shares = []
        for _ in range(400):
            number = iter(range(10_000))
            best = plan._search(lambda settings, noise, number=number: Candidate(1.0, next(number)), source)  # type: ignore[misc]
            runs = next(number)
            if best is not None:
                shares.append((best.result + 0.5) / runs)
                firsts, count = firsts + (best.result == 0), count + 1
        # Uniform over the runs: the first wins with probability 1 / K, and relative positions average one half. Such a
        # variable is sub-Gaussian with its own variance, at most 1 / 12: 2 exp(-36 / 2) = 3e-8.
        assert abs(np.mean(shares) - 0.5) < 6 / math.sqrt(12 * count)
        k = np.arange(1, 200)
        law = poisson.pmf(k, 12.0) / -np.expm1(-12.0)
        assert within(firsts, count, float(law @ (1 / k)))

    @pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), 10**400])
    def test_scores_that_are_not_finite_lose(self, score: Any) -> None:
        plan = planned(
            Repetitions.poisson(100.0), [{"way": 0}, {"way": 1}]
        )  # both occur, except with probability 2 exp(-50)

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            return Candidate(score if settings["way"] else -1e300, settings["way"])

        best = plan.run(train, source=TestSource(2), progress=False)
        assert (best.result, best.score) == (0, -1e300)

    def test_failed_runs_lose_silently(self, capfd: pytest.CaptureFixture[str]) -> None:
        plan = planned(
            Repetitions.poisson(100.0), [{"way": 0}, {"way": 1}]
        )  # both occur, except with probability 2 exp(-50)

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            if settings["way"]:
                raise RuntimeError("record 17 is singular")
            return Candidate(0.0, "survived")

        best = plan.run(train, source=TestSource(3), progress=False)
        assert best.result == "survived"
        none = planned(LAWS["logarithmic"]).run(lambda settings, noise: 1 / 0, source=TestSource(4), progress=False)  # type: ignore[arg-type, return-value]
        assert (none.score, none.result, none.found) == (-math.inf, None, False)
        assert none.guarantee.epsilon <= 2.0
        assert "singular" not in "".join(capfd.readouterr())

    def test_no_run_at_all(self) -> None:
        plan = planned(Repetitions.poisson(3.0))
        nothing_drawn = ScriptedSource([0] * 4)  # the smallest number of runs, which is 0
        none = plan.run(lambda settings, noise: Candidate(1.0), source=nothing_drawn, progress=False)
        assert (none.settings, none.score, none.result, none.noise_multiplier, none.found) == (None,) * 4 + (False,)
        assert none.guarantee == plan.guarantee(("test randomness",))

    def test_errors_of_hush_and_interrupts_end_the_search(self) -> None:
        def wrong(settings: dict[str, Any], noise: float) -> Candidate:
            raise InvalidArgument("batch_size", 0, "an integer >= 1")

        def stopped(settings: dict[str, Any], noise: float) -> Candidate:
            raise KeyboardInterrupt

        with pytest.raises(InvalidArgument, match="^batch_size="):
            planned(LAWS["logarithmic"]).run(wrong, progress=False)
        with pytest.raises(KeyboardInterrupt):
            planned(LAWS["logarithmic"]).run(stopped, progress=False)

    @pytest.mark.parametrize("outcome", [None, 0.5, HeldOutAnswers([True]), Candidate("0.5"), Candidate(torch.ones(2))])
    def test_other_outcomes_are_refused(self, outcome: Any) -> None:
        with pytest.raises(InvalidArgument, match="^(train|score)="):
            planned(LAWS["logarithmic"]).run(lambda settings, noise: outcome, progress=False)

    def test_one_model_for_all_runs_is_refused(self) -> None:
        model = nn.Linear(2, 2)
        plan = planned(Repetitions.poisson(100.0))
        with pytest.raises(InvalidArgument, match="one model twice"):
            plan.run(lambda settings, noise: Candidate(0.0, model), source=TestSource(6), progress=False)
        plan.run(lambda settings, noise: Candidate(0.0, nn.Linear(2, 2)), source=TestSource(6), progress=False)

    def test_a_run_cannot_change_the_settings(self) -> None:
        plan = planned(Repetitions.negative_binomial(20.0), [{"layers": [1, 2]}])

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            assert settings == {"layers": [1, 2]}
            settings["layers"].append(3)
            return Candidate(1.0, "fine")

        best = plan.run(train, source=TestSource(7), progress=False)
        assert (best.result, best.settings) == ("fine", {"layers": [1, 2]})
