"""One run with many canaries: reference values, the theorem's tail bound, exact small cases, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, norm

from hush.audit import Bonferroni, OneRun, audit_scores, roc
from hush.audit.bounds.guesses import count_correct, numbers_of_guesses
from hush.audit.bounds.one_run import _TailBound, one_run_epsilon
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


@pytest.mark.parametrize(("size", "guesses", "correct", "delta", "epsilon"), REFERENCE)
def test_reference_values(size: int, guesses: int, correct: int, delta: float, epsilon: float) -> None:
    assert one_run_epsilon(size, guesses, correct, significance=0.05, delta=delta) == pytest.approx(epsilon, abs=5e-7)


def normal_scores(shift: float, size: int) -> Any:
    return norm.ppf((np.arange(size) + 0.5) / size) + shift


@pytest.mark.parametrize(("shift", "epsilon"), [(1, 1.13346), (2, 2.311945), (4, 4.395568)])
def test_reference_values_over_a_hull(shift: float, epsilon: float) -> None:
    """jax-privacy's own test, whose correction is by the hull's vertices; its tolerance is a part in 1e5."""
    hull = roc(normal_scores(shift, 10_000), normal_scores(0, 10_000)).hull()
    error, size, best = 0.05 / hull.tp.size, 20_000, 0.0
    for tp, fp in zip(hull.tp.tolist(), hull.fp.tolist(), strict=True):
        if tp and _TailBound(size, tp + fp, tp, 1e-6).fixed_guesses(best) <= error:  # the others show less
            best = one_run_epsilon(size, tp + fp, tp, significance=error, delta=1e-6)
    assert best == pytest.approx(epsilon, abs=5e-6 if shift == 1 else 1e-6)


@given(st.integers(1, 30), st.data(), st.floats(0, 3), st.sampled_from([0.0, 1e-6, 1e-2]))
def test_the_tail_bound_is_that_of_the_theorem(guesses: int, data: st.DataObject, epsilon: float, delta: float) -> None:
    correct, size = data.draw(st.integers(0, guesses)), data.draw(st.integers(guesses, 50))
    law = binom(guesses, 1 / (1 + math.exp(-epsilon)))
    binomial_tail = float(law.sf(correct - 1))
    averages = [float(law.pmf(np.arange(correct - i, correct)).sum()) / i for i in range(1, correct + 1)]
    expected = min(1.0, binomial_tail + 2 * size * delta * max(averages, default=0.0))
    tail = _TailBound(size, guesses, correct, delta)
    assert tail.fixed_guesses(epsilon) == pytest.approx(expected, rel=1e-9)
    assert tail.random_guesses(epsilon) >= tail.fixed_guesses(epsilon) * 0.5
    if delta == 0:
        assert tail.random_guesses(epsilon) == pytest.approx(binomial_tail, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
def test_the_bound_holds_over_all_coins(epsilon: float) -> None:
    """Randomised response on six coins, every outcome with its probability, every number of guesses."""
    size, truth_probability = 6, 1 / (1 + math.exp(-epsilon))
    for guesses in range(1, size + 1):
        failure = 0.0
        for correct in range(guesses + 1):
            probability = float(binom.pmf(correct, guesses, truth_probability))
            failure += probability * (one_run_epsilon(size, guesses, correct, significance=0.2) > epsilon + 1e-9)
        assert failure <= 0.2


@pytest.mark.parametrize("delta", [0.0, 1e-4, 3e-3])
def test_a_rule_pays_for_the_number_of_guesses(delta: float) -> None:
    inside, outside = normal_scores(2, 300), normal_scores(0, 300)
    result = audit_scores(inside, outside, delta=delta, method=OneRun(), threshold=Bonferroni())
    rungs, sample = numbers_of_guesses(600, 1 - 0.95), Sample.of(inside, outside)
    guesses, correct = int(result.details["num_guesses"]), int(result.details["num_correct"])
    assert guesses in rungs
    exact = one_run_epsilon(600, guesses, correct, significance=(1 - 0.95) / len(rungs), delta=delta)
    assert result.epsilon_lower == pytest.approx(exact)
    # No other rung shows more: skipping the rest loses nothing.
    rung_bounds = [
        one_run_epsilon(600, rung, count_correct(sample, rung, 0), significance=0.05 / len(rungs), delta=delta)
        for rung in rungs
    ]
    assert result.epsilon_lower == pytest.approx(max(rung_bounds))


@pytest.mark.parametrize("counts", [(10, 11, 5), (10, 5, 6), (0, 0, 0), (10, 5, -1)])
def test_impossible_counts_are_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument):
        one_run_epsilon(*counts, significance=0.05)


@pytest.mark.parametrize("significance", [0.0, 1.0, math.nan])
def test_significance_is_a_probability(significance: float) -> None:
    with pytest.raises(InvalidArgument):
        one_run_epsilon(10, 5, 5, significance=significance)
