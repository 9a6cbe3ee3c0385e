"""Tables that have their unit through the keys of others: whose rows are these, whatever the keys are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest

from cases import first_quick
from hush.data.tables.catalog import Catalog, PrivateTable
from hush.errors import InvalidArgument
from hush.sql import QueryRefused, Through
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import exact_groups
from hush.sql.syntax.relation import PerUnit
from hush.sql.write.text import expressions as writing
from hush.sql.write.text.relations import RelationWriter
from sql.hosts import contents, largest_change
from sql.shop import (
    NEW,
    QUERIES,
    delete,
    delete_rows_of_nobody,
    hostile_rows,
    insert,
    shop,
    shop_catalog,
    shop_plan,
)

LINES = "SELECT part, COUNT(*) AS n FROM lines GROUP BY part"


def counts(text: str, connection: Any, key: bytes) -> dict[Any, int]:
    """Return the exact count of each group, without limits."""
    engine = DuckDBEngine(connection=connection)
    plan = shop_plan(text, engine, groups_per_unit=1000, rows_per_unit=1000)
    return {group.keys[0]: group.sums["a0"] for group in exact_groups(plan, engine, ranking_key=key)}


@pytest.mark.parametrize("text", QUERIES)
@pytest.mark.quick_cases(8)
def test_without_limits_the_numbers_are_those_of_the_engine(text: str, ranking_key: bytes) -> None:
    connection = shop()
    actual = counts(text, connection, ranking_key)
    delete_rows_of_nobody(connection)
    assert actual == dict(connection.execute(text).fetchall())
    assert len(actual) > 1


def largest_changes(text: str, seed: int, limit: int, key: bytes) -> list[tuple[int, list[str]]]:
    """Return the changes when a unit with hostile rows is added, and when one of the others is removed."""
    connection = shop()
    engine = DuckDBEngine(connection=connection)
    plan = shop_plan(text, engine, groups_per_unit=limit, rows_per_unit=limit)
    before = contents(plan, engine, key)
    delete(connection, 1 + seed % 29)
    without = contents(plan, engine, key)
    for table, rows in hostile_rows(connection, seed):
        insert(connection, table, rows)
    return [largest_change(plan, without, more) for more in (before, contents(plan, engine, key))]


@pytest.mark.parametrize("limit", first_quick([1, 4], 1))
@pytest.mark.parametrize("text", QUERIES)
def test_one_unit_changes_no_more_than_its_bounds_whatever_its_keys_are(
    text: str, limit: int, ranking_key: bytes
) -> None:
    for changed, broken in largest_changes(text, len(text), limit, ranking_key):
        assert changed <= limit
        assert not broken


# Twins: each omits one step of the real path.


def a_key_has_one_owner() -> AbstractContextManager[Any]:
    """The least of the units that have a key gets the rows that refer to it: whoever takes a key takes the rows."""
    write = RelationWriter._per_unit

    def twin(writer: RelationWriter, body: PerUnit) -> str:
        text = write(writer, body)
        return text if body.aggregates else f"SELECT MIN(-u0) * -1 AS u0, k0 FROM ({text}) AS t GROUP BY k0"

    return mock.patch.object(RelationWriter, "_per_unit", twin)


def keys_of_two_owners_belong_to_nobody() -> AbstractContextManager[Any]:
    write = RelationWriter._per_unit

    def twin(writer: RelationWriter, body: PerUnit) -> str:
        text = write(writer, body)
        only_owner = "SELECT MIN(u0) AS u0, k0 FROM ({}) AS t GROUP BY k0 HAVING COUNT(*) = 1"
        return text if body.aggregates else only_owner.format(text)

    return mock.patch.object(RelationWriter, "_per_unit", twin)


def units_are_not_compared() -> AbstractContextManager[Any]:
    return mock.patch.object(writing, "same_unit", return_value="TRUE")


def windows_span_units() -> AbstractContextManager[Any]:
    write = writing._window

    def twin(expression: Any, dialect: Any) -> str:
        return write(expression, dialect).replace(f"PARTITION BY {expression.value.unit}.u0, ", "PARTITION BY ")

    return mock.patch.dict(writing.NESTED, {"window": twin})


TWINS = [
    (a_key_has_one_owner, "SELECT l.part"),
    (keys_of_two_owners_belong_to_nobody, "SELECT l.part"),
    (units_are_not_compared, "SELECT o.shop AS k, COUNT(*) AS n FROM orders o, lines l"),
    (units_are_not_compared, "SELECT o.price AS k, COUNT(*) AS n FROM orders o WHERE (SELECT COUNT(*)"),
    (units_are_not_compared, "SELECT o.price AS k, COUNT(*) AS n FROM orders o WHERE o.id NOT IN (SELECT m.id"),
    (windows_span_units, "SELECT l.part AS k, COUNT(*) AS n FROM (SELECT order_id, part, amount, ROW_NUMBER()"),
]


@pytest.mark.parametrize(("twin", "beginning"), TWINS)
def test_an_omitted_step_is_caught(twin: Callable[[], Any], beginning: str, ranking_key: bytes) -> None:
    text = next(text for text in QUERIES if text.startswith(beginning))
    with twin():
        assert any(changed > 4 or broken for changed, broken in largest_changes(text, len(text), 4, ranking_key))


def test_the_rows_of_a_key_with_two_owners_count_for_both(ranking_key: bytes) -> None:
    connection = shop()
    before = counts(LINES, connection, ranking_key)
    connection.execute(f"INSERT INTO orders SELECT id, {NEW}, 'shop9', 1 FROM orders WHERE buyer <> {NEW}")
    assert counts(LINES, connection, ranking_key) == {part: 2 * number for part, number in before.items()}


def test_a_row_counts_once_however_often_its_owner_has_the_key(ranking_key: bytes) -> None:
    connection = shop()
    before = counts(LINES, connection, ranking_key)
    connection.execute("INSERT INTO orders SELECT * FROM orders")
    assert counts(LINES, connection, ranking_key) == before


def test_rows_that_refer_to_nothing_are_dropped(ranking_key: bytes) -> None:
    connection = shop()
    connection.execute("DELETE FROM orders")
    assert counts(LINES, connection, ranking_key) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT COUNT(*) FROM orders o, lines l WHERE o.id = l.part", "rows of different units"),
        ("SELECT COUNT(*) FROM orders o, lines l WHERE o.id = l.order_id + 0", "rows of different units"),
        ("SELECT COUNT(*) FROM orders o, lines l WHERE o.id = l.order_id OR l.part = 1", "rows of different units"),
        ("SELECT COUNT(*) FROM orders o, lines l WHERE o.id <= l.order_id", "rows of different units"),
        ("SELECT COUNT(*) FROM buyers b, orders o, lines l WHERE o.id = l.order_id", "rows of different units"),
        ("SELECT COUNT(*) FROM orders o, lines l, returned r WHERE o.id = l.order_id", "rows of different units"),
        ("SELECT COUNT(*) FROM parts q LEFT JOIN lines l ON q.part = l.part", "depends on all units"),
        (
            "SELECT COUNT(*) FROM orders o LEFT JOIN lines l ON o.id = l.order_id, lines m "
            "WHERE l.order_id = m.order_id",
            "rows of different units",
        ),
        ("SELECT l.order_id, COUNT(*) FROM lines l GROUP BY l.order_id", "show single units"),
        ("SELECT o.id, COUNT(*) FROM orders o GROUP BY o.id", "show single units"),
        ("SELECT COUNT(*) FROM (SELECT part, SUM(amount) AS s FROM lines GROUP BY part) AS t", "belong to no unit"),
        ("SELECT COUNT(*) FROM (SELECT MAX(order_id) AS m FROM lines GROUP BY part) AS t", "belong to no unit"),
    ],
)
def test_refused(text: str, words: str) -> None:
    with pytest.raises(QueryRefused, match=words):
        shop_plan(text, DuckDBEngine(connection=shop()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lines": Through("nothing", to="orders", key="id")}, "^unit='nothing': expected a column"),
        ({"lines": Through("order_id", to="orders", key="nothing")}, "^key='nothing': expected a column"),
        ({"lines": Through("order_id", to="sales", key="id")}, "^to='sales': expected a private table"),
        ({"lines": Through("order_id", to="parts", key="part")}, "^to='parts': expected a private table"),
        ({"lines": Through("line", to="orders", key="id")}, "^key='id': expected a column of integers or text, like"),
        ({"lines": Through("amount", to="orders", key="price")}, "^key='price': expected a column of integers or text"),
        ({"lines": Through("line", to="lines", key="line")}, "cycle"),
        (
            {
                "orders": Through("id", to="lines", key="order_id"),
                "lines": Through("order_id", to="orders", key="id"),
            },
            "cycle",
        ),
    ],
)
def test_references_that_lead_to_no_unit_are_refused(changes: dict[str, Through], words: str) -> None:
    tables = shop_catalog(DuckDBEngine(connection=shop())).tables
    with pytest.raises(InvalidArgument, match=words):
        Catalog(
            {**tables, **{name: PrivateTable(columns=tables[name].columns, unit=changes[name]) for name in changes}}
        )


def test_a_text_column_that_is_read_as_a_number_is_no_key() -> None:
    """Two texts can be one number."""
    columns = {"key": "VARCHAR", "who": "BIGINT"}
    parent = PrivateTable(columns=columns, unit="who", bounds={"key": (0, 9)})
    child = PrivateTable(columns=columns, unit=Through("key", to="parent", key="key"))
    with pytest.raises(InvalidArgument, match="^key='key'"):
        Catalog({"parent": parent, "child": child})


def test_a_reference_into_a_table_of_windows_is_refused() -> None:
    columns = {"key": "BIGINT", "who": "BIGINT", "day": "DATE"}
    parent = PrivateTable(columns=columns, unit="who", time="day", window="month")
    child = PrivateTable(columns=columns, unit=Through("key", to="parent", key="key"))
    with pytest.raises(InvalidArgument, match="^to='parent': expected a table whose unit is a column"):
        Catalog({"parent": parent, "child": child})
