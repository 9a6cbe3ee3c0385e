"""Arithmetic at the ends of what numbers can be: on PostgreSQL, which raises, a row must not decide whether it does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

import hush
from hush.errors import HushError, InvalidArgument
from hush.sql import QueryRefused

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
    return [(place, f"n{place}", value) for place, value in enumerate(VALUES * 3)]


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
def test_whether_it_is_answered_does_not_depend_on_who_is_there(people: Any, form: str) -> None:
    told = []
    for name in ("n1", "n5", "nobody"):
        try:
            people.sql(form.format(name), epsilon=1.0)
        except QueryRefused:  # by its text alone, before anything is looked at
            told.append("refused")
        else:
            told.append("answered")
    assert len(set(told)) == 1


@pytest.mark.parametrize("number", ["1e-300", "1e-51", "-1e-51", "1e51"])
def test_constants_beyond_what_products_can_take_are_refused(people: Any, number: str) -> None:
    with pytest.raises(QueryRefused, match="1e-?50"):
        people.sql(f"SELECT COUNT(*) AS n FROM d WHERE x * {number} > 0", epsilon=1.0)


def test_bounds_that_vanish_when_squared_are_refused() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE d (u INTEGER, x DOUBLE)")
    for bounds in ((1e-200, 1.0), (-1e-51, 0.0)):
        with pytest.raises(InvalidArgument, match="^bounds="):
            hush.table(connection, name="d", unit="u", bounds={"x": bounds})


@pytest.mark.parametrize("keys", [[1, 1.0], [0.0, -0.0], [2, 3, 2.0]])
def test_keys_that_are_equal_are_refused(keys: list[float]) -> None:
    """Two names of one group would have one unit in both of them."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE d (u INTEGER, k DOUBLE)")
    with pytest.raises(HushError, match="distinct"):
        hush.table(connection, name="d", unit="u", keys={"k": keys})
