"""One grammar for every refusal, and no check that lets NaN or a look-alike through.

``name=value: expected P. Why. Do this instead.``
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import errors
from strategies import not_numbers

GRAMMAR = re.compile(r"(?P<name>[a-z_]+)=(?P<value>.+): expected (?P<what>.+?)\.(?P<advice>( .+[.!?:])?)", re.DOTALL)


def check_mapping(name: str, value: Any, *advice: str) -> None:
    errors.check_instance(name, value, dict, *advice)


@dataclass(frozen=True)
class Check:
    """A check, numbers it must accept, and numbers it must refuse."""

    call: Callable[..., Any]
    accepts: tuple[Any, ...]
    refuses: st.SearchStrategy[Any]


INFINITE = st.sampled_from([math.inf, -math.inf, 10**400, -(10**400)])
NEGATIVE = st.floats(max_value=0, exclude_max=True)
ABOVE_ONE = st.floats(min_value=1, exclude_min=True)

# Every check of hush.errors is enrolled here; `test_every_check_is_enrolled` notices one that is not.
CHECKS = {
    "check_positive": Check(
        errors.check_positive, (1, 5e-324, 1e308, Fraction(1, 4), np.float32(2)), INFINITE | NEGATIVE | st.just(0)
    ),
    "check_epsilon": Check(errors.check_epsilon, (0, 0.0, 1, 1e308, np.float64(3)), INFINITE | NEGATIVE),
    "check_delta": Check(
        errors.check_delta, (0, 1e-300, 0.5, math.nextafter(1, 0)), INFINITE | NEGATIVE | ABOVE_ONE | st.just(1)
    ),
    "check_fraction": Check(errors.check_fraction, (0, 0.5, 1), INFINITE | NEGATIVE | ABOVE_ONE),
    "check_probability": Check(
        errors.check_probability, (5e-324, 0.5, 1), INFINITE | NEGATIVE | ABOVE_ONE | st.sampled_from([0, 0.0, -0.0])
    ),
    "check_confidence": Check(
        errors.check_confidence,
        (5e-324, 0.5, np.float32(0.5), math.nextafter(1, 0)),
        INFINITE | NEGATIVE | ABOVE_ONE | st.sampled_from([0, 0.0, 1, 1.0]),
    ),
    "check_count": Check(
        errors.check_count, (1, 10**30, np.int64(3)), st.integers(max_value=0) | st.floats() | st.just(Fraction(3))
    ),
    "check_instance": Check(
        lambda name, value, *advice: errors.check_instance(name, value, Check, *advice), (), st.floats()
    ),
}
EACH = pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)


def refusal(check: Check, value: Any, *advice: str) -> str:
    with pytest.raises(errors.InvalidArgument) as caught:
        check.call("some_name", value, *advice)
    return str(caught.value)


def test_every_check_is_enrolled() -> None:
    assert set(CHECKS) == {name for name in vars(errors) if name.startswith("check_")}


@EACH
@given(data=st.data())
def test_what_is_no_number_is_refused(check: Check, data: st.DataObject) -> None:
    value = data.draw(not_numbers | st.just(Decimal(1)) | st.just(np.array([1.0, 2.0])))
    match = GRAMMAR.fullmatch(refusal(check, value))
    assert match is not None
    assert match["name"] == "some_name"


@EACH
@given(data=st.data())
def test_numbers_out_of_range_are_refused(check: Check, data: st.DataObject) -> None:
    assert GRAMMAR.fullmatch(refusal(check, data.draw(check.refuses)))


@EACH
def test_numbers_in_range_are_returned_as_plain_numbers(check: Check) -> None:
    for value in check.accepts:
        result = check.call("some_name", value)
        assert type(result) in (int, float)
        assert result == value


@EACH
def test_advice_becomes_sentences(check: Check) -> None:
    message = refusal(check, math.nan, "This is why", "Do that instead!")
    assert message.startswith("some_name=nan: expected ")
    assert message.endswith(". This is why. Do that instead!")


@given(st.floats(allow_nan=False))
def test_numbers_are_shown_with_three_digits(value: float) -> None:
    message = str(errors.InvalidArgument("x", value, "something else"))
    assert message == f"x={value:.3g}: expected something else."


@given(st.text(min_size=100))
def test_long_values_are_cut(value: str) -> None:
    assert len(str(errors.InvalidArgument("x", value, "less"))) < 90


@pytest.mark.parametrize("limit", [2.0, 0.5])
def test_a_maximum_is_named(limit: float) -> None:
    assert errors.check_positive("x", limit, maximum=limit) == limit
    with pytest.raises(errors.InvalidArgument, match=rf"expected a finite number > 0 and <= {limit:g}\."):
        errors.check_positive("x", math.nextafter(limit, 9), maximum=limit)


def test_a_minimum_is_named() -> None:
    assert errors.check_count("n", 0, minimum=0) == 0
    with pytest.raises(errors.InvalidArgument, match="expected an integer >= 2"):
        errors.check_count("n", 1, minimum=2)


def test_instances_pass_and_types_are_named() -> None:
    errors.check_instance("x", 1, int)
    errors.check_instance("x", "a", (int, str))
    with pytest.raises(errors.InvalidArgument, match=r"^x=1\.5: expected int or str\. Do this\.$"):
        errors.check_instance("x", 1.5, (int, str), "Do this")


@pytest.mark.parametrize("kind", [errors.Unsupported, errors.BudgetExceeded])
def test_other_errors_are_sentences_too(kind: type[errors.HushError]) -> None:
    assert str(kind("This part has no proof", "Use that")) == "This part has no proof. Use that."


def test_every_error_is_a_hush_error_and_what_python_expects() -> None:
    assert issubclass(errors.InvalidArgument, (errors.HushError, ValueError))
    assert issubclass(errors.InvalidArgument, ValueError)
    assert issubclass(errors.Unsupported, TypeError)
    assert issubclass(errors.BudgetExceeded, errors.HushError)
