"""One run with many canaries: reference values, exact small cases, ties, and what is refused."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from hush.audit import (
    Bonferroni,
    Explicit,
    MultiSplit,
    OneRun,
    OneRunFDP,
    SplitScores,
    audit_one_run,
    audit_scores,
    gdp_epsilon,
    one_run_epsilon,
    one_run_fdp_mu,
    roc,
)
from hush.audit.bounds.guesses import numbers_of_guesses, right_guesses
from hush.audit.bounds.one_run import _Chances
from hush.audit.bounds.one_run_fdp import rejected
from hush.audit.bounds.sample import Sample
from hush.errors import InvalidArgument

REFERENCE = [
    (100, 100, 100, 0, 3.492965),
    (1000, 1000, 600, 0, 0.297468),
    (1000, 1000, 600, 1e-5, 0.297227),
    (1000, 100, 95, 1e-5, 2.165176),
    (1000, 100, 100, 1e-5, 3.465376),
    (5000, 1000, 900, 1e-5, 2.018259),
    (10_000, 200, 200, 1e-5, 3.909112),
    (1000, 1000, 500, 1e-5, 0),
]


@pytest.mark.parametrize(("size", "guesses", "right", "delta", "epsilon"), REFERENCE)
def test_reference_values(size: int, guesses: int, right: int, delta: float, epsilon: float) -> None:
    assert one_run_epsilon(size, guesses, right, significance=0.05, delta=delta) == pytest.approx(epsilon, abs=5e-7)


def normal_scores(shift: float, size: int) -> Any:
    return norm.ppf((np.arange(size) + 0.5) / size) + shift


@pytest.mark.parametrize(
    ("shift", "plain", "whole"),
    [(1, 1.13346, 2.164749), (2, 2.311945, 4.7218075), (4, 4.395568, 9.133752)],
)
def test_reference_values_over_a_hull(shift: float, plain: float, whole: float) -> None:
    """jax-privacy's own test, whose correction is by the hull's vertices; its tolerance is a part in 1e5."""
    hull = roc(normal_scores(shift, 10_000), normal_scores(0, 10_000)).hull()
    error, size = 0.05 / hull.tp.size, 20_000
    vertices = [(int(tp + fp), int(tp)) for tp, fp in zip(hull.tp, hull.fp, strict=True) if tp]
    shown = mu = 0.0
    for vertex in vertices:
        if _Chances(size, *vertex, 1e-6).fixed(shown) <= error:  # the others show less
            shown = one_run_epsilon(size, *vertex, significance=error, delta=1e-6)
        if rejected(size, *vertex, error, mu):
            mu = one_run_fdp_mu(size, *vertex, significance=error)
    assert shown == pytest.approx(plain, abs=5e-6 if shift == 1 else 1e-6)
    assert gdp_epsilon(mu, 1e-6) == pytest.approx(whole, abs=2e-6)


@given(st.integers(1, 30), st.data(), st.floats(0, 3), st.sampled_from([0.0, 1e-6, 1e-2]))
def test_chances_are_those_of_the_theorem(guesses: int, data: st.DataObject, epsilon: float, delta: float) -> None:
    right, size = data.draw(st.integers(0, guesses)), data.draw(st.integers(guesses, 50))
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    luck = float(law.sf(right - 1))
    slips = [float(law.pmf(np.arange(right - i, right)).sum()) / i for i in range(1, right + 1)]
    expected = min(1.0, luck + 2 * size * delta * max(slips, default=0.0))
    chances = _Chances(size, guesses, right, delta)
    assert chances.fixed(epsilon) == pytest.approx(expected, rel=1e-9)
    assert chances.random(epsilon) >= chances.fixed(epsilon) * 0.5
    if delta == 0:
        assert chances.random(epsilon) == pytest.approx(luck, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_the_bound_holds_over_all_coins(epsilon: float) -> None:
    """Randomised response on six coins, every outcome with its probability, every number of guesses."""
    size, keep = 6, 1 / (1 + math.exp(-epsilon))
    for guesses in range(1, size + 1):
        wrong = 0.0
        for right in range(guesses + 1):
            chance = float(binom.pmf(right, guesses, keep))
            wrong += chance * (one_run_epsilon(size, guesses, right, significance=0.2) > epsilon + 1e-9)
        assert wrong <= 0.2


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=5).filter(
        lambda rows: len({coin for _, coin in rows}) == 2
    ),
    st.data(),
)
def test_ties_count_as_wrong_as_they_can_be(rows: list[tuple[int, bool]], data: st.DataObject) -> None:
    accused = data.draw(st.integers(0, len(rows)))
    cleared = data.draw(st.integers(0, len(rows) - accused))
    scores, coins = np.array([float(score) for score, _ in rows]), np.array([coin for _, coin in rows])
    counted = right_guesses(Sample.of(scores[coins], scores[~coins]), accused, cleared)
    worst = len(rows)
    for order in permutations(range(len(rows))):  # ways to break ties
        ranked = sorted(order, key=lambda place: scores[place])
        top, bottom = ranked[len(rows) - accused :], ranked[:cleared]
        worst = min(worst, sum(coins[top]) + sum(~coins[bottom]))
    assert counted <= worst
    assert counted == worst or (accused and cleared)  # both ends may meet in one tie


def test_without_ties_guesses_are_counted() -> None:
    sample = Sample.of([5.0, 4.0, 1.0], [3.0, 2.0, 0.0])
    assert [right_guesses(sample, accused, 0) for accused in range(7)] == [0, 1, 2, 2, 2, 3, 3]
    assert [right_guesses(sample, 0, cleared) for cleared in range(7)] == [0, 1, 1, 2, 3, 3, 3]


def test_audit_one_run_is_the_bound_of_its_guesses() -> None:
    rng = np.random.default_rng(3)
    coins = rng.random(1000) < 0.5
    scores = coins * 2 + rng.normal(size=1000)
    result = audit_one_run(scores, coins, num_guesses=100, num_out_guesses=50, delta=1e-6)
    right = int(result.details["num_correct"])
    assert result.details["num_guesses"] == 150
    assert result.epsilon_lower == one_run_epsilon(1000, 150, right, significance=0.050000000000000044, delta=1e-6)
    same = audit_scores(scores[coins], scores[~coins], delta=1e-6, method=OneRun(num_guesses=100, num_out_guesses=50))
    assert same == result
    assert any("coin" in sentence for sentence in result.assumptions)


@pytest.mark.parametrize("delta", [0.0, 1e-4, 3e-3])
def test_a_rule_pays_for_the_number_of_guesses(delta: float) -> None:
    inside, outside = normal_scores(2, 300), normal_scores(0, 300)
    chosen = audit_scores(inside, outside, delta=delta, method=OneRun(), threshold=Bonferroni())
    rungs, sample = numbers_of_guesses(600, 1 - 0.95), Sample.of(inside, outside)
    guesses, right = int(chosen.details["num_guesses"]), int(chosen.details["num_correct"])
    assert guesses in rungs
    exact = one_run_epsilon(600, guesses, right, significance=(1 - 0.95) / len(rungs), delta=delta)
    assert chosen.epsilon_lower == pytest.approx(exact)
    # No other rung shows more: passing over the rest loses nothing.
    others = [
        one_run_epsilon(600, rung, right_guesses(sample, rung, 0), significance=0.05 / len(rungs), delta=delta)
        for rung in rungs
    ]
    assert chosen.epsilon_lower == pytest.approx(max(others))


def test_the_whole_curve_shows_more() -> None:
    inside, outside = normal_scores(2, 2000), normal_scores(0, 2000)
    plain, whole = (
        audit_scores(inside, outside, delta=1e-5, method=kind(num_guesses=200)) for kind in (OneRun, OneRunFDP)
    )
    assert whole.epsilon_lower > 1.4 * plain.epsilon_lower
    assert whole.mu_lower is not None
    assert 1 < whole.mu_lower < 2
    assert whole.epsilon_lower <= whole.epsilon


def test_more_right_guesses_show_more() -> None:
    shown = [one_run_fdp_mu(500, 100, right, significance=0.05) for right in range(0, 101, 5)]
    assert shown == sorted(shown)
    assert shown[0] == 0
    assert shown[-1] > 1


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
def test_what_is_no_run_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        audit_one_run(**{"num_guesses": 1, **arguments})


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)])
@pytest.mark.parametrize("bound", [one_run_epsilon, one_run_fdp_mu])
def test_counts_that_cannot_be_are_refused(bound: Any, counts: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument):
        bound(*counts, significance=0.05)


@pytest.mark.parametrize("significance", [0.0, 1.0, math.nan])
@pytest.mark.parametrize("bound", [one_run_epsilon, one_run_fdp_mu])
def test_significance_is_a_probability(bound: Any, significance: float) -> None:
    with pytest.raises(InvalidArgument):
        bound(10, 5, 5, significance=significance)


@pytest.mark.parametrize("rule", [SplitScores(), MultiSplit(num_splits=3)], ids=str)
def test_canaries_without_an_order_are_not_split(rule: Any) -> None:
    rng = np.random.default_rng(1)
    for method in (OneRun(), OneRunFDP()):
        with pytest.raises(InvalidArgument, match="use audit_one_run"):
            audit_scores(rng.normal(size=90), rng.normal(size=93), delta=1e-3, method=method, threshold=rule)
    with pytest.raises(InvalidArgument, match="coins decided the order"):
        audit_one_run(rng.normal(size=100), np.arange(100) < 50, threshold=rule)


def test_rules_choose_the_guesses_of_one_run() -> None:
    rng = np.random.default_rng(2)
    coins = rng.random(1000) < 0.5
    scores = rng.normal(size=1000) + 4 * coins
    # Least is shown at the explicit threshold: 3.3 over 20 seeds, with a standard deviation of 0.22.
    for rule in (Bonferroni(), Explicit(2.0), SplitScores(), MultiSplit(num_splits=5)):
        assert audit_one_run(scores, coins, threshold=rule).epsilon_lower > 1.5
    same = audit_scores(scores[coins], scores[~coins], method=OneRun(), threshold=Explicit(2.0))
    assert audit_one_run(scores, coins, threshold=Explicit(2.0)) == same
    with pytest.raises(InvalidArgument, match="threshold="):
        audit_one_run(scores, coins, num_guesses=5, threshold=SplitScores())


@pytest.mark.parametrize(
    ("num_in", "total", "fair"), [(900, 1000, False), (60, 1000, False), (450, 1000, True), (3, 3, None)]
)
def test_coins_that_were_not_fair_are_refused(num_in: int, total: int, fair: bool | None) -> None:
    """Of coins that fall on one side, a guess of that side is right, whatever the mechanism does."""
    scores = np.random.default_rng(3).normal(size=total)
    coins = np.random.default_rng(4).permutation(np.arange(total) < num_in)
    if fair:
        assert audit_one_run(scores, coins, num_guesses=50).num_in == num_in
        return
    with pytest.raises(InvalidArgument, match="fair coin" if fair is False else "scores_out"):
        audit_one_run(scores, coins, num_guesses=total // 2)
    if fair is False:
        for method in (OneRun(), OneRunFDP(num_guesses=5)):
            with pytest.raises(InvalidArgument, match="fair coin"):
                audit_scores(scores[coins], scores[~coins], delta=1e-3, method=method)
