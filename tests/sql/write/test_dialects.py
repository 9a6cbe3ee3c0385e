"""Dialects: constants are read back as written, and no operation raises, at the ends of what numbers can be.

PostgreSQL raises on overflow and underflow. Whether a query fails must not depend on a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from typing import Any

import duckdb
import pytest
import sqlglot

import hush
from hush.data.tables.catalog import ColumnKind
from hush.errors import HushError, InvalidArgument
from hush.sql import QueryRefused
from hush.sql.write.dialects import DIALECTS, dialect_named
from hush.sql.write.plan import QueryPlan

WHO = "CASE WHEN name = '{0}' THEN {1} ELSE {2} END"


FORMS = [
    "SELECT COUNT(*) AS n FROM d WHERE " + WHO.format("{0}", "1e50", "1") + " / 1e-300 > 0",
    "SELECT COUNT(*) AS n FROM d WHERE " + WHO.format("{0}", "1e-200", "1") + " * 1e-200 >= 0",
    "SELECT COUNT(*) AS n FROM d WHERE " + WHO.format("{0}", "1e50", "1") + " / 1e-50 / 1e-50 / 1e-50 * 1e50 > 0",
    "SELECT COUNT(*) AS n FROM d WHERE " + WHO.format("{0}", "1e-50", "1") + " * 1e-50 * 1e-50 * 1e-50 >= 0",
    "SELECT VARIANCE(" + WHO.format("{0}", "1e-200", "0") + ") AS v FROM d",
    "SELECT VARIANCE(" + WHO.format("{0}", "1e-50 * 1e-50 * 1e-50 * 1e-50", "0") + ") AS v FROM d",
    "SELECT VARIANCE(GREATEST(" + WHO.format("{0}", "0", "1") + ", 1e-50 * 1e-50 * 1e-50 * 1e-50)) AS v FROM d",
    "SELECT SUM(" + WHO.format("{0}", "1e-300", "1e45") + ") AS v FROM d",
    "SELECT SUM(" + WHO.format("{0}", "1e-50", "1e50") + ") AS v FROM d",
    "SELECT COUNT(*) AS n FROM (SELECT u, AVG(" + WHO.format("{0}", "1e-50", "0") + ") AS y FROM d GROUP BY u) AS q "
    "WHERE y * y * y * y * y * y >= 0",
    "SELECT COUNT(*) AS n FROM (SELECT u, SUM(" + WHO.format("{0}", "1e50", "0") + ") AS y FROM d GROUP BY u) AS q "
    "WHERE y * y * y * y * y * y / 1e-50 >= 0",
    "SELECT COUNT(*) AS n FROM d WHERE x / 1e-50 / 1e-50 > 0 OR x * 1e-50 * 1e-50 * 1e-50 > 0 OR x * x * x < 0",
    "SELECT SUM(x * x) AS s, VARIANCE(x) AS v, AVG(x) AS a FROM d",
]


VALUES = [0.0, 1e-320, 1e-300, 1e-99, 1e-50, 1.0, 1e50, 1e90, 1e99, 1e300, float("inf"), float("nan"), None]


@pytest.fixture(scope="module")
def rows() -> list[tuple[Any, ...]]:
    return [(number, f"n{number}", value) for number, value in enumerate(VALUES * 3)]


@pytest.fixture(scope="module", params=["duckdb", pytest.param("postgres", marks=pytest.mark.postgres)])
def people(request: pytest.FixtureRequest, rows: list[tuple[Any, ...]]) -> Iterator[Any]:
    if request.param == "duckdb":
        connection: Any = duckdb.connect()
        connection.execute("CREATE TABLE d (u INTEGER, name TEXT, x DOUBLE)")
        connection.executemany("INSERT INTO d VALUES (?, ?, ?)", rows)
        yield hush.table(connection, name="d", unit="u", bounds={"x": (-1e50, 1e50)})
        return
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as server:
        server.execute("CREATE TEMPORARY TABLE d (u INTEGER, name TEXT, x DOUBLE PRECISION)")
        with server.cursor() as cursor:
            cursor.executemany("INSERT INTO d VALUES (%s, %s, %s)", rows)
        yield hush.table(server, name="d", unit="u", bounds={"x": (-1e50, 1e50)})


@pytest.mark.parametrize("form", FORMS)
def test_whether_a_query_is_answered_does_not_depend_on_a_row(people: Any, form: str) -> None:
    outcomes = []
    for name in ("n1", "n5", "nobody"):
        try:
            people.sql(form.format(name), epsilon=1.0)
        except QueryRefused:  # for its text alone, before data are read
            outcomes.append("refused")
        else:
            outcomes.append("answered")
    assert len(set(outcomes)) == 1


@pytest.mark.parametrize("number", ["1e-300", "1e-51", "-1e-51", "1e51"])
def test_constants_whose_products_overflow_are_refused(people: Any, number: str) -> None:
    with pytest.raises(QueryRefused, match="1e-?50"):
        people.sql(f"SELECT COUNT(*) AS n FROM d WHERE x * {number} > 0", epsilon=1.0)


def test_bounds_whose_squares_underflow_are_refused() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE d (u INTEGER, x DOUBLE)")
    for bounds in ((1e-200, 1.0), (-1e-51, 0.0)):
        with pytest.raises(InvalidArgument, match="^bounds="):
            hush.table(connection, name="d", unit="u", bounds={"x": bounds})


@pytest.mark.parametrize("keys", [[1, 1.0], [0.0, -0.0], [2, 3, 2.0]])
def test_equal_keys_are_refused(keys: list[float]) -> None:
    """Two names of one group would put one unit into two groups."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE d (u INTEGER, k DOUBLE)")
    with pytest.raises(HushError, match="distinct"):
        hush.table(connection, name="d", unit="u", keys={"k": keys})


@pytest.mark.parametrize("dialect", [name for name in DIALECTS if DIALECTS[name].grammar != "mysql"])
def test_constants_are_parsed_as_written(dialect: str, planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    odd = "it's \\ \\' -- /* \n ; é"
    quoted = odd.replace("'", "''")
    plan = planned(f"SELECT COUNT(*) FROM people WHERE note = '{quoted}'")
    statement = sqlglot.parse_one(plan.sql(dialect, ranking_key=ranking_key), read=dialect)
    assert odd in [constant.this for constant in statement.find_all(sqlglot.exp.Literal) if constant.is_string]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, ColumnKind.TEXT),
        (True, ColumnKind.BOOL),
        (-(2**62), ColumnKind.INT),
        (0.1, ColumnKind.FLOAT),
        (-5e-324, ColumnKind.FLOAT),
        ("it's \\ %", ColumnKind.TEXT),
        (date(1, 1, 8), ColumnKind.DATE),
        (datetime(9999, 12, 31, 23, 59, 59), ColumnKind.TIME),
    ],
)
def test_constants_have_their_value_on_duckdb(value: Any, kind: ColumnKind) -> None:
    text = DIALECTS["duckdb"].constant(value, kind)
    assert duckdb.connect().execute(f"SELECT {text}").fetchall() == [(value,)]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_dialect_has_a_template_for_every_operation(dialect: str) -> None:
    templates = DIALECTS[dialect].templates
    assert templates.keys() >= DIALECTS["duckdb"].templates.keys()
    placeholders = ("[double]", "[text]", "[time]", "[inner]", "[collation]")
    assert not any(placeholder in template for template in templates.values() for placeholder in placeholders)


def test_unknown_dialects_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="^dialect='sqlite': expected one of duckdb, spark, postgres"):
        dialect_named("sqlite")
