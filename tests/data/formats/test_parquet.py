"""Parquet files: the footer, texts that are not UTF-8, and timestamps in milliseconds."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from hush.data.formats import parquet
from hush.data.formats.parquet import ParquetFile
from hush.data.tables.catalog import kind_of
from hush.data.tables.table import connect
from hush.errors import InvalidArgument

pyarrow = pytest.importorskip("pyarrow")
MOST = 9_223_372_036_854_775  # milliseconds: 1000 times as many are the most microseconds in 64 bits
TEXTS = [b"a", b"\xff\xfe", b"?", b"x?", b"x\xe9", None, "\u00e9".encode(), b""]


def write_not_text(path: Path) -> Path:
    import pyarrow.parquet

    binary = pyarrow.array(TEXTS, pyarrow.binary())
    text = pyarrow.Array.from_buffers(pyarrow.string(), len(TEXTS), binary.buffers())
    nested = pyarrow.ListArray.from_arrays(list(range(len(TEXTS) + 1)), text)
    pyarrow.parquet.write_table(pyarrow.table({"id": range(len(TEXTS)), "it's": text, "list": nested}), path)
    return path


def test_texts_that_are_not_utf_8_are_missing(tmp_path: Path) -> None:
    file = ParquetFile(write_not_text(tmp_path / "t.parquet"))
    assert (file.columns, file.types) == (["id", "it's", "list"], ["BIGINT", "VARCHAR", "VARCHAR[]"])
    connection = connect()
    with pytest.raises(duckdb.InvalidInputException):
        connection.execute(file.query()).fetchall()
    query = file.tolerant_query(connection, "places", "number")
    rows = connection.execute(f'SELECT id, "it\'s", number FROM ({query}) ORDER BY id').fetchall()
    expected = ["a", None, "?", "x?", None, None, "\u00e9", ""]
    assert rows == [(index, text, index) for index, text in enumerate(expected)]
    assert len(connection.execute(f"SELECT list FROM ({query})").fetchall()) == len(TEXTS)


def test_a_file_without_text_and_row_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    duckdb.sql(f"COPY (SELECT i AS x FROM range(5) t(i)) TO '{path}'")
    file, connection = ParquetFile(path), connect()
    assert connection.execute(file.query("n")).fetchall() == [(i, i) for i in range(5)]
    assert connection.execute(file.tolerant_query(connection, "places")).fetchall() == [(i,) for i in range(5)]


def test_paths_that_duckdb_would_expand_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Rename the file"):
        ParquetFile(tmp_path / "many*.parquet")


def write_milliseconds(path: Path) -> Path:
    """Write timestamps in milliseconds, with and without a time zone, of which some are beyond microseconds."""
    import pyarrow.parquet

    numbers = pyarrow.array([0, None, 10**17, -(2**63), 1_700_000_000_123, -MOST, MOST, MOST + 1], pyarrow.int64())
    nested = pyarrow.ListArray.from_arrays(list(range(9)), numbers.view(pyarrow.timestamp("ms")))
    plain, zoned = (numbers.view(pyarrow.timestamp("ms", zone)) for zone in (None, "UTC"))
    columns = {"id": range(8), "nested": nested, "it's": plain, "a.b": zoned, "note": ["x"] * 8}
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def test_milliseconds_that_microseconds_cannot_hold_are_missing(tmp_path: Path) -> None:
    file, connection = ParquetFile(write_milliseconds(tmp_path / "t.parquet")), connect()
    assert file.types == ["BIGINT", "TIMESTAMP[]", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR"]
    with pytest.raises(duckdb.ConversionException):
        connection.execute(file.query()).fetchall()
    query = file.tolerant_query(connection, "places", "number")
    connection.execute("SET TimeZone = 'America/New_York'")
    text = f"""SELECT number, id, nested, EPOCH_MS("it's"), EPOCH_MS("a.b"), note FROM ({query}) ORDER BY id"""
    expected = [0, None, None, None, 1_700_000_000_123, -MOST, MOST, None]
    assert connection.execute(text).fetchall() == [
        (index, index, None, moment, moment, "x") for index, moment in enumerate(expected)
    ]
    described = connection.execute(f"DESCRIBE {query}").fetchall()
    assert [row[1] for row in described[2:]] == ["TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "VARCHAR", "BIGINT"]


def test_without_pyarrow_milliseconds_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_milliseconds(tmp_path / "t.parquet")
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    file = ParquetFile(path)
    assert [str(kind_of(declared)) for declared in file.types] == ["integer", "other", "other", "other", "text"]
    rows = connect().execute(file.query()).fetchall()
    assert rows == [(index, None, None, None, "x") for index in range(8)]
