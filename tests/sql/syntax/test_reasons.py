"""Reasons: why a part of a query is refused, and what to write instead."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from hush.data.tables.catalog import Catalog
from hush.sql.syntax.reasons import not_a_select, reason, unknown_function
from sql.refusing import check_refusal

# The query, the line and column that the refusal points to (None for any), and words of the reason.
REFUSED = [
    (
        "SELECT COUNT(*) FROM people UNION ALL SELECT COUNT(*) FROM people",
        None,
        "UNION, INTERSECT and EXCEPT are refused",
    ),
    ("SELECT COUNT(*) FROM people EXCEPT SELECT COUNT(*) FROM people", None, "UNION, INTERSECT and EXCEPT are refused"),
    (
        "SELECT COUNT(*) FROM (SELECT user_id FROM people UNION SELECT uid FROM orders) AS t",
        None,
        "UNION, INTERSECT and EXCEPT are refused",
    ),
    (
        "SELECT COUNT(*) FROM (SELECT user_id, ROW_NUMBER() OVER (ORDER BY income) AS n FROM people) AS t",
        None,
        "window",
    ),
    ("SELECT COUNT(*) FROM (SELECT user_id, SUM(age) OVER () AS n FROM people) AS t", None, "window"),
    ("SELECT SUM(CASE WHEN EXISTS (SELECT 1 FROM zones) THEN 1 END) FROM people", None, "a subquery inside"),
    ("SELECT COUNT(*), (SELECT COUNT(*) FROM zones) AS n FROM people", None, "reads no private rows"),
    ("SELECT COUNT(*) FROM people WHERE age > ALL (SELECT age FROM people)", None, "a subquery inside"),
    ("SELECT COUNT(*) FROM people p, LATERAL (SELECT p.age AS a) AS t", None, ""),
    ("WITH RECURSIVE t AS (SELECT 1 AS x) SELECT COUNT(*) FROM people, t", None, "recursive"),
]


@pytest.mark.parametrize(("text", "position", "words"), REFUSED, ids=[text[:70] for text, _, _ in REFUSED])
def test_refused(text: str, position: tuple[int, int] | None, words: str, catalog: Catalog) -> None:
    check_refusal(text, position, words, catalog)


@pytest.mark.parametrize("name", ["a" * 41, "drop table", "x; y", ""])
def test_odd_names_of_functions_are_not_repeated(name: str) -> None:
    what, _ = unknown_function(name)
    assert what.startswith("this function is not on the list")


def test_every_reason_has_advice() -> None:
    for text in ("RANDOM()", "f(x)", "STRING_AGG(x)", "COUNT(x)", "x -> y", "SUM(x) OVER ()", "ANY(x)", "?"):
        node = parse_one(f"SELECT {text}", read="duckdb").expressions[0].unalias()
        assert len(reason(node)) == 2, text


def test_a_filter_of_another_aggregate_is_explained() -> None:
    (node,) = parse_one("SELECT MODE(x) FILTER (WHERE y)", read="duckdb").expressions
    assert reason(node)[0].startswith("FILTER is supported after COUNT, SUM")


def test_set_operations_have_a_reason_of_their_own() -> None:
    union = parse_one("SELECT 1 UNION SELECT 2")
    assert isinstance(union, exp.Union)
    assert "UNION" in not_a_select(union)[0]
    assert not_a_select(parse_one("DROP TABLE x")) == not_a_select(None)
