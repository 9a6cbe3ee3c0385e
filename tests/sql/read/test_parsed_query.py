"""Released rows as constants of a query: values that no engine could compute with are missing."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

import pytest

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable
from hush.sql import QueryRefused
from hush.sql.read.parsed_query import MAX_TEXT_LENGTH, parse_query, with_rows
from hush.sql.read.stages import read_stages
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import Field, QueryRelation, ReleasedRows


@pytest.mark.parametrize(
    ("kind", "value", "constant"),
    [
        (ColumnKind.FLOAT, 2, 2.0),
        (ColumnKind.FLOAT, 1e101, None),
        (ColumnKind.FLOAT, float("nan"), None),
        (ColumnKind.FLOAT, float("-inf"), None),
        (ColumnKind.FLOAT, 1e-300, 0.0),
        (ColumnKind.INT, -7, -7),
        (ColumnKind.INT, 2**63, None),
        (ColumnKind.TEXT, "it's", "it's"),
        (ColumnKind.TEXT, 5, None),
        (ColumnKind.BOOL, True, True),
        (ColumnKind.DATE, datetime(2024, 2, 29, 12), date(2024, 2, 29)),
        (ColumnKind.TIME, datetime(2024, 2, 29, 12), datetime(2024, 2, 29, 12)),
        (ColumnKind.TIME, date(2024, 2, 29), None),
        *((kind, None, None) for kind in (ColumnKind.FLOAT, ColumnKind.INT, ColumnKind.TEXT, ColumnKind.DATE)),
    ],
)
def test_a_released_value_is_a_constant_of_its_kind(kind: ColumnKind, value: Any, constant: Any) -> None:
    relation = QueryRelation(ReleasedRows((kind,)), (Field("x", "c0", Expr("column", kind)),), name="hush_released0")
    body = with_rows(relation, [(value,)]).body
    assert isinstance(body, ReleasedRows)
    assert body.rows == ((constant,),)
    assert type(body.rows[0][0]) is type(constant)


def test_the_text_has_one_select_of_limited_length() -> None:
    assert parse_query("SELECT 1", "duckdb").released == {}
    for text in ("SELECT 1; SELECT 2", "DELETE FROM t", "SELECT" + " " * MAX_TEXT_LENGTH, "SELECT FROM WHERE"):
        with pytest.raises(QueryRefused):
            parse_query(text, "duckdb")


def test_rows_of_other_relations_change_nothing() -> None:
    people = PrivateTable(columns={"who": "BIGINT", "age": "INTEGER"}, unit="who", bounds={"age": (0, 120)})
    text = "SELECT COUNT(*) FROM people WHERE age > (SELECT AVG(age) FROM people)"
    last = read_stages(text, tables=Catalog({"people": people})).last
    assert last.with_rows({"hush_released7": [(1.0,)]}).released == last.released
    assert last.with_rows({"hush_released0": [(1.0,)]}).released != last.released
