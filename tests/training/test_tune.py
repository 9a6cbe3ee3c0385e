"""Private search: laws of K and of the selection, exact privacy of small searches, broken twins, what is kept quiet.

Statistical comparisons are made at p-values of 1e-8, at most six in a test, so that whatever the seeds are, a right
search fails a test less than once in ten million times. Broken twins are missed less than once in a million times; how
often, is said where they are. (All rates are exact sums over binomial laws, or those of chi-squared statistics.)
"""

from __future__ import annotations

import logging
import math
import threading
import warnings
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from scipy.stats import beta, chisquare, logser, nbinom, poisson
from torch import nn

import hush
from hush import training
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    DiscreteGaussianEvent,
    Event,
    GaussianEvent,
    ParallelByIndexEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
    RdpAccountant,
    RepeatNegativeBinomialEvent,
    RepeatPoissonEvent,
    SelfComposedEvent,
)
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import Relation, Unit
from hush.randomness import RandomSource, TestSource
from hush.training import (
    Candidate,
    HeldOutAnswers,
    LogarithmicRepetitions,
    LogRange,
    NegativeBinomialRepetitions,
    PoissonRepetitions,
    PrivateScore,
    PublicScore,
    Repetitions,
    TrainingPlan,
    TuningPlan,
    UniformRange,
    plan_tuning,
    tune,
)
from hush.training.tuning import silence
from hush.training.tuning.space import as_space
from randomness.scripted import ScriptedSource

ALARM = 1e-8
PUBLIC = PublicScore("invented for a test")
REPLACED = RdpAccountant(relation=Relation.REPLACE)

LAWS: dict[str, Repetitions] = {
    "logarithmic": LogarithmicRepetitions(8.0),
    "geometric": NegativeBinomialRepetitions(6.0),
    "negative-binomial": NegativeBinomialRepetitions(5.0, 0.5),
    "poisson": PoissonRepetitions(3.0),
}
EACH_LAW = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


def probabilities(law: Repetitions, most: int = 4000) -> np.ndarray:
    """P(K = 0, 1, ...) by SciPy, which knows these laws independently."""
    k = np.arange(most)
    if isinstance(law, NegativeBinomialRepetitions):
        if law.shape == 0:
            return np.where(k >= 1, logser.pmf(np.maximum(k, 1), 1 - law.gamma), 0.0)
        plain = nbinom.pmf(k, law.shape, law.gamma)
        return np.where(k >= 1, plain, 0.0) / (1 - plain[0])
    return poisson.pmf(k, law.mean)


def gaussian(settings: dict[str, Any], noise: float) -> Event:
    return GaussianEvent(noise)


def planned(law: Repetitions, space: Any = ({"way": 0},), score: Any = PUBLIC, **changes: Any) -> TuningPlan:
    plan = plan_tuning(list(space), cost=gaussian, score=score, epsilon=2.0, delta=1e-5, repetitions=law)
    return replace(plan, **changes)


class TestTheNumberOfRuns:
    @EACH_LAW
    def test_probabilities_are_those_of_the_paper(self, law: Repetitions) -> None:
        expected = probabilities(law)
        k, chance = law._first()
        for number in range(k, 200):
            assert float(chance) == pytest.approx(expected[number], rel=1e-9)
            chance *= law._ratio(number)

    @EACH_LAW
    def test_draws_follow_them(self, law: Repetitions) -> None:
        source = TestSource("number of runs")
        draws = np.array([law.draw(source) for _ in range(3000)])
        assert p_value(draws, probabilities(law)) > ALARM
        # Controls: a mean that is off by a third (missed once in 1e18 times), and a number that is not random.
        assert p_value(draws, probabilities(replace(law, mean=law.mean * 0.67))) < ALARM
        assert p_value(np.full_like(draws, round(law.mean)), probabilities(law)) < ALARM

    @EACH_LAW
    def test_means(self, law: Repetitions) -> None:
        expected = probabilities(law)
        assert expected @ np.arange(len(expected)) == pytest.approx(law.mean, rel=1e-6)
        assert getattr(law.event(GaussianEvent(1.0)), "mean") == pytest.approx(law.mean, rel=1e-9)  # noqa: B009

    @EACH_LAW
    def test_the_ends_of_the_uniform_variable(self, law: Repetitions) -> None:
        smallest = law._first()[0]
        assert law.draw(ScriptedSource([0] * 4)) == smallest
        assert smallest < law.draw(ScriptedSource([(1 << 64) - 1] * 4)) < 100_000

    def test_rounding_cannot_make_it_endless(self) -> None:
        class Lossy(PoissonRepetitions):
            def _first(self) -> tuple[int, Decimal]:
                return 0, Decimal(0)

        assert Lossy(3.0).draw(TestSource(0)) < 1000

    def test_costs_are_the_published_ones(self) -> None:
        # Papernot & Steinke 2022 on a Gaussian run of sigma 2; 2.168 alone.
        def cost(law: Repetitions) -> float:
            return RdpAccountant().compose(law.event(GaussianEvent(2.0))).epsilon(1e-5)

        assert cost(NegativeBinomialRepetitions(10.0)) == pytest.approx(4.320, abs=0.025)
        assert cost(NegativeBinomialRepetitions(100.0)) == pytest.approx(5.437, abs=0.025)
        assert cost(LogarithmicRepetitions(21.5)) == pytest.approx(3.889, abs=0.025)
        assert cost(LogarithmicRepetitions(144.6)) == pytest.approx(4.423, abs=0.025)
        assert cost(NegativeBinomialRepetitions(55.0, 0.5)) == pytest.approx(4.679, abs=0.025)
        assert cost(PoissonRepetitions(5.0)) == pytest.approx(3.612, rel=0.01)

    def test_numbers_of_the_docstrings(self) -> None:
        laws = (LogarithmicRepetitions(10.0), NegativeBinomialRepetitions(10.0), PoissonRepetitions(10.0))
        for noise in (1.0, 2.0, 32.0):
            one = RdpAccountant().compose(GaussianEvent(noise)).epsilon(1e-5)
            found = [RdpAccountant().compose(law.event(GaussianEvent(noise))).epsilon(1e-5) for law in laws]
            assert all(1.55 < epsilon / one < 2.55 for epsilon in found)
            assert found == sorted(found)
            if noise == 2.0:
                assert found == pytest.approx([3.64, 4.32, 4.91], abs=0.01)
        assert probabilities(laws[0])[1] == pytest.approx(1 / 4, abs=0.03)
        assert probabilities(laws[0])[26:].sum() == pytest.approx(1 / 10, abs=0.01)

    @pytest.mark.parametrize("mean", [1.0, 0.0, -3.0, math.nan, math.inf, 1e9, True, "10"])
    def test_means_that_are_refused(self, mean: Any) -> None:
        with pytest.raises(InvalidArgument, match="^mean="):
            LogarithmicRepetitions(mean)

    def test_shapes_that_are_refused(self) -> None:
        for shape in (-0.5, math.nan, 1e-9, 1e6):
            with pytest.raises(InvalidArgument, match="^shape="):
                NegativeBinomialRepetitions(5.0, shape)
        with pytest.raises(InvalidArgument, match="^shape="):
            LogarithmicRepetitions(5.0, 1.0)


def p_value(draws: np.ndarray, expected: np.ndarray) -> float:
    """Chi-squared, in bins of at least 50 expected draws."""
    counts = np.bincount(draws, minlength=len(expected))[: len(expected)] * 1.0
    masses, hits, mass, hit = [], [], 0.0, 0.0
    for share, count in zip(expected * len(draws), counts, strict=True):
        mass, hit = mass + share, hit + count
        if mass >= 50:
            masses.append(mass)
            hits.append(hit)
            mass = hit = 0.0
    masses[-1] += len(draws) - sum(masses)
    hits[-1] += len(draws) - sum(hits)
    assert len(masses) >= 3
    return float(chisquare(hits, masses).pvalue)


# A run on one bit: tells it with probability TRUE, and 1 is the better outcome. The best of K tells 1 with probability
# 1 - E[q^K], where q is the probability of 0: exact, so the privacy of the search is known exactly, too.
BASE = 0.8
TRUE = math.exp(BASE) / (1 + math.exp(BASE))


def best_is_one(law: np.ndarray, bit: int) -> float:
    miss = 1 - TRUE if bit else TRUE
    return 1 - float(law @ miss ** np.arange(len(law)))


def exact_delta(law: np.ndarray, epsilon: float) -> float:
    """The largest P(S | D) - e^epsilon P(S | D') over outcomes 0 (or nothing), 1 and both bits. Exact."""
    ones = [best_is_one(law, bit) for bit in (0, 1)]
    # "Nothing", which only a Poisson law has, 0 and 1: three outcomes.
    rows = [(law[0], 1 - law[0] - one, one) for one in ones]
    return max(
        sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(first, second, strict=True))
        for first, second in (rows, rows[::-1])
    )


def fixed(k: int) -> np.ndarray:
    law = np.zeros(4000)
    law[k] = 1.0
    return law


@dataclass(frozen=True, slots=True)
class FixedRepetitions(Repetitions):
    """The twin: always as many runs, stated as if they were one."""

    name: ClassVar[str] = "fixed"

    def event(self, run: Event) -> Event:
        return run

    def draw(self, source: RandomSource) -> int:
        return round(self.mean)

    def _first(self) -> tuple[int, Decimal]:
        raise NotImplementedError

    def _ratio(self, k: int) -> Decimal:
        raise NotImplementedError


class TestPrivacyIsExact:
    @EACH_LAW
    @pytest.mark.parametrize("delta", [1e-2, 1e-3, 1e-5])
    def test_small_searches_cost_no_more_than_is_claimed(self, law: Repetitions, delta: float) -> None:
        claimed = REPLACED.compose(law.event(RandomizedResponseEvent(BASE))).epsilon(delta)
        assert exact_delta(probabilities(law), claimed) <= delta
        # It is not only that the claim is huge: half of it would be refuted.
        assert exact_delta(probabilities(law), 0.25 * claimed) > delta

    def test_the_twin_that_pays_for_one_run(self) -> None:
        one = REPLACED.compose(RandomizedResponseEvent(BASE)).epsilon(1e-3)
        assert exact_delta(fixed(1), one) <= 1e-3
        assert exact_delta(fixed(8), one) > 0.05
        for law in LAWS.values():
            assert exact_delta(probabilities(law), one) > 1e-3

    def test_the_twin_with_a_number_that_is_not_random(self) -> None:
        # A run is bad with probability 0.9, or for the neighbour 1 - 0.1 e^0.2: it is 0.2-DP. The best of exactly 40 is
        # bad with the 40th powers of them: further apart than is claimed for a random number with mean 40.
        bad = np.array([0.9, 1 - 0.1 * math.exp(0.2)])
        claimed = RdpAccountant().compose(LogarithmicRepetitions(40.0).event(ApproximateDPEvent(0.2))).epsilon(1e-3)
        of_fixed, of_random = (
            bad**40,
            [float(probabilities(LogarithmicRepetitions(40.0)) @ q ** np.arange(4000)) for q in bad],
        )
        assert of_random[0] - math.exp(claimed) * of_random[1] <= 1e-3
        assert of_fixed[0] - math.exp(claimed) * of_fixed[1] > 2e-3

    def test_the_twin_is_refuted_by_experiment_and_the_search_is_not(self) -> None:
        def proven(law: Repetitions) -> float:
            count = 1200
            bad = [count - sum(searched(law, bit, count)) for bit in (0, 1)]
            low, high = beta.ppf(ALARM, bad[0], count - bad[0] + 1), beta.ppf(1 - ALARM, bad[1] + 1, count - bad[1])
            return math.log((low - 1e-3) / high)

        one, law = REPLACED.compose(RandomizedResponseEvent(BASE)), LAWS["negative-binomial"]
        # It states what one run costs. That is not refuted once in 5e7 times.
        assert proven(FixedRepetitions(4.0)) > one.epsilon(1e-3)
        assert proven(law) <= REPLACED.compose(law.event(RandomizedResponseEvent(BASE))).epsilon(1e-3)

    @EACH_LAW
    def test_searches_follow_the_exact_law(self, law: Repetitions) -> None:
        for bit in (0, 1):
            outcomes = searched(law, bit, 600)
            expected = best_is_one(probabilities(law), bit)
            assert within(int(sum(outcomes)), len(outcomes), expected)
            # The law of one run is another one; it is taken for it once in 8e7 times at most.
            assert not within(int(sum(outcomes)), len(outcomes), TRUE if bit else 1 - TRUE)

    def test_the_twin_that_reuses_one_run(self) -> None:
        # Its outcomes are correlated: all runs of a search share one answer, so the law is not the theorem's: 0.29
        # instead of 0.61, which 1,000 searches take for each other once in 1e48 times.
        law = LAWS["poisson"]
        outcomes = searched(law, 0, 1000, shared=True)
        assert not within(int(sum(outcomes)), len(outcomes), best_is_one(probabilities(law), 0))


def searched(law: Repetitions, bit: int, count: int, *, shared: bool = False) -> list[bool]:
    """Whether 1 is the best outcome, in so many searches."""
    plan, source = planned(law), TestSource(f"searches {bit}")
    found = []
    for _ in range(count):
        answers: list[int] = []

        def train(settings: dict[str, Any], noise: float, answers: list[int] = answers) -> Candidate:
            if not (shared and answers):
                told = (source.word() >> 11) * 2.0**-53 < TRUE
                answers.append(bit if told else 1 - bit)
            return Candidate(score=answers[-1], result=answers[-1])

        best = plan._search(train, source)
        found.append(best is not None and best.result == 1)
    return found


def within(hits: int, count: int, expected: float) -> bool:
    low = beta.ppf(ALARM, hits, count - hits + 1) if hits else 0.0
    high = beta.ppf(1 - ALARM, hits + 1, count - hits) if hits < count else 1.0
    return bool(low <= expected <= high)


class TestTheSelection:
    # Poisson laws of large means, where a test needs several runs: less than two of them come once in 1e30 searches.

    def test_the_largest_score_wins(self) -> None:
        # One of the five ways is left out once in 5 exp(-200 / 5) = 2e-17 times.
        plan = planned(PoissonRepetitions(200.0), [{"way": way} for way in range(5)])
        seen: list[int] = []

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            seen.append(settings["way"])
            return Candidate(score=-abs(settings["way"] - 3), result=settings["way"])

        best = plan.run(train, source=TestSource(1), progress=False)
        assert len(set(seen)) == 5
        assert (best.settings, best.score, best.result) == ({"way": 3}, 0.0, 3)
        assert best.found

    def test_ties_are_broken_evenly(self) -> None:
        plan = planned(PoissonRepetitions(12.0))
        source, firsts, count = TestSource("ties"), 0, 0
        shares = []
        for _ in range(400):
            number = iter(range(10_000))
            best = plan._search(lambda settings, noise, number=number: Candidate(1.0, next(number)), source)  # type: ignore[misc]
            runs = next(number)
            if best is not None:
                shares.append((best.result + 0.5) / runs)
                firsts, count = firsts + (best.result == 0), count + 1
        # Uniform over the runs: the first one wins 1 in K times, and the places average one half. A uniform variable is
        # sub-Gaussian with its own variance, 1 / 12 at most: 2 exp(-36 / 2) = 3e-8.
        assert abs(np.mean(shares) - 0.5) < 6 / math.sqrt(12 * count)
        k = np.arange(1, 200)
        law = poisson.pmf(k, 12.0) / -np.expm1(-12.0)
        assert within(firsts, count, float(law @ (1 / k)))

    @pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), 10**400])
    def test_what_is_not_finite_loses(self, score: Any) -> None:
        plan = planned(PoissonRepetitions(100.0), [{"way": 0}, {"way": 1}])  # both, but for 2 exp(-50) of the times

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            return Candidate(score if settings["way"] else -1e300, settings["way"])

        best = plan.run(train, source=TestSource(2), progress=False)
        assert (best.result, best.score) == (0, -1e300)

    def test_runs_that_fail_lose_and_say_nothing(self, capfd: pytest.CaptureFixture[str]) -> None:
        plan = planned(PoissonRepetitions(100.0), [{"way": 0}, {"way": 1}])  # both, but for 2 exp(-50) of the times

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
        plan = planned(PoissonRepetitions(3.0))
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
        plan = planned(PoissonRepetitions(100.0))
        with pytest.raises(InvalidArgument, match="one model twice"):
            plan.run(lambda settings, noise: Candidate(0.0, model), source=TestSource(6), progress=False)
        plan.run(lambda settings, noise: Candidate(0.0, nn.Linear(2, 2)), source=TestSource(6), progress=False)

    def test_settings_cannot_be_changed_by_a_run(self) -> None:
        plan = planned(NegativeBinomialRepetitions(20.0), [{"layers": [1, 2]}])

        def train(settings: dict[str, Any], noise: float) -> Candidate:
            assert settings == {"layers": [1, 2]}
            settings["layers"].append(3)
            return Candidate(1.0, "fine")

        best = plan.run(train, source=TestSource(7), progress=False)
        assert (best.result, best.settings) == ("fine", {"layers": [1, 2]})


class TestWhatIsKeptQuiet:
    @staticmethod
    def loud(settings: dict[str, Any], noise: float) -> Candidate:
        print("accuracy of run: 0.9")
        warnings.warn("loss is nan", stacklevel=1)
        logging.getLogger("somebody").error("run done")
        return Candidate(0.5)

    def test_nothing_of_a_run_is_shown(
        self, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        plan = planned(NegativeBinomialRepetitions(20.0))
        for progress in (False, True):
            shown = []
            for seed in range(4):  # different numbers of runs
                plan.run(self.loud, source=TestSource(seed), progress=progress)
                shown.append("".join(capfd.readouterr()))
            assert set(shown) == {"searching (how far it is, is secret)\n" if progress else ""}
        assert not caplog.records
        logging.getLogger("somebody").error("after")
        assert [record.message for record in caplog.records] == ["after"]
        self_test = pytest.warns(UserWarning, match="loss is nan")
        with self_test:
            self.loud({}, 1.0)  # outside, it is as loud as ever
        assert "accuracy" in capfd.readouterr().out

    def test_a_terminal_shows_what_depends_on_the_clock_only(self, monkeypatch: pytest.MonkeyPatch) -> None:
        written: list[str] = []
        moved = threading.Event()

        class Terminal:
            def isatty(self) -> bool:
                return True

            def write(self, text: str) -> None:
                written.append(text)
                moved.set() if len(written) > 3 else None

            def flush(self) -> None:
                pass

        monkeypatch.setattr("hush.training.tuning.silence._EVERY", 0.01)
        monkeypatch.setattr("sys.stderr", Terminal())
        with silence.Running(show=True):
            assert moved.wait(600), "the line stands still"
        assert all(set(text) <= set("\r[#.] searching (how far it is, is secret)") for text in written)

    def test_the_result_does_not_tell_the_number_of_runs(self) -> None:
        plan, told = planned(NegativeBinomialRepetitions(20.0)), set()
        for seed in range(20):  # numbers of at most 1 / 20 each: no more than two of them once in 1e14 times
            runs = []
            best = plan.run(lambda s, n, runs=runs: runs.append(0) or Candidate(1.0), source=TestSource(seed))  # type: ignore[misc, func-returns-value]
            told.add((len(runs), repr(best)))
        assert len({number for number, _ in told}) > 2
        assert len({text for _, text in told}) == 1


class TestSpaces:
    def test_products_and_ranges(self) -> None:
        space = as_space(
            {"rate": LogRange(0.01, 10.0), "share": UniformRange(-1, 1), "size": [64, 256], "deep": (True,)}
        )
        assert [dict(one) for one in space.listed] == [{"size": 64, "deep": True}, {"size": 256, "deep": True}]
        source = TestSource("space")
        drawn = [space.draw(source) for _ in range(4000)]
        assert within(sum(index for index, _ in drawn), 4000, 0.5)
        assert all(settings["size"] == (64, 256)[index] for index, settings in drawn)
        rates = np.array([settings["rate"] for _, settings in drawn])
        shares = np.array([settings["share"] for _, settings in drawn])
        assert rates.min() >= 0.01
        assert rates.max() <= 10.0
        assert within(int((rates < 0.1).sum()), 4000, 1 / 3)
        assert within(int((shares < -0.5).sum()), 4000, 1 / 4)
        # About normal (shares are uniform, rates independent of them): beyond 6 deviations once in 5e8 times.
        assert abs(np.corrcoef(rates, shares)[0, 1]) < 6 / math.sqrt(4000)

    def test_lists_are_drawn_evenly(self) -> None:
        space, source = as_space([{"a": 1}, {"a": 2}, {"a": 2}, {"b": 3}]), TestSource("list")
        counts = np.bincount([space.draw(source)[0] for _ in range(4000)], minlength=4)
        assert chisquare(counts).pvalue > ALARM

    @pytest.mark.parametrize(
        "space",
        [
            [],
            {},
            "grid",
            3,
            [1, 2],
            {"rate": 0.1},
            {"rate": []},
            {"rate": "abc"},
            {1: [2]},
            {"a": [0] * 100, "b": [0] * 11},
        ],
    )
    def test_spaces_that_are_refused(self, space: Any) -> None:
        with pytest.raises(InvalidArgument, match="^space="):
            as_space(space)

    @pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (True, 2), ("0", 1)])
    def test_ranges_that_are_refused(self, low: Any, high: Any) -> None:
        for kind in (UniformRange, LogRange):
            with pytest.raises(InvalidArgument, match="^(low|high)="):
                kind(low, high)
        with pytest.raises(InvalidArgument, match="^low="):
            LogRange(0.0, 1.0)


def quiet_total(answers: HeldOutAnswers, unit: Unit = Unit.example()) -> float:
    """The sum behind a score, but for noise that is always the same."""
    return PrivateScore(size=1).value(answers, 3.0, unit, TestSource("noise")) * 2


ODD = [math.nan, math.inf, -math.inf, 1e300, -5.0, 0.3, 1.0, 0.0]


class TestThePrivateScore:
    def test_it_is_the_accuracy_with_noise(self) -> None:
        score, source = PrivateScore(size=100), TestSource("score")
        correct = torch.arange(100) < 80
        values = [score.value(HeldOutAnswers(correct), 5.0, Unit.example(), source) for _ in range(2000)]
        spread = 5.0 / 200  # half the noise on the sum of +1 and -1, over the size
        # Gaussian noise: the mean fails once in 5e8 times, and so does the deviation, by its chi-squared law of 3e-10.
        assert np.mean(values) == pytest.approx(0.8, abs=6 * spread / math.sqrt(2000))
        assert np.std(values) == pytest.approx(spread, rel=0.1)
        assert score.event(5.0) == DiscreteGaussianEvent(5.0 * 1024, 1024)

    @pytest.mark.parametrize("odd", ODD)
    def test_one_example_moves_it_by_no_more_than_one(self, odd: float) -> None:
        others = [1.0, 0.0, 0.25]
        alone = quiet_total(HeldOutAnswers(np.array(others)))
        assert abs(quiet_total(HeldOutAnswers(np.array([*others, odd]))) - alone) <= 1.0
        for other in ODD:
            replaced = quiet_total(HeldOutAnswers(np.array([*others, other])))
            assert abs(quiet_total(HeldOutAnswers(np.array([*others, odd]))) - replaced) <= 2.0

    def test_a_user_counts_once(self) -> None:
        alone = quiet_total(HeldOutAnswers([True, False], owners=["a", "b"]), Unit.user())
        many = HeldOutAnswers([True, False] + [True] * 500, owners=["a", "b"] + ["c"] * 500)
        assert quiet_total(many, Unit.user()) - alone == pytest.approx(1.0)
        broken_twin = quiet_total(replace(many, owners=None))  # as if the unit were an example
        assert broken_twin - alone > 400

    def test_nobody_is_held_out(self) -> None:
        assert math.isfinite(quiet_total(HeldOutAnswers(np.zeros(0))))
        assert math.isfinite(quiet_total(HeldOutAnswers(np.zeros(0), owners=np.zeros(0, dtype=int)), Unit.user()))

    def test_answers_that_are_refused(self) -> None:
        for answers, unit in (
            (HeldOutAnswers(0.9), Unit.example()),
            (HeldOutAnswers(np.zeros((3, 2))), Unit.example()),
            (HeldOutAnswers(["yes"]), Unit.example()),
            (HeldOutAnswers([True], owners=[1]), Unit.example()),
            (HeldOutAnswers([True]), Unit.user()),
            (HeldOutAnswers([True, True], owners=[1]), Unit.user()),
            (HeldOutAnswers([True, True], owners=[1, None]), Unit.user()),
        ):
            with pytest.raises(InvalidArgument, match="^(correct|owners)="):
                quiet_total(answers, unit)

    def test_searches_by_it_are_as_private_as_is_claimed(self) -> None:
        # Two models, of which the second is right about one person more. Which one wins tells of that person.
        plan = plan_tuning(
            [{"way": 0}, {"way": 1}],
            cost=gaussian,
            score=PrivateScore(size=10),
            epsilon=0.5,
            delta=1e-2,
            repetitions=PoissonRepetitions(15.0),
        )
        assert plan.score_noise is not None
        assert certified(plan, 1e-2) <= 0.5
        # The twin, with next to no noise: the first way wins half of the time, or exp(-7.5) of it. It is missed once in
        # 8e10 times.
        assert certified(replace(plan, score_noise=1e-2), 1e-2) > 0.5


def certified(plan: TuningPlan, delta: float, count: int = 250) -> float:
    """A lower bound on epsilon: how much more often the first way wins without the person than with."""
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


def mixed(settings: dict[str, Any], noise: float) -> Event:
    """Costs whose Renyi divergences have different shapes: flat beyond some order, steeper and steeper, or straight."""
    if settings["kind"] == "pure":
        return ApproximateDPEvent(1 / noise)
    step: Event = GaussianEvent(noise)
    return SelfComposedEvent(PoissonSampledEvent(step, 0.05) if settings["kind"] == "sampled" else step, 20)


def example_plan(settings: dict[str, Any], noise: float, **changes: Any) -> TrainingPlan:
    usual: dict[str, Any] = {
        "sampling": training.Full(),
        "num_units": 200,  # of 240, the others are held out
        "num_steps": settings.get("steps", 4),
        "clipping": training.Flat(1.0),
        "noise_multiplier": noise,
        "delta": 1e-5,
        "physical_batch_size": 50,
    }
    return TrainingPlan(**(usual | changes))


class TestCalibration:
    @EACH_LAW
    def test_epsilon_is_met_and_used_up(self, law: Repetitions) -> None:
        plan = planned(law)
        assert 2.0 * 0.999 < plan.guarantee().epsilon <= 2.0
        assert plan.one_run().epsilon < plan.guarantee().epsilon
        assert plan.event() == replace(plan.event(), event=law.event(GaussianEvent(plan.noise_multipliers[0])))  # type: ignore[type-var]

    @pytest.mark.parametrize("kind", ["pure", pytest.param("sampled", marks=pytest.mark.slow)])
    def test_settings_of_different_costs_have_noise_of_their_own(self, kind: str) -> None:
        space = {"kind": ["straight", kind], "rate": LogRange(0.1, 1.0)}
        plan = plan_tuning(space, cost=mixed, score=PUBLIC, epsilon=2.0, delta=1e-5)
        assert 2.0 * 0.999 < plan.guarantee().epsilon <= 2.0
        law = plan.repetitions
        alone = [RdpAccountant().compose(law.event(run)).epsilon(1e-5) for run in plan.runs]
        assert all(1.5 < epsilon <= 2.0 for epsilon in alone)  # nobody pays much for the others
        assert plan.noise_multipliers[1] < 0.5 * plan.noise_multipliers[0]  # and one noise for all would be too much
        # The bound is their largest divergence at every order.
        one = RdpAccountant().compose(plan._one_run())
        for order in (1.1, 2.0, 8.0, 64.0):
            each = [RdpAccountant().compose(run).renyi(order) for run in plan.runs]
            assert one.renyi(order) == pytest.approx(max(each), rel=1e-9)

    def test_the_cost_is_not_told_what_it_must_not_depend_on(self) -> None:
        told: list[set[str]] = []

        def cost(settings: dict[str, Any], noise: float) -> Event:
            told.append(set(settings))
            return GaussianEvent(noise)

        plan_tuning({"size": [1, 2], "rate": LogRange(0.1, 1.0)}, cost=cost, score=PUBLIC, epsilon=1.0, delta=1e-5)
        assert all(names == {"size"} for names in told)

    def test_a_score_on_others_costs_next_to_nothing(self) -> None:
        space = [{"kind": "straight"}]
        public = plan_tuning(space, cost=mixed, score=PUBLIC, epsilon=2.0, delta=1e-5)
        private = plan_tuning(space, cost=mixed, score=PrivateScore(size=1000), epsilon=2.0, delta=1e-5)
        assert private.guarantee().epsilon <= 2.0
        assert public.noise_multipliers[0] <= private.noise_multipliers[0] < 1.02 * public.noise_multipliers[0]
        assert private.score_noise is not None
        assert private.score_noise < 10  # of a thousand
        held_out = PrivateScore(size=1000).event(private.score_noise)
        assert held_out is not None
        assert private._one_run() == ParallelByIndexEvent((*private.runs, held_out))
        both = ComposedEvent((*private.runs, held_out))  # what it would be if people were in both parts
        assert RdpAccountant().compose(private.repetitions.event(both)).epsilon(1e-5) > 2.5

    def test_replacing_doubles_what_a_person_does_to_a_score(self) -> None:
        # A right answer in the place of a wrong one moves the sum by 2: the accountant must count it so.
        event = PrivateScore(size=9).event(3.0)
        assert event is not None
        near, far = (RdpAccountant(relation=each).compose(event) for each in (Relation.ADD_OR_REMOVE, Relation.REPLACE))
        assert near.renyi(2.0) == pytest.approx(2.0 / (2 * 3.0**2), rel=1e-6)
        assert far.renyi(2.0) == pytest.approx(4 * near.renyi(2.0), rel=1e-6)

    @pytest.mark.parametrize("relation", list(Relation))
    def test_relations(self, relation: Relation) -> None:
        plan = plan_tuning([{}], cost=gaussian, score=PrivateScore(size=10), epsilon=1.0, delta=1e-5, relation=relation)
        assert plan.guarantee().relation is relation
        assert 0.999 < plan.guarantee().epsilon <= 1.0

    def test_plans_bring_what_they_are_about(self) -> None:
        plan = plan_tuning(
            {"steps": [2, 4]},
            cost=lambda settings, noise: example_plan(settings, noise, unit=Unit.user(), labelled=True),
            score=PUBLIC,
            epsilon=2.0,
            delta=1e-5,
        )
        promised = plan.guarantee()
        assert promised.unit == Unit.user()
        assert "examples of one user are labelled so" in promised.assumptions
        assert PUBLIC.assumptions(Unit.user())[0] in promised.assumptions
        assert "logarithmic" in promised.method
        assert "Renyi" in promised.method
        assert Event.from_json(plan.event().to_json()) == plan.event()

    def test_a_cost_that_changes_its_mind(self) -> None:
        calls = iter(range(10**6))

        def cost(settings: dict[str, Any], noise: float) -> Event:
            return GaussianEvent(noise * 0.99 ** next(calls))

        with pytest.raises(InvalidArgument, match="^(cost|epsilon)="):
            plan_tuning([{}], cost=cost, score=PUBLIC, epsilon=1.0, delta=1e-5)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"epsilon": 0.0}, "^epsilon="),
            ({"epsilon": math.nan}, "^epsilon="),
            ({"delta": 0.0}, "^delta="),
            ({"delta": 1.0}, "^delta="),
            ({"score": 0.5}, "^score="),
            ({"repetitions": 10}, "^repetitions="),
            ({"cost": GaussianEvent(1.0)}, "^cost="),
            ({"cost": lambda settings, noise: 1.0}, "^cost="),
            ({"cost": lambda settings, noise: ApproximateDPEvent(1.0, 1e-6)}, "approximate-dp"),
            ({"cost": lambda settings, noise: GaussianEvent(1.0)}, "^epsilon="),
            ({"cost": lambda s, n: example_plan(s, n, sampling=training.Poisson(50, 120))}, "^max_batch_size"),
            ({"cost": example_plan, "delta": 0.01}, "^delta="),
            ({"cost": example_plan, "unit": Unit.user()}, "per example"),
            ({"unit": Unit.user().group(2)}, "^unit="),
        ],
    )
    def test_what_is_refused(self, changes: dict[str, Any], message: str) -> None:
        usual: dict[str, Any] = {"cost": gaussian, "score": PUBLIC, "epsilon": 0.5, "delta": 1e-5}
        with pytest.raises(HushError, match=message):
            plan_tuning([{}], **(usual | changes))

    @pytest.mark.parametrize("reason", ["", "  ", "two\nlines", None])
    def test_public_needs_a_reason(self, reason: Any) -> None:
        with pytest.raises(InvalidArgument, match="^public="):
            PublicScore(reason)


class TestWithTraining:
    x = torch.linspace(-1, 1, 240).reshape(-1, 1) * torch.tensor([[1.0, -0.5]])
    y = (x[:, 0] > 0).long()

    def train(self, settings: dict[str, Any], noise: float, **changes: Any) -> HeldOutAnswers:
        held_out = torch.arange(240) % 6 == 0
        model = nn.Linear(2, 2)
        usual: dict[str, Any] = {"num_steps": settings["steps"], "noise_multiplier": noise}
        run = hush.fit(
            model,
            (self.x[~held_out], self.y[~held_out]),
            delta=1e-5,
            optimizer=torch.optim.SGD(model.parameters(), lr=settings["rate"]),
            **(usual | changes),
        )
        with torch.no_grad():
            return HeldOutAnswers(model(self.x[held_out]).argmax(1) == self.y[held_out], run)

    SEARCH: ClassVar[dict[str, Any]] = {
        "cost": example_plan,
        "score": PrivateScore(size=40),
        "epsilon": 4.0,
        "delta": 1e-5,
        "repetitions": NegativeBinomialRepetitions(3.0),
    }
    SPACE: ClassVar[dict[str, Any]] = {"steps": [4, 8], "rate": LogRange(0.1, 4.0)}

    def test_from_end_to_end(self, capfd: pytest.CaptureFixture[str]) -> None:
        best = tune(self.train, self.SPACE, **self.SEARCH, progress=False)
        assert best.found
        assert best.settings is not None
        assert best.result.plan.num_steps == best.settings["steps"]
        assert best.result.plan.noise_multiplier == best.noise_multiplier
        assert 3.99 < best.guarantee.epsilon <= 4.0
        assert best.price > 0.5
        assert best.price == best.guarantee.epsilon - best.one_run.epsilon
        assert "test randomness" not in best.guarantee.assumptions
        assert RdpAccountant().compose(best.event).guarantee(1e-5).assumptions == best.guarantee.assumptions
        assert "".join(capfd.readouterr()) == ""  # also nothing of the bars of fit
        assert hush.tune is tune

    def test_test_randomness_is_stated(self) -> None:
        mine = tune(self.train, self.SPACE, **self.SEARCH, source=TestSource(1), progress=False)
        assert "test randomness" in mine.guarantee.assumptions
        seeds = iter(range(10_000))

        def seeded(settings: dict[str, Any], noise: float) -> HeldOutAnswers:
            return self.train(settings, noise, source=TestSource(next(seeds)))

        theirs = tune(seeded, self.SPACE, **self.SEARCH, progress=False)
        assert "test randomness" in theirs.guarantee.assumptions

    @pytest.mark.parametrize(
        "changes", [{"num_steps": 9}, {"batch_size": 50}, {"noise_multiplier": 0.9}, {"epsilon": 0.3}]
    )
    def test_runs_of_another_cost_are_refused(self, changes: dict[str, Any]) -> None:
        def train(settings: dict[str, Any], noise: float) -> HeldOutAnswers:
            return self.train(settings, noise, **changes)

        with pytest.raises(InvalidArgument, match="^(cost|noise_multiplier)="):
            tune(train, self.SPACE, **self.SEARCH, progress=False)


def test_events_of_the_laws() -> None:
    base = GaussianEvent(2.0)
    law = LogarithmicRepetitions(8.0)
    assert law.event(base) == RepeatNegativeBinomialEvent(base, law.gamma, 0.0)
    assert PoissonRepetitions(3.0).event(base) == RepeatPoissonEvent(base, 3.0)
    with pytest.raises(Unsupported):
        hush.accounting.PldAccountant().compose(law.event(base))
