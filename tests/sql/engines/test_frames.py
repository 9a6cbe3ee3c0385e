"""Texts of data frames and Arrow tables that are not UTF-8 are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hush.errors import Unsupported
from hush.sql import table
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.frames import with_valid_texts

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
    """Its types are guessed whenever it is read, and texts in it that are not UTF-8 would end each query."""
    connection, path = connect(), tmp_path / "t.csv"
    path.write_text("who\n1\n")
    connection.register("frame", pandas.DataFrame({"who": pandas.Series([1, "x"], dtype=object)}))
    connection.execute("CREATE VIEW behind AS SELECT who FROM frame WHERE who IS NOT NULL")
    connection.execute(f"CREATE VIEW file AS SELECT * FROM read_csv('{path}')")
    connection.execute("CREATE TABLE copied AS SELECT * FROM file")
    for name in ("frame", "behind", "file"):
        with pytest.raises(Unsupported, match=f"{name} reads a .* whose types are guessed"):
            table(connection, name=name, unit="who")
    assert table(connection, name="copied", unit="who").catalog.tables["copied"].columns == {"who": "BIGINT"}
