"""Binomial bounds and epsilon from counts: reference values to the printed digits, laws, and refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from hush import Guarantee, Relation, Unit
from hush.audit import Side, clopper_pearson, epsilon_from_counts
from hush.audit.bounds.counts import epsilon_at, signed_epsilon_at
from hush.errors import InvalidArgument

# The largest epsilon that n perfect observations of each class can show, at 95 % confidence.
CEILINGS = {100: 3.281, 200: 3.984, 500: 4.906, 1000: 5.601, 5000: 7.212, 10_000: 7.905, 100_000: 10.208}


def test_perfect_attack() -> None:
    # TensorFlow Privacy's test of its own bound, alpha .01.
    result = epsilon_from_counts(500, 500, 0, 500, confidence=0.99)
    assert result.epsilon_lower == pytest.approx(4.541915810224, abs=5e-13)
    assert result.epsilon == math.inf
    assert result.details["tpr_lower"] == pytest.approx(0.98946, abs=5e-6)
    halved = epsilon_from_counts(500, 500, 0, 500, confidence=0.99, group_size=2)
    assert halved.epsilon_lower == pytest.approx(2.270957905, abs=5e-10)


@pytest.mark.parametrize("size", CEILINGS)
def test_ceiling_of_what_counts_can_show(size: int) -> None:
    result = epsilon_from_counts(size, size, 0, size)
    assert result.epsilon_lower == pytest.approx(CEILINGS[size], abs=5e-4)


@given(st.integers(1, 400), st.data(), st.floats(1e-6, 0.5))
def test_clopper_pearson_is_a_beta_quantile(size: int, data: st.DataObject, error: float) -> None:
    count = data.draw(st.integers(0, size))
    low, high = (float(clopper_pearson(count, size, error, side)) for side in (Side.LOWER, Side.UPPER))
    assert low == pytest.approx(beta.ppf(error, count, size - count + 1) if count else 0.0, rel=1e-9, abs=1e-300)
    assert high == pytest.approx(beta.isf(error, count + 1, size - count) if count < size else 1.0, rel=1e-9)
    assert float(clopper_pearson(size - count, size, error, Side.UPPER)) == pytest.approx(1 - low, rel=1e-9)


@given(st.integers(1, 100), st.integers(1, 100), st.data())
def test_a_group_shows_as_much_as_its_claim_allows(num_in: int, num_out: int, data: st.DataObject) -> None:
    tp, fp = data.draw(st.integers(0, num_in)), data.draw(st.integers(0, num_out))
    group, delta = data.draw(st.integers(2, 5)), data.draw(st.sampled_from([1e-6, 1e-3, 0.05]))
    result = epsilon_from_counts(tp, num_in, fp, num_out, delta=delta, group_size=group)
    pure = epsilon_from_counts(tp, num_in, fp, num_out, group_size=group)
    single_unit = epsilon_from_counts(tp, num_in, fp, num_out)
    assert 0 <= result.epsilon_lower <= pure.epsilon_lower == pytest.approx(single_unit.epsilon_lower / group)
    if result.epsilon_lower > 0:
        claim = Guarantee(epsilon=result.epsilon_lower * (1 + 1e-9), delta=delta).for_group(group)
        tpr_lower, fpr_upper = float(result.details["tpr_lower"]), float(result.details["fpr_upper"])
        assert claim.max_tpr(fpr_upper) >= tpr_lower * (1 - 1e-7)


def test_both_inequalities_count() -> None:
    # Every member is flagged, and half of the non-members: only the inequality for negatives shows the leak.
    by_negatives = epsilon_from_counts(1000, 1000, 500, 1000)
    by_positives = epsilon_from_counts(500, 1000, 0, 1000)
    assert by_negatives.epsilon_lower == pytest.approx(by_positives.epsilon_lower, rel=1e-9)
    assert by_negatives.epsilon_lower > 4


@pytest.mark.parametrize(
    ("tpr", "fpr", "delta", "epsilon"),
    [
        (0.5, 0.1, 0.0, math.log(5)),
        (0.9, 0.5, 0.0, math.log(5)),
        (0.5, 0.1, 0.1, math.log(4)),
        (0.1, 0.5, 0.0, math.log(0.5 / 0.9)),  # worse than guessing: negative
        (0.0, 0.0, 0.0, 0.0),  # 0 / 0 by positives, so the negatives decide
        (1.0, 1.0, 0.0, 0.0),
        (1.0, 0.0, 0.0, math.inf),
        (0.1, 0.1, 0.95, -math.inf),  # delta exceeds both rates
    ],
)
def test_epsilon_of_rates(tpr: float, fpr: float, delta: float, epsilon: float) -> None:
    assert float(signed_epsilon_at(tpr, fpr, delta)) == pytest.approx(epsilon)
    assert float(epsilon_at(tpr, fpr, delta)) == pytest.approx(max(epsilon, 0.0))


@pytest.mark.parametrize(("epsilon", "at_a_thousandth", "at_a_hundredth"), [(1, 0.00273, 0.02719), (2, 0.0074, 0.0739)])
def test_a_claim_caps_the_tpr(epsilon: float, at_a_thousandth: float, at_a_hundredth: float) -> None:
    claim = Guarantee(epsilon=epsilon, delta=1e-5)
    digits = 5 if epsilon == 1 else 4
    assert round(claim.max_tpr(0.001), digits) == at_a_thousandth
    assert round(claim.max_tpr(0.01), digits) == at_a_hundredth
    # The smallest epsilon that allows the capped rates is the claimed one.
    assert float(epsilon_at(claim.max_tpr(0.01), 0.01, 1e-5)) == pytest.approx(epsilon)


def test_a_weak_claim_caps_the_tpr() -> None:
    claim = Guarantee(epsilon=4, delta=1e-5)
    assert (round(claim.max_tpr(0.001), 4), round(claim.max_tpr(0.01), 3)) == (0.0546, 0.546)


def test_counts_carry_unit_and_relation() -> None:
    result = epsilon_from_counts(90, 100, 3, 100, unit=Unit.user(), relation=Relation.REPLACE)
    assert (result.unit, result.relation) == (Unit.user(), Relation.REPLACE)
    with pytest.raises(InvalidArgument):
        epsilon_from_counts(90, 100, 3, 100, unit="user")  # type: ignore[arg-type]


def test_arrays_of_counts_broadcast() -> None:
    bounds = clopper_pearson(np.arange(4), 10, 0.05, Side.UPPER)
    assert bounds.tolist() == [float(clopper_pearson(count, 10, 0.05, Side.UPPER)) for count in range(4)]


@pytest.mark.parametrize(
    "call",
    [
        lambda: clopper_pearson(3, 2, 0.05, Side.LOWER),
        lambda: clopper_pearson(1, 2, 0.0, Side.LOWER),
        lambda: clopper_pearson(math.nan, 2, 0.05, Side.LOWER),
        lambda: clopper_pearson(1, 2, 0.05, "lower"),  # type: ignore[arg-type]
        lambda: epsilon_from_counts(3, 2, 0, 2),
        lambda: epsilon_from_counts(1, 2, 0, 0),
        lambda: epsilon_from_counts(1, 2, 0, 2, group_size=0),
    ],
)
def test_impossible_counts_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgument):
        call()
