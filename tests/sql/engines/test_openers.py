"""`hush.table` and `hush query` on DuckDB, PostgreSQL and Spark: the same query, and messages without passwords."""

from __future__ import annotations

import csv
import gc
import io
import traceback
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode

import duckdb
import pytest

import hush
from hush.cli import main
from hush.errors import HushError, InvalidArgument
from hush.guarantee import CalendarWindow, UserWindow
from hush.randomness import TestSource
from hush.sql import EngineFailed

ROWS = [(i % 300, "north" if i % 3 else "south", float(i % 50)) for i in range(900)]
ZONES = [("north", "cold"), ("south", "warm")]
QUERY = "SELECT region, COUNT(*) AS n, AVG(x) AS x FROM people GROUP BY region"
JOINED = "SELECT z.zone, COUNT(*) AS n FROM people p JOIN zones z ON p.region = z.region GROUP BY z.zone"
COLUMNS = "who BIGINT, region [text], x [double]"
SQL = {"[text]": "TEXT", "[double]": "DOUBLE PRECISION"}


def columns(words: dict[str, str]) -> str:
    text = COLUMNS
    for placeholder, word in words.items():
        text = text.replace(placeholder, word)
    return text


def create(execute: Callable[[str], Any]) -> None:
    listed = ", ".join(map(str, ROWS))
    execute(f"CREATE TABLE people({columns(SQL)})")
    execute(f"INSERT INTO people VALUES {listed}")
    execute("CREATE TABLE zones(region TEXT, zone TEXT)")
    execute(f"INSERT INTO zones VALUES {', '.join(map(str, ZONES))}")


def frames(session: Any) -> dict[str, Any]:
    words = columns({"[text]": "STRING", "[double]": "DOUBLE"})
    zones = session.createDataFrame(ZONES, "region STRING, zone STRING")
    return {"people": session.createDataFrame(ROWS, words), "zones": zones}


@pytest.fixture(scope="module")
def database(postgres_url: str) -> Iterator[tuple[str, Any]]:
    """The address of a schema with the tables, and a connection to it."""
    import psycopg

    schema = f"hush_test_{uuid.uuid1().hex}"
    parts = psycopg.conninfo.conninfo_to_dict(postgres_url, options=f"-csearch_path={schema}")
    url = "postgresql:///?" + urlencode(parts)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        create(connection.execute)
        connection.execute("CREATE VIEW northern AS SELECT * FROM people WHERE region = 'north'")
        yield url, connection
        connection.execute(f"DROP SCHEMA {schema} CASCADE")


def on_duckdb(_: pytest.FixtureRequest) -> tuple[Any, Any]:
    connection = duckdb.connect()
    create(connection.execute)
    return connection, None


def on_spark(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    session = request.getfixturevalue("spark_session")
    for name, frame in frames(session).items():
        frame.createOrReplaceTempView(name)
    return session, None


def on_spark_frames(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    data_frames = frames(request.getfixturevalue("spark_session"))
    return data_frames["people"], data_frames["zones"]


# The data of the private table and of the public one, as `table` takes them.
KINDS_OF_DATA: dict[str, Callable[[pytest.FixtureRequest], tuple[Any, Any]]] = {
    "duckdb": on_duckdb,
    "postgres address": lambda request: (request.getfixturevalue("database")[0], None),
    "postgres connection": lambda request: (request.getfixturevalue("database")[1], None),
    "spark session": on_spark,
    "spark frame": on_spark_frames,
}
MARKS = {"duckdb": [], "postgres": [pytest.mark.postgres], "spark": [pytest.mark.spark]}
MARKED = [pytest.param(name, marks=MARKS[name.split()[0]]) for name in KINDS_OF_DATA]


@pytest.fixture(params=MARKED)
def data(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return KINDS_OF_DATA[request.param](request)


def people(data: Any, **changes: Any) -> Any:
    declared: dict[str, Any] = {"bounds": {"x": (0, 50)}, "keys": {"region": ["north", "south", "west"]}}
    return hush.table(data, **{"unit": "who", "name": "people", **declared, **changes})


def test_the_same_query_is_answered(data: tuple[Any, Any]) -> None:
    table = people(data[0], public={"zones": data[1]})
    answer = table.sql(QUERY, epsilon=200.0, groups_per_unit=2, rows_per_unit=3, source=TestSource(1))
    by_region = {row[0]: row[1:] for row in answer.rows}
    assert [by_region[name][0] for name in ("north", "south", "west")] == pytest.approx([600, 300, 0], abs=3)
    for name in ("north", "south"):
        values = [x for _, region, x in ROWS if region == name]
        assert by_region[name][1] == pytest.approx(sum(values) / len(values), abs=0.5)
    answer = table.sql(JOINED, epsilon=200.0, delta=1e-6, groups_per_unit=2, rows_per_unit=3, source=TestSource(1))
    assert dict(answer.rows) == {"cold": pytest.approx(600, abs=3), "warm": pytest.approx(300, abs=3)}
    table.forget()


def test_a_database_needs_the_name_of_the_table(data: tuple[Any, Any]) -> None:
    if data[1] is not None:
        assert people(data[0], name=None, public={"zones": data[1]}).name == "data"
        return
    with pytest.raises(InvalidArgument, match="^name=None: expected the name of a table"):
        people(data[0], name=None)


def test_a_missing_table_is_named_and_nothing_else(data: tuple[Any, Any]) -> None:
    if data[1] is not None:
        return
    with pytest.raises(InvalidArgument, match="^name='nothing': expected an existing table or view") as caught:
        people(data[0], name="nothing")
    assert caught.value.__suppress_context__
    with pytest.raises(InvalidArgument, match="Names have no schema"):
        people(data[0], name="public.nothing")


@pytest.mark.spark
def test_the_session_of_a_data_frame_does_not_change(spark_session: Any) -> None:
    """A view of the same name is neither replaced nor read, and no view stays behind."""
    other = spark_session.createDataFrame([(1,)], "other INT")
    other.createOrReplaceTempView("people")
    before = spark_session.conf.getAll
    table = people(frames(spark_session)["people"].where("who < 100"))
    answer = table.sql("SELECT COUNT(*) AS n FROM people", epsilon=200.0, rows_per_unit=3, source=TestSource(1))
    assert answer.rows[0][0] == pytest.approx(300, abs=3)
    assert spark_session.table("people").columns == ["other"]
    assert spark_session.sql("SHOW VIEWS IN global_temp").where("namespace = 'global_temp'").collect() == []
    assert spark_session.conf.getAll == before
    spark_session.catalog.dropTempView("people")


@pytest.mark.postgres
def test_public_tables_outside_the_database_are_refused(database: tuple[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="^public=.*None for each name"):
        people(database[0], public={"zones": "zones.parquet"})


@pytest.mark.spark
def test_public_tables_outside_the_session_are_refused(spark_session: Any) -> None:
    with pytest.raises(InvalidArgument, match="^public=.*None for each name"):
        people(spark_session, public={"zones": "zones.parquet"})
    with pytest.raises(InvalidArgument, match="^public=.*Spark data frame"):
        people(frames(spark_session)["people"], public={"zones": None})


@pytest.mark.postgres
def test_a_view_and_the_command_line(database: tuple[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    query = "SELECT COUNT(*) AS n FROM northern"
    command = ["query", database[0], query, "--table", "northern", "--unit", "who", "--rows-per-unit", "3"]
    assert main([*command, "--epsilon", "200", "--format", "csv"]) in (0, None)
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["n"]) == pytest.approx(600, abs=3)


@pytest.mark.postgres
def test_functions_of_a_view_cannot_write(database: tuple[str, Any]) -> None:
    """Not even while a bounded view is built, which needs a transaction that may write."""
    url, connection = database
    connection.execute("DROP TABLE IF EXISTS noted; DROP FUNCTION IF EXISTS note CASCADE")
    connection.execute("CREATE TABLE noted(who BIGINT)")
    body = "INSERT INTO noted VALUES (w) RETURNING who"
    connection.execute(f"CREATE FUNCTION note(w BIGINT) RETURNS BIGINT LANGUAGE sql AS '{body}'")
    connection.execute("CREATE VIEW noting AS SELECT note(who) AS who FROM people")
    for data in (url, connection):
        table = people(data, name="noting", bounds={}, keys={})
        with pytest.raises(EngineFailed):
            table.sql("SELECT COUNT(*) FROM noting", epsilon=1.0)
    assert connection.execute("SELECT COUNT(*) FROM noted").fetchone() == (0,)


@pytest.mark.postgres
def test_a_new_connection_is_read_only_and_ends_with_its_table(database: tuple[str, Any]) -> None:
    table = people(database[0])
    connection = table._engine._connection
    assert connection.execute("SHOW default_transaction_read_only").fetchone() == ("on",)
    del table
    gc.collect()
    assert connection.closed
    people(database[1])
    gc.collect()
    assert not database[1].closed  # your own connection stays open


# None has a name to look up: how a network answers must not matter. libpq stops reading at the NUL, so that what looks
# like a user is the host, and the password its port.
ADDRESSES = [
    "postgresql://ann:hunter2@127.0.0.1:1/db",
    "postgres://ann:hunter2@[/db",
    "postgresql://ann:hunter2%zz@127.0.0.1:1/db",
    "postgresql://127.0.0.1:hunter2\0@127.0.0.1:1/db",
    "postgresql+psycopg://ann:hunter2@h/db",
    "mysql://ann:hunter2@h/db",
    "mysql://ann:hunter2@h",
    "host=/nowhere password=hunter2",
    "ann:hunter2@h",
]


@pytest.mark.postgres
@pytest.mark.parametrize("address", ADDRESSES)
def test_passwords_are_not_shown(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(HushError) as caught:
        people(address)
    shown = "".join(traceback.format_exception_only(caught.value)) + str(caught.value.__cause__)
    assert "hunter2" not in shown + repr(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    options = ["SELECT COUNT(*) FROM people", "--unit", "who", "--epsilon", "1"]
    with pytest.raises(SystemExit):
        raise SystemExit(main(["query", address, *options, "--table", "people"]))
    assert "hunter2" not in "".join(capsys.readouterr())


@pytest.mark.postgres
def test_a_table_does_not_show_its_address(database: tuple[str, Any]) -> None:
    table = people(database[0] + "&password=hunter2")
    assert "hunter2" not in repr(table) + repr(vars(table)) + repr(table._engine) + repr(vars(table._engine))


@pytest.mark.postgres
def test_time_zones_and_percentiles_on_postgresql(database: tuple[str, Any]) -> None:
    _, connection = database
    connection.execute("CREATE TABLE moments(who BIGINT, x DOUBLE PRECISION, at TIMESTAMPTZ)")
    connection.execute(
        "INSERT INTO moments SELECT i, i % 50, TIMESTAMPTZ '2024-01-31 23:30:00-05' FROM generate_series(1, 600) i"
    )
    declared: dict[str, Any] = {"name": "moments", "bounds": {"x": (0, 50)}, "keys": {}}
    with pytest.raises(InvalidArgument, match="^time='at': .*without a time zone.*AT TIME ZONE 'UTC'"):
        people(connection, **declared, unit=UserWindow("who", time="at", window=CalendarWindow.MONTH))
    moments = people(connection, **declared)
    with pytest.raises(HushError, match="time zone of this timestamp is not known"):
        moments.sql("SELECT COUNT(*) FROM moments WHERE at > '2024-01-01'", epsilon=1.0)
    text = "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x) AS half FROM moments"
    assert moments.sql(text, epsilon=100.0, source=TestSource(1)).rows[0][0] == pytest.approx(24.5, abs=2)
    connection.execute("CREATE VIEW utc AS SELECT who, (at AT TIME ZONE 'UTC') AS at FROM moments")
    utc = people(connection, name="utc", bounds={}, keys={})
    text = "SELECT MONTH(at) AS m, COUNT(*) AS n FROM utc GROUP BY 1"
    # Discrete Laplace noise of scale 1/100: not 0 with 2 e^-100.
    answer = utc.sql(text, epsilon=100.0, rows_per_unit=1, groups_per_unit=1)
    assert {row[0]: round(row[1] / 100) for row in answer.rows}[2] == 6  # half past four in the morning of 1 February
    connection.execute("DROP VIEW utc; DROP TABLE moments")


def test_a_relation_is_read_by_its_own_connection() -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE people AS SELECT i AS who FROM range(9) AS t(i)")
    relation = connection.sql("SELECT * FROM people WHERE who > 2")
    with pytest.raises(InvalidArgument, match="expected the connection of the relation. Write relation.create_view"):
        hush.table(relation, unit="who")
    relation.create_view("later")
    answer = hush.table(connection, name="later", unit="who").sql("SELECT COUNT(*) FROM later", epsilon=1e3)
    assert answer.rows == [(6,)]
