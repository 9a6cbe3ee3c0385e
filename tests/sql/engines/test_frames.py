"""Texts of data frames and Arrow tables that are not UTF-8 are missing."""

from __future__ import annotations

from typing import Any

import pytest

from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.engines.frames import with_valid_texts

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
