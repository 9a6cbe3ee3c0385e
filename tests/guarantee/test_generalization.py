"""Bounds on overfitting: attained by worst cases, kept in simulations, and broken by twins that claim more."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.accounting import GaussianEvent, PldAccountant, ZcdpAccountant
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Bound, Guarantee, Relation, Unit
from hush.guarantee.generalization import belief_shift, expected_gap, transfer_width

REPLACE = Relation.REPLACE


def claim(epsilon: float, delta: float = 0.0, **terms: Any) -> Guarantee:
    return Guarantee(**{"epsilon": epsilon, "delta": delta, "relation": REPLACE, **terms})


@pytest.mark.parametrize("categories", [3, 4, 10])
def test_the_mean_gap_is_attained_by_randomised_response(categories: int) -> None:
    # One record among k values, kept with odds e^epsilon each, at k = e^(epsilon / 2) + 1; the query asks for the
    # reported value. Its gap is exactly tanh(epsilon / 4).
    epsilon = 2 * math.log(categories - 1)
    kept = math.exp(epsilon) / (math.exp(epsilon) + categories - 1)
    gap = kept - 1 / categories
    assert gap <= expected_gap(epsilon, 0.0)
    assert gap == pytest.approx(math.tanh(epsilon / 4), rel=1e-9)
    assert gap > expected_gap(epsilon * 0.9, 0.0)  # a broken twin


def test_the_mean_gap_with_delta_is_attained_where_records_are_published() -> None:
    # With probability delta the record is published, among many values: the query asks for it.
    assert expected_gap(0.0, 0.1) == pytest.approx(0.1)
    assert expected_gap(0.0, 0.05) < 0.1 * (1 - 1e-6)  # a broken twin


def gaps(epsilon: float, num_records: int, runs: int) -> np.ndarray:
    """Return gaps of the worst query for a release that says, with noise, which cells of a domain have records.

    Each cell's bit is flipped with odds e^(-epsilon / 2); a replaced record moves two bits. The query is whether a
    record's cell is reported. Cells are many, so that the population's mean is that of empty cells.
    """
    rng = np.random.default_rng(11)
    cells, flipped = 40 * num_records, 1 / (1 + math.exp(epsilon / 2))
    results = []
    for _ in range(runs):
        records = rng.integers(0, cells, num_records)
        bits = np.zeros(cells, dtype=bool)
        bits[records] = True
        reported = bits ^ (rng.random(cells) < flipped)
        results.append(reported[records].mean() - reported.mean())
    return np.array(results)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_no_gap_exceeds_the_width_and_a_broken_twin_is_exceeded(epsilon: float) -> None:
    measured = gaps(epsilon, num_records=400, runs=100)
    bounds = claim(epsilon).generalization(400, confidence=1 - 1e-6)
    assert measured.max() <= bounds.width  # fixed seed; each run fails with probability 1e-6
    assert measured.mean() == pytest.approx(bounds.expected, rel=0.1)
    assert measured.mean() > claim(epsilon * 0.8).generalization(400).expected


def test_the_transfer_width_covers_results_of_probability_delta() -> None:
    # The worst result: all records are published with probability delta. Its gap is 1, so no width below 1 may have a
    # failure below delta.
    delta = 1e-3
    assert transfer_width(0.01, delta, delta / 2, lambda error: 0.0) == 1.0
    assert transfer_width(0.01, delta, 0.5, lambda error: 0.0) < 0.2


@given(st.floats(0, 5), st.floats(0, 1e-3), st.integers(1, 10**7))
def test_bounds_grow_with_epsilon_delta_and_queries_and_fall_with_records(
    epsilon: float, delta: float, num_records: int
) -> None:
    bounds = claim(epsilon, delta).generalization(num_records)
    assert 0 <= bounds.expected <= min(1, math.expm1(epsilon) + delta + 1e-9)  # the notes' e^epsilon - 1
    assert bounds.width <= claim(epsilon + 0.1, delta).generalization(num_records).width + 1e-9
    assert bounds.width <= claim(epsilon, delta).generalization(num_records, num_queries=50).width + 1e-9
    assert bounds.width >= claim(epsilon, delta).generalization(4 * num_records).width - 1e-9
    assert bounds.width <= claim(epsilon, delta).generalization(num_records, confidence=0.999).width + 1e-9


def test_without_any_epsilon_it_is_hoeffding() -> None:
    width = claim(0.0).generalization(1000, confidence=0.95, num_queries=7).width
    assert math.sqrt(math.log(14 / 0.05) / 2000) < width < 1.02 * math.sqrt(math.log(14 / 0.05) / 2000)


def test_it_beats_the_published_constants() -> None:
    bounds = claim(0.05, 1e-8).generalization(10**6)
    assert bounds.width < 18 * 0.05 / 10  # Bassily et al. 2016, Theorem 7.2
    assert bounds.expected < math.expm1(0.05)


def test_a_replacement_is_two_changes_of_other_relations() -> None:
    single, double = claim(0.2, 1e-6, relation=Relation.ADD_OR_REMOVE), claim(0.4, 1e-6 * (1 + math.exp(0.2)))
    ours, theirs = single.generalization(10**4), double.generalization(10**4)
    assert ours.expected == pytest.approx(theirs.expected, rel=1e-6)
    assert ours.width == pytest.approx(theirs.width, rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(math.inf, 0.0), (1e300, 0.5), (40.0, 0.0), (1.0, 0.9)])
def test_bounds_that_say_nothing_say_so(epsilon: float, delta: float) -> None:
    bounds = claim(epsilon, delta).generalization(1000)
    assert bounds.vacuous
    assert bounds.width == 1
    assert "vacuous" in str(bounds)


@pytest.mark.parametrize("bound", [Bound.LOWER, Bound.ESTIMATE])
def test_only_upper_bounds_promise_anything(bound: Bound) -> None:
    other = claim(1.0, bound=bound)
    for promise in (lambda: other.generalization(10), lambda: other.poisoned(0.5, 1), lambda: other.most_poisons(1, 0)):
        with pytest.raises(Unsupported, match="proven upper bound"):
            promise()


def test_windows_of_a_user_are_refused_and_so_are_wrong_numbers() -> None:
    with pytest.raises(Unsupported, match="independent draws"):
        claim(1.0, unit=Unit.user_window(timedelta(days=7))).generalization(10)
    for arguments in ({"num_queries": 0}, {"num_queries": 10**400}, {"confidence": 1.0}, {"confidence": math.nan}):
        with pytest.raises(InvalidArgument):
            claim(1.0).generalization(10, **arguments)
    with pytest.raises(InvalidArgument):
        claim(1.0).generalization(0)


def test_zcdp_bounds_hold_for_the_gaussian_mechanism() -> None:
    """A release of each cell's count with Gaussian noise, and the query that follows the noisiest cells."""
    rng = np.random.default_rng(4)
    num_records, cells, sigma = 300, 3000, 2.0
    accountant = ZcdpAccountant(relation=REPLACE).compose(GaussianEvent(sigma * math.sqrt(2)))  # moves by sqrt(2)
    bounds = accountant.generalization(num_records, confidence=1 - 1e-6)
    measured = []
    for _ in range(100):
        records = rng.integers(0, cells, num_records)
        noisy = np.bincount(records, minlength=cells) + sigma * rng.standard_normal(cells)
        favoured = noisy > np.median(noisy)
        measured.append(favoured[records].mean() - favoured.mean())
    assert max(measured) < bounds.width  # fixed seed
    assert 0.3 * bounds.expected < np.mean(measured) < bounds.expected


def test_zcdp_takes_the_best_of_its_bounds() -> None:
    accountant = ZcdpAccountant(relation=REPLACE).compose(GaussianEvent(50.0))
    bounds = accountant.generalization(10**5)
    assert bounds.expected == pytest.approx(math.sqrt(accountant.rho / 2))
    assert bounds.width <= accountant.guarantee(1e-6).generalization(10**5).width
    tight = PldAccountant(relation=REPLACE).compose(GaussianEvent(50.0)).delta(0.0)
    assert tight <= bounds.expected  # the statistical distance, which any of them bounds


def test_the_shift_of_belief_is_the_largest_difference_to_the_prior() -> None:
    for epsilon in (0.1, 1.0, 4.0):
        shifts = [claim(epsilon).posterior(prior) - prior for prior in np.linspace(0, 1, 20_001)]
        assert max(shifts) == pytest.approx(belief_shift(epsilon, 0.0), abs=1e-6)
        assert claim(epsilon).advantage() <= epsilon / 2  # the statistical distance; the notes say 2 epsilon


def exact_channels() -> list[np.ndarray]:
    """Return channels, one row of probabilities per value of a record: random ones, and some that leak at times."""
    rng = np.random.default_rng(9)
    channels = [rng.dirichlet(np.full(6, concentration), size=3) for concentration in (0.3, 1, 5) for _ in range(30)]
    for values, epsilon, leak in ((2, 0.0, 0.1), (4, 1.0, 0.05), (3, 2.0, 0.3)):
        kept = np.full((values, values), 1.0) + np.eye(values) * (math.exp(epsilon) - 1)
        channels.append(np.hstack([(1 - leak) * kept / kept.sum(axis=1, keepdims=True), leak * np.eye(values)]))
    return channels


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.5])
def test_beliefs_move_by_no_more_than_the_transfer_width_says(epsilon: float) -> None:
    """The lemma behind `transfer_width`, on one record, for the worst query and the exact delta of many channels."""
    tightest = 0.0
    for channel in exact_channels():
        delta = max(np.clip(one - math.exp(epsilon) * other, 0, None).sum() for one in channel for other in channel)
        for prior in np.random.default_rng(10).dirichlet(np.ones(len(channel)), size=20):
            joint = prior[:, None] * channel
            marginal = joint.sum(axis=0)
            moved = np.clip(joint - prior[:, None] * marginal, 0, None).sum(axis=0) / marginal.clip(1e-300)
            for per_result in (delta, 2 * delta, 5 * delta, 0.5):
                if not 0 < delta <= per_result < 1:
                    continue
                # As `_shifts` has it: the belief moves further with a probability of at most delta / per_result.
                beyond = marginal[moved > claim(epsilon, per_result).advantage() + 1e-12].sum()
                assert beyond <= delta / per_result + 1e-12
                tightest = max(tightest, beyond / (delta / per_result))
        if delta == 0:
            assert moved.max() <= belief_shift(epsilon, 0.0) + 1e-12
    assert tightest > 0.02  # the lemma is not idle
