"""Printed numbers: short, and never on the wrong side of the exact one."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.guarantee import Bound
from hush.guarantee.rounding import factor, percent, rounded, rounded_percentage

positive = st.floats(1e-300, 1e300)


@given(positive)
def test_upper_bounds_are_rounded_up_and_lower_bounds_down(value: float) -> None:
    exact = Decimal(repr(value))
    assert Decimal(rounded(value, Bound.LOWER)) <= exact <= Decimal(rounded(value, Bound.UPPER))


@given(positive)
def test_an_estimate_is_rounded_to_the_nearest(value: float) -> None:
    assert float(rounded(value, Bound.ESTIMATE)) == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize(
    ("value", "upper", "lower"),
    [
        (0.0, "0", "0"),
        (1e-5, "1e-05", "1e-05"),  # a short decimal stays as it is, although its binary value lies above
        (2.9211, "2.93", "2.92"),
        (999.9, "1000", "999"),
        (123_456.0, "124000", "123000"),
        (1_234_567.0, "1.24e+06", "1.23e+06"),
        (math.inf, "inf", "inf"),
    ],
)
def test_three_digits(value: float, upper: str, lower: str) -> None:
    assert (rounded(value, Bound.UPPER), rounded(value, Bound.LOWER)) == (upper, lower)


def test_percentages() -> None:
    assert rounded_percentage(0.46212, Bound.UPPER) == "46.3"
    assert percent(0.46212, Bound.LOWER) == "46.2 %"
    assert percent(1.0, Bound.UPPER) == "100 %"


@pytest.mark.parametrize(
    ("epsilon", "upper", "lower"),
    [(0.0, "1", "1"), (3.0, "20.1", "20"), (1000.0, "10^435", "10^434"), (13.8, "985000", "984000")],
)
def test_factors_become_powers_of_ten_beyond_a_million(epsilon: float, upper: str, lower: str) -> None:
    assert (factor(epsilon, Bound.UPPER), factor(epsilon, Bound.LOWER)) == (upper, lower)
