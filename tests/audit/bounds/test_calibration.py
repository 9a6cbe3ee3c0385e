"""Over many simulated audits of a mechanism whose epsilon is known, a 95 % bound exceeds it in 5 % at most.

The alarm goes off at a number of excesses that a valid bound reaches with probability 1e-7 at most; that is the rate of
false alarms. The same test catches audits that choose after looking at the scores and do not correct for it; by the
shares that were measured, it misses one with probability 1e-6 at most.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import bdtrc, expit
from scipy.stats import binom

from hush import accounting
from hush.audit import (
    Bonferroni,
    ClopperPearson,
    Explicit,
    GaussianDP,
    Jeffreys,
    MultiSplit,
    OneRun,
    OneRunFDP,
    Roc,
    SplitScores,
    audit_one_run,
    audit_scores,
    roc,
)
from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.method import BoundMethod, Level, apply_rule
from hush.audit.bounds.one_run import one_run_epsilon
from hush.audit.bounds.rates import RateMethod
from hush.audit.bounds.sample import Sample
from hush.audit.bounds.thresholds import ThresholdRule

ERROR = 0.05
ALARM = 1e-7
SIZE = 300  # scores of each kind
Scores = NDArray[np.float64]
Bounding = Callable[[Scores, Scores], float]
Draw = Callable[[NDArray[np.bool_], np.random.Generator], Scores]


@dataclass(frozen=True)
class Mechanism:
    """Scores of members and non-members. Each score is a separate release, so that all audits apply."""

    draw: Draw
    epsilon: float
    delta: float
    threshold: float


def gaussian(members: NDArray[np.bool_], rng: np.random.Generator) -> Scores:
    return members + rng.normal(size=members.size)


def laplace(members: NDArray[np.bool_], rng: np.random.Generator) -> Scores:
    return members + rng.laplace(size=members.size)


def randomised_response(members: NDArray[np.bool_], rng: np.random.Generator) -> Scores:
    """The worst (1, 0.05) pair: with probability delta the truth for certain, else a randomised bit."""
    certain, honest = rng.random((2, members.size)) < [[0.05], [np.e / (1 + np.e)]]
    return (
        np.where(members == honest, 1.0, -1.0) * np.where(certain, np.inf, 1.0) * np.where(certain & ~honest, -1.0, 1.0)
    )


def nothing(members: NDArray[np.bool_], rng: np.random.Generator) -> Scores:
    return rng.normal(size=members.size)


MECHANISMS = {
    "gaussian": Mechanism(gaussian, gdp_epsilon(1.0, 1e-2), 1e-2, 1.5),
    "laplace": Mechanism(laplace, 1.0, 0.0, 1.0),
    "randomised response": Mechanism(randomised_response, 1.0, 0.05, 1.0),
    "nothing": Mechanism(nothing, 0.0, 0.0, 0.5),
}
RULES: tuple[ThresholdRule, ...] = (Bonferroni(), SplitScores(), MultiSplit(num_splits=10))


def cases() -> list[tuple[str, BoundMethod, ThresholdRule | None]]:
    """Return every method under every rule that it takes, for every mechanism that satisfies its assumptions."""
    triples: list[tuple[str, BoundMethod, ThresholdRule | None]] = []
    for name, mechanism in MECHANISMS.items():
        rules = (Explicit(mechanism.threshold), *RULES)
        triples += [(name, method, rule) for method in (ClopperPearson(), OneRun()) for rule in rules]
        triples += [(name, OneRun(num_guesses=60), None), (name, OneRun(num_guesses=60, num_out_guesses=60), None)]
    rules = (Explicit(1.5), *RULES)
    triples += [("gaussian", GaussianDP(), rule) for rule in rules]
    triples += [("gaussian", OneRunFDP(num_guesses=60), None), ("gaussian", OneRunFDP(), Bonferroni())]
    # A credible bound makes no promise; on this mechanism it should not be far from a confidence bound.
    triples += [("laplace", Jeffreys(), rule) for rule in (Explicit(1.0), SplitScores())]
    return triples


ALL_CASES = pytest.mark.parametrize(
    ("name", "method", "rule"), [pytest.param(*case, id=" ".join(map(str, case))) for case in cases()]
)


def simulate(mechanism: Mechanism, rng: np.random.Generator, size: int) -> tuple[Scores, Scores]:
    members = rng.random(2 * size) < 0.5
    scores = mechanism.draw(members, rng)
    return scores[members], scores[~members]


def excesses(mechanism: Mechanism, bound: Bounding, audits: int, size: int = SIZE) -> int:
    rng = np.random.default_rng(20)
    return sum(bound(*simulate(mechanism, rng, size)) > mechanism.epsilon for _ in range(audits))


def split_excesses(mechanism: Mechanism, rule: ThresholdRule, audits: int, canaries: int = 2 * SIZE) -> int:
    """The same for canaries of one run, which are split in the order of their coins."""
    rng, count = np.random.default_rng(20), 0
    for _ in range(audits):
        members = rng.random(canaries) < 0.5
        result = audit_one_run(mechanism.draw(members, rng), members, threshold=rule, delta=mechanism.delta)
        count += result.epsilon_lower > mechanism.epsilon
    return count


@pytest.mark.parametrize("canaries", [181, 183, 185, 200])
@pytest.mark.parametrize("name", ["nothing", "laplace"])
def test_canaries_are_split_without_looking_at_their_coins(name: str, canaries: int) -> None:
    count = split_excesses(MECHANISMS[name], SplitScores(), 200, canaries)
    assert not alarming(count, 200)


def test_members_in_front_would_break_the_split() -> None:
    """The broken twin: a seed then fixes how many members each part has. 39 % exceed; 30 of 200 are an alarm."""
    rng, count = np.random.default_rng(20), 0
    for _ in range(200):
        members = rng.random(183) < 0.5
        scores = nothing(members, rng).round()
        front = Sample(scores[members], scores[~members], np.sort(members)[::-1])
        count += apply_rule(SplitScores(), OneRun(), front, Level(ERROR, 0.0)).lower > 0
    assert alarming(count, 200)


def alarming(count: int, audits: int, error: float = ERROR) -> bool:
    return bool(binom.sf(count - 1, audits, error) < ALARM)


def check(name: str, method: BoundMethod, rule: ThresholdRule | None, audits: int) -> None:
    mechanism = MECHANISMS[name]

    def bound(inside: Scores, outside: Scores) -> float:
        result = audit_scores(inside, outside, delta=mechanism.delta, method=method, threshold=rule)
        return result.epsilon_lower

    if isinstance(method, OneRun) and isinstance(rule, SplitScores | MultiSplit):
        count = split_excesses(mechanism, rule, audits)
    else:
        count = excesses(mechanism, bound, audits)
    print(f"{name}, {method}, {rule}: {count} of {audits}")
    assert not alarming(count, audits, 2 * ERROR if isinstance(method, Jeffreys) else ERROR)  # Jeffreys: 5.6 % measured


@ALL_CASES
@pytest.mark.quick_cases(17)
def test_bounds_keep_their_confidence(name: str, method: BoundMethod, rule: ThresholdRule | None) -> None:
    check(name, method, rule, 20 if isinstance(rule, MultiSplit) or isinstance(method, Jeffreys) else 60)


@pytest.mark.slow
@ALL_CASES
def test_bounds_keep_their_confidence_in_500_audits(name: str, method: BoundMethod, rule: ThresholdRule | None) -> None:
    check(name, method, rule, 500)


def test_the_mechanisms_have_the_stated_epsilon() -> None:
    claimed = accounting.epsilon(noise_multiplier=1.0, delta=1e-2)
    assert MECHANISMS["gaussian"].epsilon == pytest.approx(claimed, rel=1e-5)
    rng = np.random.default_rng(1)
    scores = randomised_response(np.ones(400_000, dtype=bool), rng)
    share = {value: float(np.mean(scores == value)) for value in (np.inf, 1.0, -1.0, -np.inf)}
    truth = {np.inf: 0.05, 1.0: 0.95 * np.e / (1 + np.e), -1.0: 0.95 / (1 + np.e), -np.inf: 0.0}
    assert share == pytest.approx(truth, abs=0.005)  # 6.8 standard deviations of the second, and more of the others


# Broken twins, which are often reported in practice. At 60 % confidence, few audits suffice to see more than 40 % fail.
LOOSE = 0.4


def thresholds_for_free(method: RateMethod, delta: float) -> Bounding:
    def bound(inside: Scores, outside: Scores) -> float:
        sample, level = Sample.of(inside, outside), Level(LOOSE, delta)
        return max(method.bound_at(sample, method.choose_threshold(sample, level), level).lower, 0.0)

    return bound


def best_direction_for_free(inside: Scores, outside: Scores) -> float:
    settings = {"method": OneRun(num_guesses=100), "confidence": 1 - LOOSE}
    return max(audit_scores(sign * inside, sign * outside, **settings).epsilon_lower for sign in (1, -1))


def best_number_of_guesses_for_free(inside: Scores, outside: Scores) -> float:
    return best_vertex(roc(inside, outside), LOOSE)


def bonferroni_over_the_hull(inside: Scores, outside: Scores) -> float:
    """The common rule, in which the data decide how many thresholds to correct for."""
    hull = roc(inside, outside).hull()
    return best_vertex(hull, ERROR / hull.tp.size)


def best_vertex(curve: Roc, error: float) -> float:
    size, best = curve.num_in + curve.num_out, 0.0
    for tp, fp in zip(curve.tp[1:].tolist(), curve.fp[1:].tolist(), strict=True):
        if tp and bdtrc(tp - 1, tp + fp, expit(best)) <= error:  # the others show less
            best = one_run_epsilon(size, tp + fp, tp, significance=error)
    return best


# The twin, the mechanism that reveals it, the number of audits, and the number of scores in each.
TWINS: dict[str, tuple[Bounding, str, int, int]] = {
    "threshold": (thresholds_for_free(ClopperPearson(), 0.0), "laplace", 400, 1000),  # 76 % exceed, 53 % are an alarm
    "threshold, Gaussian": (thresholds_for_free(GaussianDP(), 1e-2), "gaussian", 400, 1000),  # 78 %, 53 %
    "direction": (best_direction_for_free, "nothing", 1500, SIZE),  # 63 %, 47 %
    "number of guesses": (best_number_of_guesses_for_free, "nothing", 150, SIZE),  # 91 %, 61 %
}


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.quick_cases(1)
def test_uncorrected_choices_are_caught(twin: str) -> None:
    bound, name, audits, size = TWINS[twin]
    count = excesses(MECHANISMS[name], bound, audits, size)
    print(f"{twin}: {count} of {audits}")
    assert alarming(count, audits, LOOSE)


@pytest.mark.slow
def test_bonferroni_over_the_hull_is_caught() -> None:
    """7.3 % exceed, little more than may; 6.0 % of so many are an alarm."""
    assert alarming(excesses(MECHANISMS["nothing"], bonferroni_over_the_hull, 20_000, 1000), 20_000)


def test_trials_are_corrected_for() -> None:
    def bound(inside: Scores, outside: Scores) -> float:
        results = [
            audit_scores(sign * inside, sign * outside, method=OneRun(num_guesses=100), num_trials=2)
            for sign in (1, -1)
        ]
        return max(result.epsilon_lower for result in results)

    assert not alarming(excesses(MECHANISMS["nothing"], bound, 1500), 1500)
