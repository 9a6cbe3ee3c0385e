"""Evaluation over released values: SQL's rules for NULL, and no error for any number."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hush.data.tables.catalog import Catalog, ColumnKind
from hush.sql.read.query import plan_query
from hush.sql.syntax.expression import Expr, literal
from hush.sql.syntax.output import OPERATIONS, can_evaluate, evaluate, sort_key


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=3),
    key=st.text(max_size=3) | st.none() | st.floats(allow_nan=True),
)
def test_answers_never_raise(values: list[float], key: Any, catalog: Catalog) -> None:
    text = (
        "SELECT note, COUNT(*) AS n, AVG(age) AS a, SQRT(n) + LN(a) - EXP(n) AS e, n * n * n AS cube, ROUND(a, 3) "
        "AS r, "
        "CASE WHEN n > 3 THEN n / 2 END AS c, LEAST(n, a) AS l, NULLIF(n, 1) AS u, FLOOR(n) AS f, note IS NULL AS z "
        "FROM people GROUP BY note HAVING n > -5 OR n IS NULL OR a BETWEEN 1 AND 2 ORDER BY e DESC, note LIMIT 5"
    )
    plan = plan_query(text, tables=catalog)
    numbers = dict(zip([release.name for release in plan.releases], values, strict=True))
    plan.answer([((key,), numbers)])


@pytest.mark.parametrize(
    ("op", "operands", "value"),
    [
        ("and", (False, None), False),
        ("and", (True, None), None),
        ("or", (True, None), True),
        ("or", (False, None), None),
        ("not", (None,), None),
        ("in", (1, 2, None), None),
        ("in", (1, 1, None), True),
        ("in", (None, 1), None),
        ("eq", (None, None), None),
        ("is_null", (None,), True),
        ("is_true", (None,), False),
        ("case", (None, "a", True, "b", "c"), "b"),
        ("case", (None, "a", "c"), "c"),
        ("least", (None, 3, 2), 2),
        ("greatest", (None, None), None),
        ("coalesce", (None, 0), 0),
        ("nullif", (3, 3), None),
        ("div", (1, 0), None),
        ("sqrt", (-1,), None),
        ("ln", (0,), None),
        ("exp", (1e6,), None),
        ("mul", (1e200, 1e200), None),
        ("add", ("a", 1), None),
        ("mod", (-7, 3), -1.0),
    ],
)
def test_operations_follow_sql(op: str, operands: tuple[Any, ...], value: Any) -> None:
    result = OPERATIONS[op](*operands)
    assert result == value
    assert type(result) is type(value)


def test_expressions_read_keys_and_statistics_by_index() -> None:
    statistic = Expr("statistic", ColumnKind.FLOAT, value=1)
    product = Expr("mul", ColumnKind.FLOAT, (statistic, literal(2.0, ColumnKind.FLOAT)))
    rounded = Expr("round", ColumnKind.FLOAT, (product,), 1)
    assert evaluate(rounded, ("north",), [0.0, 1.23]) == 2.5
    assert evaluate(Expr("key", ColumnKind.TEXT, value=0), ("north",), []) == "north"
    assert can_evaluate(rounded)


@pytest.mark.parametrize(("value", "rounded"), [(2.5, 3.0), (-2.5, -3.0), (-0.4, 0.0), (-1.5, -2.0), (1.4, 1.0)])
def test_halves_are_rounded_away_from_zero(value: float, rounded: float) -> None:
    node = Expr("round", ColumnKind.FLOAT, (Expr("statistic", ColumnKind.FLOAT, value=0),), 0)
    assert evaluate(node, (), [value]) == rounded
    assert evaluate(replace(node, value=1), (), [value / 10]) == pytest.approx(rounded / 10)


def test_expressions_over_columns_cannot_be_evaluated() -> None:
    statistic = Expr("statistic", ColumnKind.FLOAT, value=1)
    assert not can_evaluate(Expr("mul", ColumnKind.FLOAT, (statistic, Expr("column", ColumnKind.FLOAT))))


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("nulls_first", [False, True])
def test_values_sort_with_missing_ones_at_one_end(descending: bool, nulls_first: bool) -> None:
    values = ["b", None, "a", "c", None]
    ordered = sorted(values, key=lambda value: sort_key(value, descending, nulls_first))
    present = sorted("abc", reverse=descending)
    assert ordered == ([None, None, *present] if nulls_first else [*present, None, None])
