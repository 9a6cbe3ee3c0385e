"""PostgreSQL as the engine: read-only transactions, settings, types, encodings and collations."""

from __future__ import annotations

import sys
import uuid

import pytest

from hush.data.tables.catalog import kind_of
from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.sql import EngineFailed, table
from hush.sql.engines.postgres import PostgresEngine
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from sql.hosts import COMMANDS, OnPostgres, fill, keeps_two_units


@pytest.mark.postgres
@pytest.mark.parametrize("command", [*COMMANDS, "COMMIT", "SELECT 1; COMMIT; DROP TABLE zones"])
def test_nothing_is_written(command: str, postgres_url: str) -> None:
    host = OnPostgres(postgres_url)
    fill(host)
    if command != "COMMIT":
        with pytest.raises(EngineFailed):
            host.engine.run(command)
    with pytest.raises(EngineFailed):
        host.engine.materialise("x", f"SELECT 1 AS x; {command}")
    assert len(host.engine.run("SELECT * FROM zones")) == 4
    host.close()


@pytest.mark.postgres
def test_settings_of_your_connection_stay(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, row_factory=psycopg.rows.dict_row) as connection:
        connection.execute("SET standard_conforming_strings = off")
        connection.execute("SET extra_float_digits = -3")
        connection.commit()
        engine = PostgresEngine(connection)
        assert engine.run("SELECT 'a\\', 0.1::DOUBLE PRECISION + 0.2::DOUBLE PRECISION") == [("a\\", 0.1 + 0.2)]
        engine.close()  # which leaves your connection open
        assert connection.execute("SHOW standard_conforming_strings").fetchone() == {
            "standard_conforming_strings": "off"
        }
        with pytest.raises(Unsupported, match="transaction"):
            engine.run("SELECT 1")
        connection.rollback()
        assert engine.run("SELECT 1") == [(1,)]


@pytest.mark.postgres
def test_types_with_misleading_names_are_other(postgres_url: str) -> None:
    host = OnPostgres(postgres_url)
    host.execute("CREATE TYPE integer_like AS (x INT)")
    host.execute("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    host.execute("CREATE DOMAIN small AS INT CHECK (VALUE < 10)")
    host.execute(
        "CREATE TABLE t(a integer_like, b mood, c small, d int4range, e daterange, f INT[], g TIMESTAMPTZ, h INTERVAL)"
    )
    kinds = [kind_of(declared).value for declared in host.engine.columns("t").values()]
    assert kinds == ["other", "text", "integer", *["other"] * 3, "timestamp with a time zone", "other"]
    host.close()


@pytest.mark.postgres
def test_connections_that_are_refused(postgres_url: str) -> None:
    import psycopg

    with pytest.raises(InvalidArgument, match="^connection="):
        PostgresEngine(None)
    with pytest.raises(EngineFailed) as caught:
        PostgresEngine("host=/nowhere password=secret")
    assert "secret" not in str(caught.value)
    name = f"hush_test_{uuid.uuid1().hex}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'")
        with pytest.raises(Unsupported, match="UTF-8"):
            PostgresEngine(psycopg.conninfo.make_conninfo(postgres_url, dbname=name))
        connection.execute(f"DROP DATABASE {name}")


@pytest.mark.postgres
def test_units_that_a_collation_equates_are_two(postgres_url: str, ranking_key: bytes) -> None:
    import psycopg

    host = OnPostgres(postgres_url)
    try:
        host.execute("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.Error:
        host.close()
        pytest.skip("this server is built without ICU")
    host.put("visits", "who TEXT COLLATE nocase, place TEXT", [("ann", "a"), ("ANN", "b")])
    assert keeps_two_units(host.engine, ranking_key)
    host.close()


@pytest.mark.postgres
def test_equal_numbers_are_one_unit(postgres_url: str) -> None:
    """7, 7.0 and 7.00 are one person, as the database says."""
    import psycopg

    host = OnPostgres(postgres_url)
    connection = psycopg.connect(host.string, autocommit=True)
    host.put("visits", "who NUMERIC, x INT", [(who, 1) for who in ("7", "7.0", "7.00", "70", "700.10", "700.1", "NaN")])
    visits = table(connection, name="visits", unit="who")
    plan = plan_query("SELECT COUNT(*) AS n FROM visits", tables=visits._catalog, dialect="postgres")
    (group,) = exact_groups(plan, host.engine, ranking_key=bytes(32))
    assert group.units == 4
    connection.close()
    host.close()


@pytest.mark.postgres
def test_columns_whose_collation_equates_texts_are_not_used(postgres_url: str) -> None:
    import psycopg

    host = OnPostgres(postgres_url)
    try:
        host.execute("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
    except psycopg.Error:
        host.close()
        pytest.skip("this server is built without ICU")
    connection = psycopg.connect(host.string, autocommit=True)
    host.put("visits", 'who TEXT COLLATE nocase, place TEXT, other TEXT COLLATE "C"', [("ann", "a", "b")])
    assert [kind_of(declared).value for declared in host.engine.columns("visits").values()] == ["other", "text", "text"]
    with pytest.raises(InvalidArgument, match="^unit="):
        table(connection, name="visits", unit="who")
    connection.close()
    host.close()


@pytest.mark.postgres
def test_each_row_can_be_a_unit(postgres_url: str) -> None:
    import psycopg

    host = OnPostgres(postgres_url)
    connection = psycopg.connect(host.string, autocommit=True)
    host.put("visits", "place TEXT, x INT", [("a", i) for i in range(200)])
    visits = table(connection, name="visits", unit="row", bounds={"x": (0, 200)})
    answer = visits.sql("SELECT COUNT(*) AS n, MEDIAN(x) AS m FROM visits", epsilon=100.0, source=TestSource(1))
    # A tenth of epsilon gives noise of scale 0.1, which is beyond 5 with probability exp(-50).
    assert abs(answer.rows[0][0] - 200) < 5
    assert abs(answer.rows[0][1] - 100) < 10
    assert str(answer.guarantee.unit) == "example"
    host.execute("CREATE VIEW seen AS SELECT * FROM visits")
    host.execute("CREATE TABLE parts (x INT) PARTITION BY LIST (x)")
    for name in ("seen", "parts"):
        with pytest.raises(Unsupported, match="address"):
            table(connection, name=name, unit="row")
    connection.close()
    host.close()


@pytest.mark.parametrize("missing", ["psycopg"])
def test_a_missing_package_is_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(Unsupported, match=r"hush\[postgres\]"):
        PostgresEngine("dbname=x")
