"""DuckDB as the engine: where data may be, what it may touch, and what its errors may say."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.errors import HushError, InvalidArgument
from hush.sql import (
    BoundedViews,
    Catalog,
    ContributionLimits,
    DuckDBEngine,
    EngineFailed,
    PrivateTable,
    QueryPlan,
    exact_groups,
    plan_query,
)

ROWS = {"who": ["a", "a", "b", "c", None], "x": [1.0, 2.0, 3.0, float("nan"), 5.0], "k": ["p", "q", "p", None, "p"]}


def totals(engine: DuckDBEngine, key: bytes) -> dict[Any, int]:
    """Return the number of rows by k of a table t, unbounded."""
    bounds = {"x": (0, 10)}
    tables = Catalog({"t": PrivateTable(columns=engine.columns("t"), unit="who", bounds=bounds)})
    plan = plan_query(
        "SELECT k, COUNT(*), SUM(x) AS s FROM t GROUP BY k",
        tables=tables,
        limits=ContributionLimits(groups_per_unit=9, rows_per_unit=9),
    )
    return {
        row[0]: row[1:] for row in plan.answer((g.keys, g.sums) for g in exact_groups(plan, engine, ranking_key=key))
    }


EXPECTED = {"p": (2, pytest.approx(4)), "q": (1, pytest.approx(2)), None: (1, 0)}


def test_a_parquet_file(tmp_path: Path, ranking_key: bytes) -> None:
    path = tmp_path / "it's.parquet"
    made = duckdb.connect()
    made.execute(
        "CREATE TABLE t AS SELECT * FROM (VALUES "
        "('a',1,'p'),('a',2,'q'),('b',3,'p'),('c','nan'::DOUBLE,NULL),(NULL,5,'p')) AS v(who,x,k)"
    )
    quoted = str(path).replace("'", "''")
    made.execute(f"COPY t TO '{quoted}'")
    assert totals(DuckDBEngine({"t": path}), ranking_key) == EXPECTED


def test_a_csv_file_is_text_and_a_quote_concerns_its_line_only(tmp_path: Path, ranking_key: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_text('who,x,k\r\na,1,p\r\na,2,"q"\r\nb,3,p\r\nc,abc,\r\n,5,p\r\nd,"7\r\n')
    engine = DuckDBEngine({"t": path})
    assert set(engine.columns("t").values()) == {"VARCHAR"}
    assert totals(engine, ranking_key) == EXPECTED


@pytest.mark.parametrize(
    "line", [b"z,\xff,p", b"z,1," + b"x" * 3_000_000, b'z,"1,p', b"z\x00,\x01\x02\x03,p", b'"', b",,,,,,"]
)
def test_a_line_of_a_csv_file_concerns_nobody_else(line: bytes, tmp_path: Path, ranking_key: bytes) -> None:
    """Whatever one record holds, the file can be opened and read, and others' records are as they were."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"who,x,k\na,1,p\na,2,q\n" + line + b"\nb,3,p\nc,abc,\n,5,p\n")
    found = totals(DuckDBEngine({"t": path}), ranking_key)
    assert found["q"] == EXPECTED["q"]
    assert found["p"][0] in (2, 3)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_frames(library: str, ranking_key: bytes) -> None:
    module = pytest.importorskip(library)
    frame = module.table(ROWS) if library == "pyarrow" else module.DataFrame(ROWS)
    pytest.importorskip("pyarrow")
    assert totals(DuckDBEngine({"t": frame}), ranking_key) == EXPECTED


def test_types_of_pandas_columns_are_not_guessed_from_values(ranking_key: bytes) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"who": ["a"] * 3 + ["b"], "x": pandas.Series([1, 2, 3, "oops"], dtype=object), "k": ["p"] * 4}
    )
    engine = DuckDBEngine({"t": frame})
    assert engine.columns("t")["x"] == "VARCHAR"
    assert totals(engine, ranking_key) == {"p": (4, pytest.approx(6))}


def test_a_connection_s_own_tables_stay_as_they_are(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    before = connection.execute("SELECT COUNT(*), SUM(hash(p)) FROM people AS p").fetchall()
    names = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
    views = BoundedViews(engine, ranking_key)
    views.groups(planned("SELECT note, COUNT(*) FROM people GROUP BY note"))
    views.forget()
    assert connection.execute("SELECT COUNT(*), SUM(hash(p)) FROM people AS p").fetchall() == before
    assert connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall() == names


def test_an_engine_of_its_own_reads_no_other_file(tmp_path: Path) -> None:
    secret, path = tmp_path / "secret.csv", tmp_path / "t.csv"
    secret.write_text("a\nb\n")
    path.write_text("who,x,k\na,1,p\n")
    engine = DuckDBEngine({"t": path})
    assert engine.run("SELECT COUNT(*) FROM t") == [(1,)]
    for attempt in (
        f"SELECT * FROM read_csv('{secret}')",
        f"COPY t TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'x.db'}'",
        "SET enable_external_access = true",
        "INSTALL httpfs",
    ):
        with pytest.raises(EngineFailed):
            engine.run(attempt)
    assert not (tmp_path / "out.csv").exists()


def test_errors_do_not_quote_records(engine: DuckDBEngine) -> None:
    with pytest.raises(HushError) as caught:
        engine.run("SELECT CAST(note AS INTEGER) FROM people")
    assert "n0" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("name", ["nothing.parquet", "many*.parquet", "file.xlsx"])
def test_sources_that_are_refused(name: str, tmp_path: Path) -> None:
    if "xlsx" in name:
        (tmp_path / name).write_text("x")
    with pytest.raises(InvalidArgument, match="^data="):
        DuckDBEngine({"t": tmp_path / name})


@pytest.mark.parametrize("header", ["", "a,a\n", "a,A\n", "a,,b\n"])
def test_headers_that_are_refused(header: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(header + "1,2,3\n" if header else "")
    with pytest.raises(InvalidArgument, match="^data="):
        DuckDBEngine({"t": path})


def test_a_default_collation_is_refused() -> None:
    connection = duckdb.connect()
    connection.execute("SET default_collation = 'nocase'")
    with pytest.raises(HushError, match="collation"):
        DuckDBEngine(connection=connection)


class Counting(DuckDBEngine):
    """Counts what is materialised."""

    made = 0

    def materialise(self, name: str, sql: str) -> None:
        self.made += 1
        super().materialise(name, sql)


def test_views_answer_further_questions(connection: Any, planned: Callable[..., QueryPlan], ranking_key: bytes) -> None:
    engine = Counting(connection=connection)
    views = BoundedViews(engine, ranking_key)
    first = planned("SELECT region, COUNT(*), AVG(income), SUM(age) FROM people GROUP BY region", groups_per_unit=2)
    others = [
        planned("SELECT region, AVG(income) FROM people GROUP BY region HAVING AVG(income) > 5", groups_per_unit=2),
        planned("SELECT SUM(age) AS s, region FROM people GROUP BY region ORDER BY s LIMIT 1", groups_per_unit=2),
    ]
    for plan in [first, *others]:
        assert views.groups(plan) == exact_groups(plan, engine, ranking_key=ranking_key)
    assert engine.made == 1
    different = [
        planned("SELECT region, COUNT(*) FROM people GROUP BY region", groups_per_unit=1),
        planned("SELECT region, COUNT(*) FROM people WHERE age > 3 GROUP BY region", groups_per_unit=2),
        planned("SELECT note, COUNT(*) FROM people GROUP BY note", groups_per_unit=2),
        planned("SELECT region, SUM(age) FROM people GROUP BY region", groups_per_unit=2, rows_per_unit=2),
        planned("SELECT COUNT(*) FROM people"),
    ]
    for plan in different:
        assert sorted(map(repr, views.groups(plan))) == sorted(
            map(repr, exact_groups(plan, engine, ranking_key=ranking_key))
        )
    assert engine.made == 1 + len(different)
    wider = planned("SELECT region, SUM(price) FROM people GROUP BY region", groups_per_unit=2)
    assert views.groups(wider) == exact_groups(wider, engine, ranking_key=ranking_key)
    assert engine.made == 2 + len(different)  # a release that the view lacks


def test_a_view_stays_as_it_is_until_it_is_forgotten(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan]
) -> None:
    views = BoundedViews(engine)
    plan = planned("SELECT COUNT(*) FROM people")
    before = views.groups(plan)
    connection.execute("DELETE FROM people")
    assert views.groups(plan) == before
    views.forget()
    assert views.groups(plan)[0].units == 0
    assert views.ranking_key not in repr(views).encode()


BAD_TABLES: list[dict[str, Any]] = [
    {"unit": "nobody"},
    {"unit": "x"},
    {"bounds": {"x": (1, 0)}},
    {"bounds": {"x": (0, float("nan"))}},
    {"bounds": {"x": (0, float("inf"))}},
    {"bounds": {"x": (1,)}},
    {"bounds": {"y": (0, 1)}},
    {"bounds": {"x": (True, 2)}},
    {"keys": {"k": []}},
    {"keys": {"k": ["a", "a"]}},
    {"keys": {"k": [1]}},
    {"keys": {"k": ["\0"]}},
    {"keys": {"who": [1.5]}, "bounds": {"who": (0, 9)}},
    {"keys": {"x": [float("nan")]}},
    {"required": {"k"}},
    {"window": "month"},
    {"time": "d"},
    {"time": "k", "window": "month"},
    {"time": "d", "window": "decade"},
    {"columns": {}},
    {"columns": {"who": "BIGINT", "WHO": "BIGINT"}},
]


@pytest.mark.parametrize("changes", BAD_TABLES, ids=map(str, BAD_TABLES))
def test_tables_that_are_refused(changes: dict[str, Any]) -> None:
    columns = {"who": "BIGINT", "x": "DOUBLE", "k": "VARCHAR", "d": "DATE"}
    with pytest.raises(InvalidArgument, match=r"^[a-z_]+=.*: expected .*\."):
        PrivateTable(**{"columns": columns, "unit": "who", **changes})


def test_names_and_limits_that_are_refused() -> None:
    table = PrivateTable(columns={"who": "BIGINT"}, unit="who")
    for names in ({"a": table, "A": table}, {"hush_kept": table}, {"": table}, {"t": None}):
        with pytest.raises(InvalidArgument):
            Catalog(names)  # type: ignore[arg-type]
    for limits in (
        {"groups_per_unit": 0},
        {"rows_per_unit": 0},
        {"groups_per_unit": 1.5},
        {"rows_per_unit": 10**7},
        {"rows_per_unit": True},
    ):
        with pytest.raises(InvalidArgument):
            ContributionLimits(**limits)  # type: ignore[arg-type]


def test_names_of_columns_that_plans_use_themselves(ranking_key: bytes) -> None:
    """Columns called like those of the plan, or like nothing on earth, are not mistaken for others."""
    connection = duckdb.connect()
    connection.execute(
        'CREATE TABLE raw(u0 BIGINT, c0 VARCHAR, k0 DOUBLE, a0 DATE, "select ""x"" " VARCHAR, r1 DOUBLE, "é" DOUBLE)'
    )
    day = datetime.date(2024, 1, 1)
    connection.executemany(
        "INSERT INTO raw VALUES (?, ?, ?, ?, ?, ?, ?)", [[i, "c", i, day, "s", 1, 2] for i in range(5)]
    )
    engine = DuckDBEngine(connection=connection)
    tables = Catalog(
        {"raw": PrivateTable(columns=engine.columns("raw"), unit="u0", bounds={"k0": (0, 10), "é": (0, 2)})}
    )
    text = (
        'SELECT c0, a0, "select ""x"" " AS g, SUM(k0), SUM("É") FROM raw AS r1 '
        "WHERE u0 < 4 AND r1.r1 = 1 GROUP BY c0, a0, g"
    )
    plan = plan_query(text, tables=tables)
    rows = plan.answer((g.keys, g.sums) for g in exact_groups(plan, engine, ranking_key=ranking_key))
    assert rows == [("c", day, "s", pytest.approx(6), pytest.approx(8))]
