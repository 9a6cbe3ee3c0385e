"""Expressions: intervals that contain all values, and bounds on the length of the text."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import NULL, Expr, clamp_columns, literal, numeric, union
from hush.sql.syntax.output import OPERATIONS

NUMBERS = st.floats(-1e6, 1e6)
INTERVALS = st.tuples(NUMBERS, NUMBERS).map(sorted)
UNARY = ("number", "neg", "abs", "floor", "ceil")
BINARY = ("add", "sub", "mul", "div", "least", "greatest", "nullif")


def column(low: float, high: float, **changes: object) -> Expr:
    return Expr("column", ColumnKind.FLOAT, low=low, high=high, **changes)  # type: ignore[arg-type]


@given(op=st.sampled_from(BINARY), left=INTERVALS, right=INTERVALS, shares=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_an_interval_contains_the_value_of_every_binary_operation(
    op: str, left: list[float], right: list[float], shares: tuple[float, float]
) -> None:
    a, b = (low + (high - low) * share for (low, high), share in zip((left, right), shares, strict=True))
    a, b = min(max(a, left[0]), left[1]), min(max(b, right[0]), right[1])
    node = numeric(op, column(*left), column(*right))
    value = OPERATIONS[op](a, b)
    slack = 1e-9 * max(abs(value or 0.0), 1.0)  # rounding of the interval's ends
    assert value is None or node.low - slack <= value <= node.high + slack


@given(op=st.sampled_from(UNARY), bounds=INTERVALS, share=st.floats(0, 1))
def test_an_interval_contains_the_value_of_every_unary_operation(op: str, bounds: list[float], share: float) -> None:
    low, high = bounds
    value = min(max(low + (high - low) * share, low), high)
    node = numeric(op, column(low, high))
    # CEIL of the lower end and FLOOR of the upper one are not tightened.
    assert node.low <= OPERATIONS[op](value) <= node.high


VALUES = st.tuples(INTERVALS, st.floats(0, 1) | st.none())


@given(op=st.sampled_from(["least", "greatest"]), operands=st.lists(VALUES, min_size=1, max_size=4), constant=NUMBERS)
def test_an_interval_of_an_extreme_allows_for_missing_operands(
    op: str, operands: list[tuple[list[float], float | None]], constant: float
) -> None:
    """LEAST and GREATEST skip NULL, so a bound of an operand that may be missing bounds nothing."""
    values = [
        None if share is None else min(max(low + (high - low) * share, low), high) for (low, high), share in operands
    ]
    columns = [column(low, high) for (low, high), _ in operands]
    for node, parts in (
        (numeric(op, *columns), values),
        (numeric(op, *columns, literal(constant, ColumnKind.FLOAT)), [*values, constant]),
        (numeric(op, *columns, NULL), values),
    ):
        value = OPERATIONS[op](*parts)
        assert value is None or node.low <= value <= node.high


def test_operands_that_are_always_there_bound_an_extreme() -> None:
    anything, zero = column(-math.inf, math.inf), literal(0.0, ColumnKind.FLOAT)
    positive = numeric("greatest", anything, zero)
    assert (positive.low, positive.high) == (0, math.inf)
    within = numeric("least", positive, literal(100.0, ColumnKind.FLOAT))
    assert (within.low, within.high) == (0, 100)
    filled = Expr("coalesce", ColumnKind.FLOAT, (column(5, 9), literal(7.0, ColumnKind.FLOAT)), low=5, high=9)
    assert numeric("greatest", filled, zero).low == 5
    assert numeric("greatest", column(5, 9), zero).low == 0


def test_columns_are_clamped_where_an_argument_computes_with_them() -> None:
    x, flag = column(0, 10), Expr("column", ColumnKind.BOOL)
    assert clamp_columns(x) is x  # it is clamped where it is summed
    number = numeric("number", replace(x, kind=ColumnKind.INT))
    assert clamp_columns(number) is number
    square = clamp_columns(numeric("mul", x, x))
    assert [part.op for part in square.args] == ["clamp", "clamp"]
    assert (square.low, square.high) == (0, 100)
    is_large = Expr("gt", ColumnKind.BOOL, (x, literal(50.0, ColumnKind.FLOAT)))
    choice = Expr("case", ColumnKind.FLOAT, (is_large, numeric("neg", x), flag, x, NULL), low=-10, high=10)
    condition, negated, same_flag, value, default = clamp_columns(choice).args
    assert (condition, same_flag, default) == (is_large, flag, NULL)
    assert (negated.args[0].op, value.op) == ("clamp", "clamp")
    free = numeric("add", column(-math.inf, 3), literal(1.0, ColumnKind.FLOAT))
    assert clamp_columns(free) == free


@pytest.mark.parametrize(
    ("node", "interval"),
    [
        (numeric("div", column(1, 2), column(-1, 1)), (-math.inf, math.inf)),
        (numeric("mul", column(0, 1), column(-math.inf, math.inf)), (-math.inf, math.inf)),
        (numeric("sub", column(0, math.inf), column(0, math.inf)), (-math.inf, math.inf)),
        (numeric("sqrt", column(-1, 4)), (0, 2)),
        (numeric("ln", column(0, 1)), (-math.inf, 0)),
        (numeric("ln", column(1, math.e)), (0, 1)),
        (numeric("exp", column(-math.inf, 0)), (0, 1)),
        (numeric("exp", column(0, math.inf)), (1, math.exp(200))),  # NULL beyond
        (numeric("mod", column(-9, 4), column(-3, 2)), (-3, 3)),
        (numeric("mod", column(-1, math.inf), column(0, 7)), (-1, 7)),
        (numeric("mod", column(0, 4), column(-math.inf, 7)), (0, math.inf)),
        (numeric("power", column(0, 1)), (-math.inf, math.inf)),  # no rule
        (numeric("length", column(0, 1)), (0, math.inf)),
        (numeric("round", column(-0.4, 0.4), value=0), (-1, 1)),
        (numeric("abs", column(-60, 50)), (0, 60)),
        (numeric("abs", column(-60, -50)), (50, 60)),
    ],
)
def test_intervals_of_unbounded_and_rounded_operands(node: Expr, interval: tuple[float, float]) -> None:
    assert (node.low, node.high) == interval


def test_integers_stay_integers() -> None:
    integer, real = column(0, 9, integral=True), column(0, 9)
    assert numeric("add", integer, integer).integral
    assert not numeric("add", integer, real).integral
    assert not numeric("div", integer, integer).integral
    assert numeric("floor", real).integral


def test_alternatives_have_the_union_of_their_bounds_and_values() -> None:
    branches = (literal(1, ColumnKind.INT), literal(5, ColumnKind.INT), NULL)
    assert union(branches) == {"low": 1.0, "high": 5.0, "integral": True, "domain": (1, 5, None)}
    assert union((*branches, column(0, 9)))["domain"] is None
    assert union((NULL,))["low"] == -math.inf


def test_a_weight_counts_operands_that_are_repeated() -> None:
    x = column(0, 1)
    assert numeric("add", x, x).weight() == 3
    assert numeric("sqrt", x).weight() == 4
    assert numeric("sqrt", numeric("sqrt", x)).weight() == 10
