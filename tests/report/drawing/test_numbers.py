"""Numbers are rounded so that claims stay true."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hush.guarantee import Bound
from hush.report import render
from hush.report.drawing import numbers as numbers
from report import records
from report.pages import check

EPSILONS = st.floats(0, 1e9) | st.floats(0, 20)


def value_of(text: str) -> float:
    return float(text.removesuffix("\u00a0%"))


@given(EPSILONS)
@example(2.9996)
@example(1.0)
@example(999_999.9)
@example(5e-324)
def test_epsilon_is_never_shown_smaller_and_hardly_larger(epsilon: float) -> None:
    shown = float(numbers.epsilon(epsilon))
    assert epsilon <= shown
    assert shown <= max(epsilon * 1.0101, 5e-322)


@pytest.mark.parametrize("twin", [lambda value: f"{value:.3g}", lambda value: f"{value:.2f}"])
def test_ordinary_rounding_would_fail(twin: object) -> None:
    assert float(twin(2.001)) < 2.001  # type: ignore[operator]


@given(st.floats(0, 1))
@example(0.99999)
@example(1.0)
def test_a_limit_is_never_shown_smaller_nor_as_certainty(share: float) -> None:
    shown = Decimal(numbers.at_most(share).removesuffix("\u00a0%"))
    assert shown >= Decimal(repr(share)) * 100
    assert (shown == 100) == (share == 1) or 1 - share < 1e-15


@given(st.floats(0, 1))
def test_percentages_are_nearest(share: float) -> None:
    assert abs(value_of(numbers.percent(share)) - 100 * share) <= 0.05 + 1e-9


@given(st.floats(0, 1), st.floats(0, 1))
def test_intervals_are_rounded_outwards(one: float, other: float) -> None:
    low, high = sorted((one, other))
    left, right = numbers.percent_interval((low, high)).split(" to ")
    assert float(left) <= 100 * low + 1e-9
    assert value_of(right) >= 100 * high - 1e-9


@given(EPSILONS, st.sampled_from([Bound.UPPER, Bound.ESTIMATE]))
def test_no_epsilon_on_the_page_is_smaller_than_it_is(epsilon: float, bound: Bound) -> None:
    page = render(
        {
            "guarantee": records.guarantee(epsilon, bound=bound),
            "budget": [{"what": "training", "epsilon": epsilon, "event": ""}],
            "curve": [{"step": 1, "epsilon": epsilon, "accuracy": 0.5}],
        }
    )
    shown = numbers.epsilon(epsilon)
    text = check(page).text
    assert f"Epsilon{shown}Delta" in text.replace(" ", "")
    assert f"epsilon {shown} was spent" in text
    assert page.count(f">{shown}<") >= 4  # the summary, the guarantee, the budget, the table of the curve
    assert float(shown) >= epsilon


def test_a_lower_bound_is_never_shown_larger_than_it_is() -> None:
    page = render({"guarantee": records.guarantee(2.9996, bound=Bound.LOWER)})
    assert ">2.99<" in page
    assert ">3.00<" not in page


@pytest.mark.parametrize("value", [math.nan, -1, None, "3", True])
def test_what_is_no_epsilon_is_not_known(value: object) -> None:
    assert numbers.epsilon(value) == "not known"


@pytest.mark.parametrize("value", [math.inf, 10**400])
def test_an_unbounded_epsilon_is_called_so(value: object) -> None:
    assert numbers.epsilon(value) == "unbounded"


@pytest.mark.parametrize("value", [math.nan, -0.1, 1.1, None, "0.5", True, math.inf])
def test_what_is_no_share_is_not_measured(value: object) -> None:
    assert numbers.percent(value) == "not measured"
