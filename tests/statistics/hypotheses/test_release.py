"""One release of each test: neighbours, charges, refusals, and rows that cannot be used."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded, HushError, InvalidArgument
from hush.randomness import RandomSource, TestSource
from hush.statistics import EachRow, GaussianNoise, LearnBounds
from hush.statistics.hypotheses import (
    HypothesisResult,
    compare_means,
    compare_proportions,
    correlation,
    goodness_of_fit,
    independence,
)
from hush.statistics.hypotheses import release as release_module
from statistics_exact import exact, excess

ODD = [None, "x", math.nan, math.inf, -math.inf, 1e308, 10**400, [1], 5e-324, True]
numbers = st.sampled_from(ODD) | st.floats(-3, 3)
labels = st.sampled_from(["a", "b", "a", "b", "new", 1, None, math.nan, ("t",)])
Row = tuple[Any, Any, Any]  # unit, label, number
Ask = Callable[[list[Row], RandomSource, dict[str, Any]], HypothesisResult]


def column(rows: list[Row], index: int) -> list[Any]:
    return [row[index] for row in rows]


def terms(rows: list[Row], source: RandomSource | None, more: dict[str, Any]) -> dict[str, Any]:
    return {"units": column(rows, 0), "epsilon": 1.0, "num_simulations": 19, "source": source, **more}


TESTS: dict[str, Ask] = {
    "compare_means": lambda rows, source, more: compare_means(
        column(rows, 2), column(rows, 1), keys=["a", "b"], bounds=(-1, 2), **terms(rows, source, more)
    ),
    "compare_proportions": lambda rows, source, more: compare_proportions(
        column(rows, 2), column(rows, 1), keys=["a", "b"], outcome_keys=(True, 2.0), **terms(rows, source, more)
    ),
    "independence": lambda rows, source, more: independence(
        column(rows, 1),
        column(rows, 2),
        first_keys=["a", "b"],
        second_keys=[True, 2.0, -1.0],
        **terms(rows, source, more),
    ),
    "goodness_of_fit": lambda rows, source, more: goodness_of_fit(
        column(rows, 1), {"a": 0.5, "b": 0.3, 1: 0.2}, **terms(rows, source, more)
    ),
    "correlation": lambda rows, source, more: correlation(
        column(rows, 2),
        column(rows, 2)[::-1],
        first_bounds=(-1, 2),
        second_bounds=(0, 3),
        **terms(rows, source, more),
    ),
}
GAUSSIAN = {"delta": 1e-6, "noise": GaussianNoise()}
HEAVY = [("me", "a", value) for value in (2.0, True, -1.0, 2.0, 1e300)] + [("me", "b", 2.0)] * 9
CROWD = [(unit, "ab"[unit % 2], [2.0, True][unit % 3 % 2]) for unit in range(9)]


def measured(ask: Ask, others: list[Row], added: list[Row], more: dict[str, Any]) -> float:
    first = exact(lambda source: ask(others, source, more))
    second = exact(lambda source: ask([*others[:2], *added, *others[2:]], source, more))
    return excess(first, second)


# The rows of `correlation` pair a column with its reverse, so that one more unit would move all pairs: see below.
@pytest.mark.parametrize("more", [{}, GAUSSIAN])
@pytest.mark.parametrize("name", [name for name in TESTS if name != "correlation"])
@settings(max_examples=10)
@given(
    others=st.lists(st.tuples(st.sampled_from([1, 2, "3"]), labels, numbers), max_size=9),
    added=st.lists(st.tuples(st.just("me"), labels, numbers), max_size=9),
)
def test_neighbours_are_as_close_as_the_event_says(
    name: str, more: dict[str, Any], others: list[Row], added: list[Row]
) -> None:
    assert measured(TESTS[name], others, added, more) <= 1e-12


@settings(max_examples=10)
@given(others=st.lists(st.tuples(numbers, numbers), max_size=6), mine=st.lists(st.tuples(numbers, numbers), max_size=6))
def test_neighbours_of_a_correlation(others: list[tuple[Any, Any]], mine: list[tuple[Any, Any]]) -> None:
    def ask(pairs: list[tuple[Any, Any]], units: list[Any]) -> Any:
        first, second = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        bounds = {"first_bounds": (-1, 2), "second_bounds": (0, 3)}
        return exact(
            lambda source: correlation(
                first, second, **bounds, units=units, epsilon=1.0, num_simulations=19, source=source
            )
        )

    ids = list(range(len(others)))
    assert excess(ask(others, ids), ask(others + mine, [*ids, *["me"] * len(mine)])) <= 1e-12


@pytest.mark.parametrize("name", ["compare_means", "compare_proportions", "independence", "goodness_of_fit"])
def test_a_heavy_unit_counts_once_and_no_noise_is_wasted(name: str) -> None:
    assert -1e-6 <= measured(TESTS[name], CROWD, HEAVY, {}) <= 1e-12


def test_a_twin_that_counts_all_rows_of_a_unit_is_caught() -> None:
    real = release_module.checked_request

    def forgetful(*arguments: Any, **more: Any) -> Any:
        # The block still says that a unit adds one row.
        return real(*arguments, **{**more, "rows_per_unit": 5})

    all_rows = mock.patch.object(release_module, "_one_row_of_each_unit", lambda request, present: present)
    with all_rows, mock.patch.object(release_module, "checked_request", forgetful):
        assert measured(TESTS["compare_means"], CROWD, HEAVY, {}) > 1


class Purse:
    """A budget that records what happens, or refuses."""

    def __init__(self, *, empty: bool = False) -> None:
        self.empty, self.log = empty, []  # type: tuple[bool, list[Any]]

    def reserve(self, charge: Charge) -> Purse:
        if self.empty:
            raise BudgetExceeded("nothing is left")
        self.log.append(charge)
        return self

    def commit(self) -> None:
        self.log.append("commit")


@pytest.mark.parametrize("name", TESTS)
def test_the_budget_is_charged_before_totals_are_computed(name: str) -> None:
    purse: Any = Purse()
    real = release_module.StatisticRequest.bound

    def bound(request: Any, *arguments: Any, **more: Any) -> Any:
        assert len(purse.log) == 1, "totals before the charge"
        return real(request, *arguments, **more)

    with mock.patch.object(release_module.StatisticRequest, "bound", bound):
        result = TESTS[name](CROWD, TestSource(1), {"budget": purse})
    charge, settled = purse.log
    assert (charge.event, charge.purpose, charge.delta, settled) == (result.event, name, None, "commit")
    with pytest.raises(BudgetExceeded):
        TESTS[name](CROWD, TestSource(1), {"budget": Purse(empty=True)})
    with pytest.raises(InvalidArgument, match="^budget="):
        TESTS[name](CROWD, TestSource(1), {"budget": 1.0})


@pytest.mark.parametrize("name", TESTS)
def test_what_a_result_says(name: str) -> None:
    result = TESTS[name](CROWD, TestSource(1), GAUSSIAN)
    assert (result.guarantee.epsilon, result.guarantee.delta) == (1.0, 1e-6)
    assert str(result.guarantee).startswith("NOT PRIVATE, made with test randomness")
    assert str(result.guarantee.unit) == "user"
    assert 0 < result.p_value <= 1
    assert str(TESTS[name](CROWD, TestSource(1), {"units": EachRow()}).guarantee.unit) == "example"


@pytest.mark.parametrize("name", TESTS)
def test_no_rows_and_no_usable_rows_give_no_error(name: str) -> None:
    nothing: list[Row] = [(None, "a", 2.0), (1, "c", None), (2, None, math.nan)]
    for rows in ([], nothing):
        for seed in range(3):
            result = TESTS[name](rows, TestSource(seed), {"epsilon": 20.0})
            assert (result.p_value, result.is_hidden) == (1.0, True)
            assert str(result).startswith("p = 1: nothing is known")


@pytest.mark.parametrize(
    ("argument", "more"),
    [
        ("epsilon", {"epsilon": 0.0}),
        ("delta", {"noise": GaussianNoise()}),
        ("units", {"units": None}),
        ("num_simulations", {"num_simulations": 5}),
        ("num_simulations", {"num_simulations": 10**8}),
        ("noise", {"noise": "laplace"}),
    ],
)
@pytest.mark.parametrize("name", TESTS)
def test_refusals_of_all_tests(name: str, argument: str, more: dict[str, Any]) -> None:
    with pytest.raises(HushError, match=f"^{argument}="):
        TESTS[name](CROWD, TestSource(1), more)


def test_refusals_of_one_test() -> None:
    once: dict[str, Any] = {"units": EachRow(), "epsilon": 1.0}
    for bounds in ((1, 1), (0, math.inf), LearnBounds()):
        with pytest.raises(InvalidArgument, match="^bounds="):
            compare_means([1], ["a"], keys=["a", "b"], bounds=bounds, **once)  # type: ignore[arg-type]
    for keys in (None, ["a"], "ab"):
        with pytest.raises(InvalidArgument, match="^keys="):
            compare_means([1], ["a"], keys=keys, bounds=(0, 1), **once)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^outcome_keys="):
        compare_proportions([1], ["a"], keys=["a", "b"], outcome_keys=(1, 2, 3), **once)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="^first_keys="):
        independence([1], [1], first_keys=[1], second_keys=[1, 2], **once)
    with pytest.raises(InvalidArgument, match="^second="):
        independence([1], [1, 2], first_keys=[1, 2], second_keys=[1, 2], **once)
    with pytest.raises(InvalidArgument, match="^second="):
        correlation([1], [1, 2], first_bounds=(0, 1), second_bounds=(0, 1), **once)
    with pytest.raises(InvalidArgument, match="^second_bounds="):
        correlation([1], [1], first_bounds=(0, 1), second_bounds=(1, 0), **once)
    for shares in ({1: 1.0}, {1: 0.5, 2: 0.6}, {1: -0.5, 2: 1.5}, {1: "x", 2: 0.5}, {1: math.nan, 2: 0.5}, [0.5, 0.5]):
        with pytest.raises(InvalidArgument, match="^shares="):
            goodness_of_fit([1], shares, **once)  # type: ignore[arg-type]


def test_arrays_whose_type_no_key_has_are_refused_before_the_charge() -> None:
    purse: Any = Purse()
    terms: dict[str, Any] = {"units": EachRow(), "epsilon": 1.0, "budget": purse, "num_simulations": 19}
    codes, words = np.array([1, 2] * 20), np.array(["a", "b"] * 20)
    asked: list[Callable[[], HypothesisResult]] = [
        lambda: goodness_of_fit(codes, {"1": 0.5, "2": 0.5}, **terms),
        lambda: compare_means(codes, words, keys=[1, 2], bounds=(0, 3), **terms),
        lambda: compare_proportions(codes, words, keys=["a", "b"], outcome_keys=("1", "2"), **terms),
        lambda: compare_proportions(codes, codes, keys=["1", "2"], outcome_keys=(1, 2), **terms),
        lambda: independence(words, codes, first_keys=[1, 2], second_keys=[1, 2], **terms),
        lambda: independence(codes, words, first_keys=[1, 2], second_keys=[1, 2], **terms),
    ]
    for ask in asked:
        with pytest.raises(InvalidArgument, match=r"dtype=.*No row could be used"):
            ask()
    assert purse.log == []
    goodness_of_fit(codes, {1: 0.5, "2": 0.5}, **terms)
    # The types of a list's entries are data: no error, and the text says what to look for.
    result = goodness_of_fit(codes.tolist(), {"1": 0.5, "2": 0.5}, **{**terms, "epsilon": 20.0})
    assert "check that keys have the spelling and the type" in str(result)
    assert len(purse.log) == 4


def test_a_confidence_beyond_what_simulations_show_is_refused() -> None:
    columns: dict[str, Any] = {"keys": [0, 1], "outcome_keys": (0, 1), "units": EachRow(), "epsilon": 1.0}
    coins, halves = np.arange(40) % 2, np.arange(40) // 20
    for confidence, draws in ((0.95, 19), (0.99, 99), (0.9999, 9_999)):
        more: dict[str, Any] = {**columns, "num_simulations": draws, "source": TestSource(1)}
        compare_proportions(coins, halves, confidence=confidence, **more)
        with pytest.raises(InvalidArgument, match=r"^confidence=.*Take more simulations"):
            compare_proportions(coins, halves, confidence=1 - (1 - confidence) * 0.99, **more)
    with pytest.raises(InvalidArgument, match="^confidence="):
        compare_proportions(coins, halves, confidence=math.nan, **columns)


def test_simulations_depend_on_the_release_alone() -> None:
    first, second = (TESTS["compare_means"](CROWD, TestSource(5), {}) for _ in range(2))
    assert (first.p_value, first.low) == (second.p_value, second.low)
    assert np.array_equal(first.totals, second.totals)
