"""Encodings of outputs: different outputs get different numbers, whatever their type, or are refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.audit.testers import audit_mechanism
from hush.audit.testers.encoding import encode
from hush.errors import InvalidArgument
from hush.randomness import TestSource

BIG = 2**60


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "sign of zero": (0.0, -0.0),
    "sign of zero in a list": ([1.0, 0.0], [1.0, -0.0]),
    "large integers": (BIG, BIG + 1),
    "negative integers": (-BIG, -BIG - 1),
    "huge integers": (10**400, 10**400 + 1),
    "huge integers, high digits": (10**400, 10**400 + 2**1000),
    "large integers of numpy": (np.array([BIG]), np.array([BIG + 1])),
    "nothing and no entries": (None, []),
    "missing and NaN": ([None], [math.nan]),
    "structure": ([[1], [2, 3]], [[1, 2], [3]]),
    "list and number": ([1], 1),
    "list and tuple": ([1], (1,)),
    "types": (1, 1.0),
    "truth and number": (True, 1),
    "text and bytes": ("a", b"a"),
    "imaginary part": (1 + 0j, 1 + 1j),
    "dictionaries": ({"a": 1}, {"a": 2}),
    "keys": ({"a": 1}, {"b": 1}),
    "sets": ({1, 5}, {1, 6}),
    "decimals": (Decimal("0.1"), Decimal("0.10000000000000000000001")),
    "fractions": (Fraction(1, 3), Fraction(10**20, 3 * 10**20 + 1)),
    "shapes": (np.zeros((2, 3)), np.zeros((3, 2))),
    "precision": (np.float32(0.5), np.float64(0.5)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_outputs_are_told_apart(name: str) -> None:
    pair = DIFFERENT[name]
    result = audit_mechanism(lambda which, source: pair[which], 0, 1, samples=300, source=TestSource(1))
    assert result.epsilon_lower > 3
    constant = audit_mechanism(lambda which, source: pair[0], 0, 1, samples=300, source=TestSource(1))
    assert constant.epsilon_lower == 0


def test_equal_outputs_have_equal_encodings() -> None:
    assert encode({3, 1, 2}) == encode({1, 2, 3})
    assert encode(np.array([1.0, 2.0])) == encode(np.array([1.0, 2.0]))
    lengths = [encode([0.5] * count)[0] for count in range(1, 30)]
    assert np.allclose(np.diff(lengths), 1, rtol=0, atol=1e-9)  # for a flat list only the length counts


def test_unknown_types_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="output="):
        audit_mechanism(lambda which, source: object(), 0, 1, samples=10, source=TestSource(1))
