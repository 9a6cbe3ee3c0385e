"""The translator: kinds are checked, integers and dates converted, and long expressions refused."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest
from sqlglot import exp, parse_one

from hush.data.tables.catalog import ColumnKind
from hush.sql import QueryRefused
from hush.sql.read import rules as rules  # fills the allow-list
from hush.sql.read.translator import MAX_WEIGHT, Translator, moment_literal
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.refusal import Refuser

KINDS = {
    "i": ColumnKind.INT,
    "x": ColumnKind.FLOAT,
    "t": ColumnKind.TEXT,
    "b": ColumnKind.BOOL,
    "d": ColumnKind.DATE,
    "m": ColumnKind.TIME,
}


def node_of(text: str) -> exp.Expr:
    return parse_one(f"SELECT {text}", read="duckdb").expressions[0]


def translator(text: str) -> Translator:
    """Return a translator with one column of each kind: i, x, t, b, d and m."""
    return Translator(Refuser(f"SELECT {text}"), lambda node: Expr("column", KINDS[node.name], value=("r", node.name)))


def translated(text: str) -> Expr:
    return translator(text)(node_of(text))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("i + 1", "number"),
        ("i", "integer"),
        ("x < i", "boolean"),
        ("t || 'a'", "text"),
        ("NULL", "null"),
        ("d", "date"),
    ],
)
def test_expressions_have_the_kind_of_their_values(text: str, kind: str) -> None:
    assert translated(text).kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "t + 1",
        "b AND i",
        "UPPER(b)",
        "EXTRACT(YEAR FROM t)",
        "CASE WHEN b THEN i ELSE t END",
        "d < 5",
        "m = t",
        "COALESCE(b, i)",
        "LOWER(i)",
        "NOT x",
    ],
)
def test_values_of_the_wrong_kind_are_refused(text: str) -> None:
    with pytest.raises(QueryRefused, match="expected .* here, not|different kinds"):
        translated(text)


def test_integers_become_numbers_and_dates_timestamps() -> None:
    left, right = translated("i < x").args
    assert (left.op, left.kind, right.kind) == ("number", ColumnKind.FLOAT, ColumnKind.FLOAT)
    left, right = translated("d < m").args
    assert (left.op, left.kind) == ("to_time", ColumnKind.TIME)
    left, right = translated("d < '2024-02-29'").args
    assert right.value == date(2024, 2, 29)
    left, right = translated("m < '2024-02-29 12:30:00'").args
    assert right.value == datetime(2024, 2, 29, 12, 30)


@pytest.mark.parametrize("text", ["2024-02-30", "29.02.2024", "2024-01-01T00:00:00+01:00", "", "now"])
def test_text_that_is_not_a_date_is_refused(text: str) -> None:
    with pytest.raises(QueryRefused, match="is not a timestamp"):
        moment_literal(translator("m"), node_of("m"), text, ColumnKind.TIME)


def test_advice_for_text_columns_names_the_bounds() -> None:
    with pytest.raises(QueryRefused, match=r'bounds=\{"t": \(LOW, HIGH\)\}, --bounds t=LOW:HIGH'):
        translated("t + 1")


def test_a_hook_comes_before_the_rules() -> None:
    seen: list[Any] = []

    def hook(node: exp.Expr) -> Expr | None:
        seen.append(type(node))
        return Expr("statistic", ColumnKind.FLOAT, value=0) if isinstance(node, exp.AggFunc) else None

    text = "SUM(x) + 1"
    expression = Translator(Refuser(text), lambda node: Expr("column", ColumnKind.FLOAT), hook)(node_of(text))
    assert expression.args[0].op == "statistic"
    assert exp.Column not in seen  # the argument of the aggregate is the hook's own


def test_parts_that_no_rule_reads_are_refused() -> None:
    with pytest.raises(QueryRefused, match="is not supported in"):
        translated("TRIM(BOTH 'x' FROM t)")


def test_long_expressions_are_refused() -> None:
    # A square root is guarded, and its text repeats its operand: the length doubles with each.
    assert translated("SQRT(" * 10 + "x" + ")" * 10).weight() <= MAX_WEIGHT
    with pytest.raises(QueryRefused, match="too long"):
        translated("SQRT(" * 12 + "x" + ")" * 12)
