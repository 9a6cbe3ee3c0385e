"""DuckDB as the engine: the data it reads, the files it may touch, and errors without data."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.data import TableData, open_data
from hush.data.tables.catalog import Catalog, PrivateTable, kind_of
from hush.data.tables.quoting import quote_name, quote_text
from hush.errors import HushError, InvalidArgument
from hush.sql import EngineFailed, table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.views import BoundedViews, exact_groups
from hush.sql.read.query import plan_query
from hush.sql.write.plan import QueryPlan
from hush.statistics import ContributionLimits

ROWS = {"who": ["a", "a", "b", "c", None], "x": [1.0, 2.0, 3.0, float("nan"), 5.0], "k": ["p", "q", "p", None, "p"]}


def totals(engine: DuckDBEngine, key: bytes) -> dict[Any, int]:
    """Return the number of rows and the sum of x in a table t, by k, with limits that drop nothing."""
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


def test_a_csv_file_is_text(tmp_path: Path, ranking_key: bytes) -> None:
    path = tmp_path / "t.csv"
    path.write_text('who,x,k\r\na,1,p\r\na,2,"q"\r\nb,3,p\r\nc,abc,\r\n,5,p\r\n')
    engine = DuckDBEngine({"t": path})
    assert set(engine.columns("t").values()) == {"VARCHAR"}
    assert totals(engine, ranking_key) == EXPECTED


@pytest.mark.parametrize(
    "line", [b"z,\xff,p", b"z,1," + b"x" * 3_000_000, b'z,"\n1\r",p', b"z\x00,\x01\x02\x03,p", b'5"', b",,,,,,"]
)
def test_a_line_of_a_csv_file_affects_no_other(line: bytes, tmp_path: Path, ranking_key: bytes) -> None:
    """Whatever one record holds, the file can be read, and the other records are unchanged."""
    path = tmp_path / "t.csv"
    path.write_bytes(b"who,x,k\na,1,p\na,2,q\n" + line + b"\nb,3,p\nc,abc,\n,5,p\n")
    by_key = totals(DuckDBEngine({"t": path}), ranking_key)
    assert by_key["q"] == EXPECTED["q"]
    assert by_key["p"][0] in (2, 3)


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


def test_tables_of_your_connection_do_not_change(
    connection: Any, engine: DuckDBEngine, planned: Callable[..., QueryPlan], ranking_key: bytes
) -> None:
    before = connection.execute("SELECT COUNT(*), SUM(hash(p)) FROM people AS p").fetchall()
    names = connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
    views = BoundedViews(engine, ranking_key)
    views.groups(planned("SELECT note, COUNT(*) FROM people GROUP BY note"))
    views.forget()
    assert connection.execute("SELECT COUNT(*), SUM(hash(p)) FROM people AS p").fetchall() == before
    assert connection.execute("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall() == names


def test_a_new_connection_reads_no_other_file(tmp_path: Path) -> None:
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
def test_data_that_are_refused(name: str, tmp_path: Path) -> None:
    if "xlsx" in name:
        (tmp_path / name).write_text("x")
    with pytest.raises(InvalidArgument, match="^data="):
        DuckDBEngine({"t": tmp_path / name})


@pytest.mark.parametrize("header", ["", ",,\n", "1.5,2,7\n"])
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


def test_columns_named_like_those_of_a_plan(ranking_key: bytes) -> None:
    """Columns with the names that plans use, or with odd names, are not mistaken for others."""
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


NOT_TEXT = [b"a", b"\xff\xfe", b"?", b"??", None, "\u00e9".encode(), b"x\xe9"]


@pytest.fixture
def not_text(tmp_path: Path) -> Path:
    """Write a Parquet file with a column of text, of which some values are not UTF-8."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    binary = pyarrow.array(NOT_TEXT, pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), len(NOT_TEXT), binary.buffers())
    path = tmp_path / "t.parquet"
    parquet.write_table(pyarrow.table({"who": range(len(NOT_TEXT)), "note": text, "note 2": text}), path)
    return path


EXPECTED_TEXTS = ["a", None, "?", "??", None, "\u00e9", None]


def test_text_in_parquet_that_is_not_utf_8_is_missing(not_text: Path) -> None:
    engine = DuckDBEngine({"t": not_text})
    assert engine.columns("t") == {"who": "BIGINT", "note": "VARCHAR", "note 2": "VARCHAR"}
    assert [row[0] for row in engine.run("SELECT note FROM t ORDER BY who")] == EXPECTED_TEXTS
    engine.forget()
    engine.materialise("x", 'SELECT who, "note 2" AS n FROM t')
    assert [row[0] for row in engine.run("SELECT n FROM x ORDER BY who")] == EXPECTED_TEXTS
    engine.forget()
    assert engine.row_id("t") == ("hush_row", "BIGINT")
    assert engine.run("SELECT COUNT(DISTINCT hush_row), COUNT(note), COUNT(*) FROM t") == [(7, 4, 7)]
    data = open_data(not_text)
    assert isinstance(data, TableData)
    assert data.table.texts("note").tolist() == [text or "" for text in EXPECTED_TEXTS]


def test_a_frame_is_known_by_its_type_and_not_by_its_values() -> None:
    """The text of this frame ends like the name of a CSV file."""
    pandas = pytest.importorskip("pandas")
    for last in ("x", "people.csv"):
        frame = pandas.DataFrame({"who": ["a", last]})
        engine = DuckDBEngine({"t": frame})
        assert engine.assumptions == ()
        assert engine.run("SELECT COUNT(*) FROM t") == [(2,)]


def test_columns_with_a_collation_are_not_used() -> None:
    """The engine takes Ann and ann for one person, or for two, depending on how it is asked."""
    connection = duckdb.connect()
    connection.execute('CREATE TABLE t (who VARCHAR COLLATE nocase, "a ""b" VARCHAR COLLATE nocase, c VARCHAR)')
    kinds = [kind_of(declared).value for declared in DuckDBEngine(connection=connection).columns("t").values()]
    assert kinds == ["other", "other", "text"]
    with pytest.raises(InvalidArgument, match="^unit="):
        table(connection, name="t", unit="who")


def test_names_and_text_are_quoted() -> None:
    name, text = 'a "b" c', "it's"
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE {quote_name(name)} AS SELECT {quote_text(text)} AS x")
    assert connection.execute('SELECT x FROM "a ""b"" c"').fetchall() == [(text,)]
