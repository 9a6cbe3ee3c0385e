"""Databases behind SQLAlchemy and ADBC: MariaDB, PostgreSQL and DuckDB, where their drivers are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hush
from hush.data.tables.catalog import Catalog, PrivateTable, kind_of
from hush.errors import InvalidArgument, Unsupported
from hush.randomness import TestSource
from hush.sql import EngineFailed
from hush.sql.engines import connections
from hush.sql.engines.connections import ConnectionEngine
from hush.sql.engines.engine import KeepsViews
from hush.sql.engines.sessions import RULES
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.sql.write import bounded, dialects
from sql.hosts import (
    INTRUDERS,
    QUERIES,
    TREES,
    OnDuckDB,
    OnMariaDB,
    OnPostgres,
    check_constants,
    contents,
    fill,
    is_written,
    largest_change,
    many_rows,
    planned,
    planned_alike,
)

sqlalchemy = pytest.importorskip("sqlalchemy")


def psycopg_pool(string: str, **options: Any) -> Any:
    """Return an engine of SQLAlchemy for a connection string of any form."""
    import psycopg

    return sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(string, **options))


class ThroughSQLAlchemy(OnPostgres):
    """PostgreSQL, asked through SQLAlchemy and psycopg."""

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self.engine.close()  # type: ignore[attr-defined]
        self.pool = psycopg_pool(self.string)
        self.engine = ConnectionEngine(self.pool)

    def close(self) -> None:
        self.pool.dispose()
        self.execute(f"DROP SCHEMA {self.schema} CASCADE")
        self.connection.close()


class ThroughADBC(ThroughSQLAlchemy):
    """PostgreSQL, asked through ADBC."""

    def __init__(self, server: str) -> None:
        dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="needs adbc-driver-postgresql")
        super().__init__(server)
        self.adbc = dbapi.connect(server)
        with self.adbc.cursor() as cursor:
            cursor.execute(f"SET search_path = {self.schema}")
        self.adbc.commit()
        self.engine = ConnectionEngine(self.adbc)

    def close(self) -> None:
        self.adbc.close()
        super().close()


class DuckDBThroughSQLAlchemy(OnDuckDB):
    """DuckDB, asked through SQLAlchemy."""

    def __init__(self, _: Any) -> None:
        pytest.importorskip("duckdb_engine", reason="needs duckdb-engine")
        self.pool = sqlalchemy.create_engine("duckdb:///:memory:", poolclass=sqlalchemy.pool.StaticPool)
        self.held = self.pool.raw_connection()
        self.connection = self.held.driver_connection.cursor()
        self.engine: Any = ConnectionEngine(self.pool)

    def close(self) -> None:
        self.connection.close()
        self.held.close()
        self.pool.dispose()


HOSTS: dict[str, tuple[Callable[[Any], Any], str | None]] = {
    "mariadb": (OnMariaDB, "mysql_url"),
    "postgres": (ThroughSQLAlchemy, "postgres_url"),
    "adbc": (ThroughADBC, "postgres_url"),
    "duckdb": (DuckDBThroughSQLAlchemy, None),
}


@pytest.fixture(
    params=["mariadb", *(pytest.param(n, marks=pytest.mark.postgres) for n in ("postgres", "adbc")), "duckdb"]
)
def host(request: pytest.FixtureRequest) -> Iterator[Any]:
    with _opened(request.param, request) as host:
        fill(host)
        yield host


@contextmanager
def _opened(name: str, request: pytest.FixtureRequest) -> Iterator[Any]:
    make, service = HOSTS[name]
    host = make(None if service is None else request.getfixturevalue(service))
    try:
        yield host
    finally:
        host.close()


@pytest.fixture
def mariadb(mysql_url: str) -> Iterator[Any]:
    host = OnMariaDB(mysql_url)
    yield host
    host.close()


@pytest.mark.quick_cases(2)
def test_groups_are_the_same_as_on_duckdb(host: Any, ranking_key: bytes) -> None:
    """With limits that drop no group: which groups are kept depends on each engine's own hash."""
    reference = OnDuckDB()
    fill(reference)
    for text in [*QUERIES, *TREES]:
        plans = [(planned_alike(text, engine), engine) for engine in (host.engine, reference.engine)]
        if not is_written(*plans[0]):
            assert "LAST_DAY" in text or "SPLIT_PART" in text or "ROW_NUMBER" in text
            continue
        actual, expected = [contents(plan, engine, ranking_key) for plan, engine in plans]
        assert actual == expected, text


@pytest.mark.parametrize("host", ["mariadb", pytest.param("adbc", marks=pytest.mark.postgres)], indirect=True)
@pytest.mark.parametrize("name", INTRUDERS)
def test_one_unit_changes_no_more_than_its_bounds(name: str, host: Any, ranking_key: bytes) -> None:
    """No answer fails, either: a driver has to read all values."""
    plans = [planned(text, host.engine, groups_per_unit=2, rows_per_unit=2) for text in QUERIES]
    plans = [plan for plan in plans if is_written(plan, host.engine)]
    before = [contents(plan, host.engine, ranking_key) for plan in plans]
    for table, rows in INTRUDERS[name]().items():
        host.add(table, rows)
    if name == "extreme rows":
        host.add_dates_beyond()
    for plan, old in zip(plans, before, strict=True):
        changed, broken = largest_change(plan, old, contents(plan, host.engine, ranking_key))
        assert changed <= plan.groups_per_unit, plan.columns
        assert not broken, plan.columns


def test_a_twin_without_the_limit_on_groups_is_caught(
    mariadb: Any, monkeypatch: pytest.MonkeyPatch, ranking_key: bytes
) -> None:
    monkeypatch.setattr(bounded, "_kept_layer", lambda *_: "SELECT * FROM hush_pairs")
    fill(mariadb)
    plan = planned("SELECT note, COUNT(*) FROM people GROUP BY note", mariadb.engine, groups_per_unit=2)
    before = contents(plan, mariadb.engine, ranking_key)
    mariadb.add("people", many_rows()["people"])
    assert largest_change(plan, before, contents(plan, mariadb.engine, ranking_key))[0] > plan.groups_per_unit


def test_a_table_is_declared_and_asked(host: Any) -> None:
    data = getattr(host, "adbc", None) or host.pool
    people = hush.table(data, name="people", unit="user_id", bounds={"age": (0, 120)}, public={"zones": None})
    query = "SELECT COUNT(*) AS n, MEDIAN(age) AS a FROM people p JOIN zones z ON p.region = z.region"
    answer = people.sql(query, epsilon=1000.0, rows_per_unit=10, source=TestSource(1))
    again = people.sql(query, epsilon=1000.0, rows_per_unit=10, source=TestSource(1))
    assert answer.rows == again.rows  # nothing is kept, and the same rows count
    assert not isinstance(people._engine, KeepsViews)
    people.forget()
    assert len(people.preview("SELECT COUNT(*) AS n FROM people").rows) == 1
    with pytest.raises(InvalidArgument, match="^name="):
        hush.table(data, name="nothing", unit="user_id")
    with pytest.raises(Unsupported, match="number of a row"):
        hush.table(data, name="people", unit="row")


def test_a_view_of_a_file_is_refused(tmp_path: Path) -> None:
    host = DuckDBThroughSQLAlchemy(None)
    path = tmp_path / "people.csv"
    path.write_text("who\n1\n")
    host.connection.execute(f"CREATE VIEW people AS SELECT * FROM read_csv('{path}')")
    with pytest.raises(Unsupported, match="people reads a file whose values are not checked"):
        host.engine.columns("people")
    host.close()


def test_constants_are_read_as_written(host: Any, ranking_key: bytes) -> None:
    check_constants(host, ranking_key)


def test_errors_are_hidden_and_the_connection_still_works(host: Any) -> None:
    for statement in (
        "SELECT nothing FROM people",
        "DELETE FROM people",
        "SELECT CAST(note AS BIGINT) + 1 FROM people",
    ):
        with pytest.raises(EngineFailed) as caught:
            host.engine.run(f"{statement} WHERE note = 'n7' AND nothing = 1")
        assert "n7" not in str(caught.value)
        assert caught.value.__suppress_context__
    assert len(host.engine.run("SELECT 1 AS x FROM zones")) == 4


def test_nothing_is_written(request: pytest.FixtureRequest) -> None:
    with _opened("mariadb", request) as host:
        fill(host)
        with pytest.raises(EngineFailed):
            host.engine.run("DELETE FROM zones")
        assert len(host.engine.run("SELECT 1 AS x FROM zones")) == 4


def test_settings_of_a_connection_are_fixed_and_restored(mariadb: Any, ranking_key: bytes) -> None:
    """Under these, a backslash is no escape, IS NULL finds the last row, and an answer has one group only."""
    fill(mariadb)
    plan = planned("SELECT note, COUNT(*) FROM people WHERE note <> 'it''s \\' GROUP BY note", mariadb.engine)
    expected = contents(plan, mariadb.engine, ranking_key)
    changed = {"sql_mode": "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "sql_select_limit": 1, "max_sort_length": 64}
    with mariadb.pool.connect() as connection:
        for name, value in changed.items():
            connection.exec_driver_sql(f"SET SESSION {name} = {value!r}")
        connection.commit()
        engine: Any = ConnectionEngine(connection)
        assert contents(plan, engine, ranking_key) == expected
        settings = {name: connection.exec_driver_sql(f"SELECT @@SESSION.{name}").scalar() for name in changed}
        assert settings == changed
        with pytest.raises(Unsupported, match="transaction"):
            engine.run("SELECT 1 AS x")
        connection.invalidate()


def test_texts_that_a_collation_equates_are_different_groups(mariadb: Any, ranking_key: bytes) -> None:
    """By default, A equals a, and trailing spaces do not count."""
    words = ["a", "A", "ä", "a ", "a\u00a0", "ß", "ss", ""]
    mariadb.put("visits", "who BIGINT, place VARCHAR(9) COLLATE utf8mb4_general_ci", list(enumerate(words)))
    plan = planned_on(mariadb, "SELECT place, COUNT(*) FROM visits GROUP BY place")
    groups = exact_groups(plan, mariadb.engine, ranking_key=ranking_key)
    assert sorted(group.keys[0] for group in groups) == sorted(words)
    plan = planned_on(mariadb, "SELECT COUNT(*) FROM visits WHERE place = 'a' OR 'x' = 'X' OR place LIKE '_A'")
    assert exact_groups(plan, mariadb.engine, ranking_key=ranking_key)[0].units == 1


def planned_on(host: Any, text: str) -> Any:
    tables = Catalog({"visits": PrivateTable(columns=host.engine.columns("visits"), unit="who")})
    return plan_query(text, tables=tables, dialect="mariadb")


@pytest.mark.parametrize(
    ("collation", "units"), [("utf8mb4_bin", 3), ("utf8mb4_nopad_bin", 4), ("utf8mb4_general_ci", None)]
)
def test_units_are_equal_if_and_only_if_the_database_says_so(
    collation: str, units: int | None, mariadb: Any, ranking_key: bytes
) -> None:
    ids = ["ann", "ann ", "ANN", "x" * 3000 + "1", "ann"]
    mariadb.put("visits", f"who TEXT CHARACTER SET utf8mb4 COLLATE {collation}, place TEXT", [(i, "p") for i in ids])
    if units is None:
        with pytest.raises(
            InvalidArgument, match="^unit='who': expected a column whose collation compares texts exactly"
        ):
            hush.table(mariadb.pool, name="visits", unit="who")
        return
    plan = planned_on(mariadb, "SELECT COUNT(*) FROM visits")
    assert exact_groups(plan, mariadb.engine, ranking_key=ranking_key)[0].units == units
    said = mariadb.engine.run("SELECT COUNT(DISTINCT who) FROM visits")
    assert said == [(units,)]


def test_long_texts_are_not_mixed_up(mariadb: Any, ranking_key: bytes) -> None:
    """MySQL groups by the first 1024 bytes: units and keys that differ after them would count as one."""
    mariadb.put(
        "visits", "who TEXT COLLATE utf8mb4_nopad_bin, place TEXT", [("x" * 3000 + e, "y" * 3000 + e) for e in "ab"]
    )
    plan = planned_on(mariadb, "SELECT place, COUNT(*) FROM visits GROUP BY place")
    ((keys, numbers),) = contents(plan, mariadb.engine, ranking_key).items()
    assert (keys, numbers["units"]) == (("y" * 250,), 2)


def test_types_of_mysql(mariadb: Any, ranking_key: bytes) -> None:
    columns = {
        "a TINYINT(1)": "boolean",
        "b INT UNSIGNED": "integer",
        "c BIGINT UNSIGNED": "number",
        "d TIMESTAMP": "other",
        "e TIME": "other",
        "f VARBINARY(9)": "other",
        "g ENUM('x', 'Y')": "text",
        "h VARCHAR(9) CHARACTER SET cp932": "other",
        "i YEAR": "other",
        "j BIT(3)": "other",
        "k DECIMAL(65, 30)": "number",
        "l FLOAT": "number",
    }
    mariadb.put("visits", "who BIGINT UNSIGNED, " + ", ".join(columns), [])
    mariadb.execute(
        "INSERT INTO visits(who, c, k) VALUES (18446744073709551615, 18446744073709551615, 9e33), (0, 0, 1)"
    )
    declared = mariadb.engine.columns("visits")
    assert [kind_of(declared[name.split()[0]]).value for name in columns] == list(columns.values())
    plan = planned_on(mariadb, "SELECT c - 1 AS less, COUNT(*) FROM visits WHERE k * k > 0 GROUP BY less")
    keys = sorted(group.keys[0] for group in exact_groups(plan, mariadb.engine, ranking_key=ranking_key))
    assert keys == [-1.0, 2.0**64]


def test_texts_are_numbers_only_if_they_are_numbers(mariadb: Any, ranking_key: bytes) -> None:
    """MySQL reads 1abc as 1, and raises on numbers that are too large."""
    texts = [
        "1abc",
        "1",
        " 1 ",
        "1e9999",
        "0x1",
        "1\n",
        "--1",
        "",
        "1" + "0" * 400,
        "2024-02-30",
        "2024-2-3",
        "0000-00-00",
    ]
    mariadb.put("visits", "who BIGINT, note TEXT", list(enumerate(texts)))
    plan = planned_on(
        mariadb, "SELECT CAST(note AS DOUBLE) AS x, CAST(note AS DATE) AS d, COUNT(*) FROM visits GROUP BY x, d"
    )
    units = {group.keys: group.units for group in exact_groups(plan, mariadb.engine, ranking_key=ranking_key)}
    assert units in ({(1.0, None): 2, (None, None): 10}, {(1.0, None): 3, (None, None): 9})  # with a line break, or not


@pytest.mark.parametrize("guarded", [True, False])
def test_whether_a_query_is_answered_does_not_depend_on_a_row(
    guarded: bool, mariadb: Any, monkeypatch: pytest.MonkeyPatch, ranking_key: bytes
) -> None:
    """MySQL raises when a product leaves the range of doubles. A twin that multiplies as usual tells one row."""
    if not guarded:
        usual = {**dialects.DIALECTS["mariadb"].templates, "mul": "({0} * {1})"}
        twin = replace(dialects.DIALECTS["mariadb"], templates=usual)
        monkeypatch.setattr(dialects, "DIALECTS", {**dialects.DIALECTS, "mariadb": twin})
    mariadb.put("visits", "who BIGINT, x DOUBLE", [(1, 2.0)])
    plan = planned_on(mariadb, "SELECT COUNT(*) FROM visits WHERE x * x * x * x > 1")
    assert exact_groups(plan, mariadb.engine, ranking_key=ranking_key)[0].units == 1
    mariadb.add("visits", [(2, 1e99)])
    if guarded:
        assert exact_groups(plan, mariadb.engine, ranking_key=ranking_key)[0].units == 2
    else:
        with pytest.raises(EngineFailed):
            exact_groups(plan, mariadb.engine, ranking_key=ranking_key)


@pytest.mark.postgres
def test_a_connection_that_commits_each_statement_is_refused(postgres_url: str) -> None:
    pool = psycopg_pool(postgres_url, autocommit=True)
    with pytest.raises(Unsupported, match="commits each statement"):
        ConnectionEngine(pool).run("SELECT 1")
    pool.dispose()


def test_sqlite_and_unknown_databases_are_refused() -> None:
    engine = sqlalchemy.create_engine("sqlite://")
    with pytest.raises(Unsupported, match="SQLite is not supported: its columns hold values of any type"):
        hush.table(engine, name="people", unit="who")
    with pytest.raises(InvalidArgument, match="^name="):
        hush.table(engine, unit="who")
    with pytest.raises(InvalidArgument, match="^data='MetaData'"):
        hush.table(sqlalchemy.MetaData(), name="people", unit="who")
    engine.dispose()


@pytest.mark.parametrize("version", ["5.7.44-log", "8.0.16", "10.1.48-MariaDB", "strange"])
def test_old_versions_are_refused(version: str) -> None:
    with pytest.raises(Unsupported, match="too old"):
        connections._mysql_dialect(version)
    assert connections._mysql_dialect("8.4.2") == "mysql"
    assert connections._mysql_dialect("10.11.6-MariaDB-0+deb12u1") == "mariadb"


TYPES: dict[str, list[tuple[tuple[Any, ...], str]]] = {
    "bigquery": [
        (("x", "INT64", None), "integer"),
        (("x", "BIGNUMERIC(40, 2)", None), "number"),
        (("x", "STRING(10)", "NULL"), "text"),
        (("x", "STRING", "und:ci"), "other"),
        (("x", "DATETIME", None), "timestamp"),
        (("x", "TIMESTAMP", None), "timestamp with a time zone"),
        (("x", "ARRAY<INT64>", None), "other"),
        (("x", "JSON", None), "other"),
    ],
    "snowflake": [
        (("X", "NUMBER", 0, None), "integer"),
        (("X", "NUMBER", 2, None), "number"),
        (("X", "TEXT", None, None), "text"),
        (("X", "TEXT", None, "en-ci"), "other"),
        (("X", "TIMESTAMP_NTZ", None, None), "timestamp"),
        (("X", "TIMESTAMP_LTZ", None, None), "timestamp with a time zone"),
        (("X", "TIMESTAMP_TZ", None, None), "timestamp with a time zone"),
        (("X", "VARIANT", None, None), "other"),
    ],
    "databricks": [
        (("x", "bigint", None), "integer"),
        (("x", "decimal(38,2)", None), "number"),
        (("x", "string", None), "text"),
        (("x", "string collate UTF8_LCASE", None), "other"),
        (("x", "timestamp_ntz", None), "timestamp"),
        (("x", "timestamp", None), "timestamp with a time zone"),
        (("x", "interval day to second", None), "other"),
        (("x", "array<int>", None), "other"),
    ],
}


@pytest.mark.parametrize("name", TYPES)
def test_types_of_warehouses(name: str) -> None:
    for row, kind in TYPES[name]:
        assert kind_of(RULES[name].declared(row)).value == kind, row


class Recorded:
    """A connection of ADBC to a warehouse that is not there: it answers as its manual says, and keeps statements."""

    def __init__(self, vendor: str, columns: list[tuple[Any, ...]], setting: tuple[Any, ...]) -> None:
        self.vendor, self._columns, self._setting = vendor, columns, setting
        self.statements: list[str] = []

    def adbc_get_info(self) -> dict[str, str]:
        return {"vendor_name": self.vendor}

    def cursor(self) -> Recorded:
        return self

    def close(self) -> None:
        pass

    def execute(self, statement: str) -> None:
        self.statements.append(statement)

    def fetchall(self) -> list[tuple[Any, ...]]:
        last = self.statements[-1]
        if "INFORMATION_SCHEMA" in last or last.startswith("DESCRIBE"):
            return self._columns
        return [self._setting] if last.startswith(("SHOW", "SET")) else [(7, 7)]


def test_a_session_of_snowflake_is_prepared_and_restored() -> None:
    columns = [("WHO", "NUMBER", 0, None), ("Note", "TEXT", None, None)]
    connection = Recorded("Snowflake", columns, ("NAME", 100, 0, "SESSION", "", "NUMBER"))
    engine = ConnectionEngine(connection)
    assert engine.columns("people") == {"WHO": "BIGINT", "Note": "TEXT"}
    assert "table_name = UPPER('people')" in " ".join(connection.statements)
    assert connection.statements[-2:] == [
        "ALTER SESSION SET ROWS_PER_RESULTSET = 100",
        "ALTER SESSION SET STATEMENT_TIMEOUT_IN_SECONDS = 100",
    ]
    people = Catalog({"people": PrivateTable(columns=engine.columns("people"), unit="WHO")})
    plan = plan_query("SELECT COUNT(*) AS n FROM people WHERE note = 'x'", tables=people, dialect="snowflake")
    exact_groups(plan, engine, ranking_key=bytes(16))
    (query,) = [statement for statement in connection.statements if statement.startswith("WITH")]
    assert 'FROM "PEOPLE" AS s' in query
    assert 's."Note"' in query


def test_a_session_of_databricks_is_prepared_and_restored() -> None:
    columns = [("who", "bigint", None), ("", "", ""), ("# Partition Information", "", ""), ("who", "bigint", None)]
    connection = Recorded("Databricks", columns, ("ansi_mode", "false"))
    assert ConnectionEngine(connection).columns("people") == {"who": "BIGINT"}
    assert connection.statements[2:4] == ["SET ansi_mode = true", "SET statement_timeout = 172800"]
    assert connection.statements[-2:] == ["SET ansi_mode = false", "SET statement_timeout = false"]
