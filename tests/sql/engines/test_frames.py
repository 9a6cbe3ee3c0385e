"""In data frames and Arrow tables, texts that are not UTF-8 and moments that DuckDB cannot convert are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush.errors import InvalidArgument, Unsupported
from hush.sql import table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.frames import with_valid_moments, with_valid_texts
from hush.sql.engines.views import exact_groups
from hush.sql.read.query import plan_query
from hush.statistics import ContributionLimits

connect = pytest.importorskip("duckdb").connect
pandas = pytest.importorskip("pandas")
arrow = pytest.importorskip("pyarrow")


def arrow_column(kind: str) -> Any:
    """Return a, two bytes that are not UTF-8, an accent and a missing text."""
    large = kind == "large"
    binary = arrow.array(
        [b"a", b"\xff\xfe", "\u00e9".encode(), None], arrow.large_binary() if large else arrow.binary()
    )
    text = arrow.Array.from_buffers(arrow.large_string() if large else arrow.string(), 4, binary.buffers())
    return arrow.DictionaryArray.from_arrays([0, 1, 2, None], text[:3], safe=False) if kind == "dictionary" else text


@pytest.mark.parametrize("kind", ["small", "large", "dictionary", "batch"])
def test_arrow_tables(kind: str) -> None:
    columns = {"who": [1, 2, 3, 4], "note": arrow_column(kind)}
    data = arrow.RecordBatch.from_pydict(columns) if kind == "batch" else arrow.table(columns)
    engine = DuckDBEngine({"t": data})
    assert engine.run("SELECT note FROM t ORDER BY who") == [("a",), (None,), ("\u00e9",), (None,)]


def test_pandas_frames() -> None:
    notes = pandas.Series(["a", "x\ud800", "\u00e9", None, 7], dtype=object, index=[5, 5, 6, 7, 8])
    frame = pandas.DataFrame({"who": [1, 2, 3, 4, 5], "note": notes.to_numpy()}, index=notes.index)
    engine = DuckDBEngine({"t": frame})
    assert engine.run("SELECT note FROM t ORDER BY who") == [("a",), (None,), ("\u00e9",), (None,), ("7",)]
    assert frame["note"].tolist()[1] == "x\ud800"  # your frame stays as it is


@pytest.mark.parametrize("kind", ["small", "large", "view", "str", "category"])
def test_pandas_columns_that_arrow_holds(kind: str) -> None:
    """`pandas.read_parquet` returns such columns, and decodes none of their texts."""
    texts = arrow_column("large" if kind in ("large", "str") else "small")
    if kind == "view":
        binary = arrow.array([b"a", b"\xff\xfe", "\u00e9".encode(), None], arrow.binary_view())
        texts = binary.view(arrow.string_view())
    if kind == "str":
        column: Any = arrow.chunked_array([texts]).to_pandas(
            types_mapper={texts.type: pandas.StringDtype("pyarrow")}.get
        )
    else:
        column = pandas.Series(pandas.arrays.ArrowExtensionArray(arrow.chunked_array([texts])))
    if kind == "category":
        index = pandas.Index(["a", "x\ud800", "\u00e9"], dtype=object)
        column = pandas.Series(pandas.Categorical.from_codes([0, 1, 2, -1], index))
    frame = pandas.DataFrame({"who": [1, 2, 3, 4], "note": column})
    expected = [("a",), (None,), ("\u00e9",), (None,)]
    assert DuckDBEngine({"t": frame}).run("SELECT LOWER(note) FROM t ORDER BY who") == expected


def test_data_with_valid_texts_are_not_copied() -> None:
    frame = pandas.DataFrame({"note": pandas.Series(["a", "\u00e9"], dtype=object)})
    table = arrow.table({"note": ["a", "\u00e9"]})
    assert with_valid_texts(frame) is frame
    assert with_valid_texts(table) is table
    assert with_valid_texts("people.csv") == "people.csv"


@pytest.mark.parametrize("odd", [5, b"\xff", {"a": 1}, [1], True, "", "\ud800", object()])
def test_one_object_decides_nothing_for_others_on_your_connection(odd: Any) -> None:
    """DuckDB would guess the type of the column: with one text among the integers, or one list, it is another one."""
    notes: list[Any] = [7] * 50
    plain = DuckDBEngine({"t": pandas.DataFrame({"note": pandas.Series(notes, dtype=object)})}, connection=connect())
    notes[3] = odd
    changed = DuckDBEngine({"t": pandas.DataFrame({"note": pandas.Series(notes, dtype=object)})}, connection=connect())
    assert plain.columns("t") == changed.columns("t") == {"note": "VARCHAR"}
    assert changed.run("SELECT COUNT(*) FROM t WHERE note = '7'") == [(49,)]


def test_missing_objects_stay_missing_on_your_connection() -> None:
    notes = pandas.Series([None, float("nan"), pandas.NA, pandas.NaT, "x"], dtype=object)
    engine = DuckDBEngine({"t": pandas.DataFrame({"note": notes})}, connection=connect())
    assert engine.run("SELECT note FROM t") == [(None,), (None,), (None,), (None,), ("x",)]


def test_a_frame_that_was_registered_elsewhere_is_refused(tmp_path: Path) -> None:
    """Types are guessed whenever it is read, and texts in it that are not UTF-8 would end each query."""
    connection, path = connect(), tmp_path / "t.csv"
    path.write_text("who\n1\n")
    connection.register("frame", pandas.DataFrame({"who": pandas.Series([1, "x"], dtype=object)}))
    connection.execute("CREATE VIEW behind AS SELECT who FROM frame WHERE who IS NOT NULL")
    connection.execute(f"CREATE VIEW file AS SELECT * FROM read_csv('{path}')")
    connection.execute("CREATE TABLE copied AS SELECT * FROM file")
    connection.register("arrow", arrow.table({"who": [1, 2, 3, 4], "note": arrow_column("small")}))
    connection.execute(f"COPY (SELECT 1 AS who) TO '{tmp_path / 't.parquet'}'")
    connection.execute(f"CREATE VIEW parquet AS SELECT * FROM '{tmp_path / 't.parquet'}'")
    for name in ("frame", "behind", "file", "arrow", "parquet"):
        with pytest.raises(Unsupported, match=f"{name} reads a .* whose values are not checked"):
            table(connection, name=name, unit="who")
    assert table(connection, name="copied", unit="who").catalog.tables["copied"].columns == {"who": "BIGINT"}


INSTANTS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def zoned(library: str, unit: str, last: int) -> Any:
    """Return a table of three moments in 2023, and a last one."""
    numbers = [1_700_000_000 * INSTANTS[unit]] * 3 + [last]
    moments = arrow.array(numbers, arrow.int64()).view(arrow.timestamp(unit, "UTC"))
    if library == "pyarrow":
        return arrow.table({"who": range(4), "at": moments})
    if library == "polars":
        polars = pytest.importorskip("polars")
        at = polars.Series(numbers).cast(polars.Datetime(unit, "UTC"))
        return polars.DataFrame({"who": range(4), "at": at})
    extension = pandas.arrays.ArrowExtensionArray(arrow.chunked_array([moments]))
    plain = pandas.Series(numbers).astype(f"datetime64[{unit}]").dt.tz_localize("UTC")
    return pandas.DataFrame({"who": range(4), "at": extension if library == "pandas with Arrow" else plain})


@pytest.mark.parametrize("last", [10**17, 2**63 - 1, -(2**63) + 1])
@pytest.mark.parametrize("unit", INSTANTS)
@pytest.mark.parametrize("library", ["pyarrow", "pandas", "pandas with Arrow", "polars"])
@pytest.mark.quick_cases(13)
def test_a_moment_that_microseconds_cannot_hold_ends_no_query(library: str, unit: str, last: int) -> None:
    if (library, unit) == ("polars", "s"):
        pytest.skip("Polars has no seconds")
    data = zoned(library, unit, last)
    moments = table(data, name="t", unit="who", rows_per_unit=1)
    text = "SELECT COUNT(*) AS n FROM t WHERE YEAR(at AT TIME ZONE 'Europe/Berlin') = 2023"
    plan = plan_query(text, tables=moments.catalog, limits=ContributionLimits())
    (group,) = exact_groups(plan, DuckDBEngine({"t": data}), ranking_key=bytes(16))
    assert list(group.sums.values()) == [3]


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "pandas with Arrow"])
def test_data_with_valid_moments_keep_them(library: str) -> None:
    data = zoned(library, "ms", 0)
    columns = [frame["at"] for frame in (data, with_valid_moments(data))]
    before, after = [column.type if library == "pyarrow" else column.dtype for column in columns]
    assert before == after
    rows = DuckDBEngine({"t": data}).run('SELECT EPOCH_MS("at") FROM t ORDER BY who')
    assert rows == [(1_700_000_000_000,)] * 3 + [(0,)]


@pytest.mark.parametrize("data", ["reader", "array", "dictionary"])
def test_data_of_other_types_are_refused(data: str) -> None:
    numpy = pytest.importorskip("numpy")
    others = {
        "reader": lambda: arrow.table({"who": [1]}).to_reader(),  # a second query would find it empty
        "array": lambda: numpy.array([[1, "x"]], dtype=object),
        "dictionary": lambda: {"who": numpy.arange(3)},
    }
    with pytest.raises(InvalidArgument, match="a pandas or Polars data frame"):
        DuckDBEngine({"t": others[data]()})
