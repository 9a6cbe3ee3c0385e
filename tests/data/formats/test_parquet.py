"""Parquet files: the footer, and texts that are not UTF-8."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from hush.data.formats.parquet import ParquetFile
from hush.data.tables.table import connect
from hush.errors import InvalidArgument

pyarrow = pytest.importorskip("pyarrow")
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
