"""Guesses about canaries: how ties count, how many are tried, and coins that are refused."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.audit import OneRun, OneRunFDP, audit_one_run, audit_scores
from hush.audit.bounds.guesses import check_coins, count_correct, numbers_of_guesses
from hush.audit.bounds.sample import Sample
from hush.errors import InvalidArgument


@given(
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=2, max_size=5).filter(
        lambda rows: len({coin for _, coin in rows}) == 2
    ),
    st.data(),
)
def test_ties_are_broken_in_the_worst_way(rows: list[tuple[int, bool]], data: st.DataObject) -> None:
    in_guesses = data.draw(st.integers(0, len(rows)))
    out_guesses = data.draw(st.integers(0, len(rows) - in_guesses))
    scores, coins = np.array([float(score) for score, _ in rows]), np.array([coin for _, coin in rows])
    counted = count_correct(Sample.of(scores[coins], scores[~coins]), in_guesses, out_guesses)
    worst = len(rows)
    for order in permutations(range(len(rows))):  # ways to break ties
        ranked = sorted(order, key=lambda row: scores[row])
        top, bottom = ranked[len(rows) - in_guesses :], ranked[:out_guesses]
        worst = min(worst, sum(coins[top]) + sum(~coins[bottom]))
    assert counted <= worst
    assert counted == worst or (in_guesses and out_guesses)  # both ends may meet in one tie


def test_without_ties_guesses_are_counted() -> None:
    sample = Sample.of([5.0, 4.0, 1.0], [3.0, 2.0, 0.0])
    assert [count_correct(sample, in_guesses, 0) for in_guesses in range(7)] == [0, 1, 2, 2, 2, 3, 3]
    assert [count_correct(sample, 0, out_guesses) for out_guesses in range(7)] == [0, 1, 1, 2, 3, 3, 3]


@given(st.integers(1, 5000), st.floats(1e-9, 0.4))
def test_numbers_of_guesses_ascend_to_all_canaries(num_canaries: int, error: float) -> None:
    rungs = numbers_of_guesses(num_canaries, error)
    assert rungs == sorted(set(rungs))
    assert rungs[-1] == num_canaries
    # Fewer guesses than the first rung could show nothing even if all were correct.
    assert 2.0 ** -(rungs[0] - 1) > error or rungs[0] == 1


@pytest.mark.parametrize(
    ("num_in", "total", "fair"), [(900, 1000, False), (60, 1000, False), (450, 1000, True), (3, 3, None)]
)
def test_unfair_coins_are_refused(num_in: int, total: int, fair: bool | None) -> None:
    """If the coins favour one side, guessing that side is correct whatever the mechanism does."""
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


def test_a_few_canaries_may_fall_on_one_side() -> None:
    check_coins(10, 0)  # probability 2e-3
    with pytest.raises(InvalidArgument, match="^included="):
        check_coins(30, 0)  # probability 2e-9


@pytest.mark.parametrize("kind", [OneRun, OneRunFDP])
def test_numbers_of_guesses_that_make_no_test_are_refused(kind: type[OneRun | OneRunFDP]) -> None:
    with pytest.raises(InvalidArgument, match="^num_guesses="):
        kind(num_guesses=0)
    with pytest.raises(InvalidArgument, match="^num_out_guesses="):
        kind(num_out_guesses=3)
    assert kind(num_guesses=0, num_out_guesses=3).num_out_guesses == 3
