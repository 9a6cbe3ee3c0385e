"""Randomised response and unary encoding, exactly: privacy and variance from the enumerated distribution."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import RandomizedResponse, UnaryEncoding, randomized_response
from hush.randomness import TestSource
from mechanisms.channels import EPSILON, Coins, check_ratios


def test_randomized_response(monkeypatch: pytest.MonkeyPatch) -> None:
    coins, mechanism = Coins(monkeypatch, randomized_response), RandomizedResponse(epsilon=EPSILON, num_values=4)
    laws = [coins.law(mechanism, record, (1, 3)) for record in range(4)]
    check_ratios(laws, EPSILON)
    assert float(laws[2][2]) == pytest.approx(mechanism.truth_probability, rel=1e-14)
    assert float(laws[2][3]) == pytest.approx(mechanism.lie_probability, rel=1e-14)
    for hostile in (math.nan, -math.inf, -7):
        assert coins.law(mechanism, hostile, (1, 3)) == laws[0]


def test_unary_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    coins, mechanism = Coins(monkeypatch, randomized_response), UnaryEncoding(epsilon=EPSILON, num_values=3)
    mechanism.release([0], TestSource(1))
    lie, half = coins.probability, Fraction(1, 2)
    for record in range(3):
        for side, true_bit in product((True, False), (0, 1)):  # the true value's bit is drawn separately
            coins.side = side
            row = mechanism.release([record] * 2, TestSource(1)).value[true_bit].tolist()
            assert row == [bool(true_bit) if value == record else side for value in range(3)]
    laws = [
        {
            bits: math.prod(half if value == record else (lie if bit else 1 - lie) for value, bit in enumerate(bits))
            for bits in product((0, 1), repeat=3)
        }
        for record in range(3)
    ]
    check_ratios(laws, EPSILON)
    assert float(lie) == pytest.approx(mechanism.lie_probability, rel=1e-14)


def test_unary_encoding_has_the_variance_of_the_paper() -> None:
    """Wang, Blocki, Li & Jha 2017: n 4 e^epsilon / (e^epsilon - 1)^2 for rare values."""
    mechanism = UnaryEncoding(epsilon=EPSILON, num_values=100)
    lie, grown = mechanism.lie_probability, math.exp(EPSILON)
    assert lie * (1 - lie) / (0.5 - lie) ** 2 == pytest.approx(4 * grown / (grown - 1) ** 2)
    assert mechanism.standard_error(100) >= math.sqrt(100 * lie * (1 - lie)) / (0.5 - lie)


@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding])
def test_the_relation_is_replacement(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match="^relation="):
        kind(epsilon=1.0, num_values=2, relation=Relation.ADD_OR_REMOVE)


@pytest.mark.parametrize("num_values", [0, 1, 2.0, True, None, 1 << 40])
@pytest.mark.parametrize("kind", [RandomizedResponse, UnaryEncoding])
def test_the_number_of_values_is_checked(kind: Any, num_values: Any) -> None:
    with pytest.raises(InvalidArgument, match="^num_values="):
        kind(epsilon=1.0, num_values=num_values)
