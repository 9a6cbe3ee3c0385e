"""Samples of scores: the ladder of counts, candidate thresholds, splits, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.audit import ClopperPearson
from hush.audit.bounds.method import Level
from hush.audit.bounds.rates import _rates_everywhere
from hush.audit.bounds.sample import Sample, as_scores, ladder
from hush.errors import InvalidArgument

VALUES = [-math.inf, -1.0, 0.0, 0.5, 2.0, math.inf]
SCORES = st.lists(st.sampled_from(VALUES), min_size=1, max_size=40)


@given(st.integers(1, 5000))
def test_the_ladder_ascends_symmetrically_from_zero_to_the_total(total: int) -> None:
    rungs = ladder(total)
    assert rungs[0] == 0
    assert rungs[-1] == total
    assert np.all(np.diff(rungs) > 0)
    assert np.array_equal(rungs, total - rungs[::-1])


@given(SCORES, SCORES)
def test_candidates_are_as_good_as_all_thresholds(inside: list[float], outside: list[float]) -> None:
    """No threshold at all beats the candidates, by the simultaneous bounds."""
    sample, method, level = Sample.of(inside, outside), ClopperPearson(), Level(0.05, 0.0)
    rates = _rates_everywhere(sample, np.array(VALUES), level.error)
    best = method.strength(rates.tpr_lower, rates.fpr_upper, level).max()
    assert method.bound_at_best(sample, level).lower == pytest.approx(max(float(best), 0.0))


@given(SCORES, SCORES)
def test_counts_include_scores_at_the_threshold(inside: list[float], outside: list[float]) -> None:
    tp, fp = Sample.of(inside, outside).counts(np.array(VALUES))
    assert tp.tolist() == [sum(score >= threshold for score in inside) for threshold in VALUES]
    assert fp.tolist() == [sum(score >= threshold for score in outside) for threshold in VALUES]


def test_a_stratified_split_keeps_the_share_of_each_class() -> None:
    sample = Sample.of(np.arange(10.0), np.arange(100.0, 120.0))
    first, second = sample.stratified(0.3, np.random.default_rng(0))
    assert (first.num_in, first.num_out, second.num_in, second.num_out) == (3, 6, 7, 14)
    assert sorted([*first.inside, *second.inside]) == list(range(10))
    assert sorted([*first.outside, *second.outside]) == list(range(100, 120))


def test_a_pooled_split_does_not_look_at_the_coins() -> None:
    """Which canaries fall into the first part is the same whatever their coins."""
    scores, rng = np.arange(20.0), np.random.default_rng(1)
    parts = set()
    for _ in range(5):
        coins = rng.random(20) < 0.5
        sample = Sample(scores[coins], scores[~coins], coins)
        first, second = sample.pooled(0.4, np.random.default_rng(7))
        parts.add(tuple(sorted([*first.inside, *first.outside])))
        assert first.num_in + first.num_out == 8
        assert first.coins is not None
        assert second.coins is not None
        assert (first.num_in, second.num_in) == (first.coins.sum(), second.coins.sum())
        assert sorted([*first.inside, *first.outside, *second.inside, *second.outside]) == scores.tolist()
        assert set(first.inside) | set(second.inside) == set(scores[coins])
    assert len(parts) == 1


@pytest.mark.parametrize("values", [[], [[1.0]], [1.0, math.nan], ["a"], None])
def test_invalid_scores_are_refused(values: object) -> None:
    with pytest.raises(InvalidArgument, match="^scores_in="):
        as_scores("scores_in", values)  # type: ignore[arg-type]
