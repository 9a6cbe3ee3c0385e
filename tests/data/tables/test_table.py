"""Rows in memory: numbers, texts, codes and hashes, each row on its own."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.files import KEY
from hush import data
from hush.data.tables.table import (
    DATE,
    NUMBER,
    OTHER,
    TEXT,
    UNTYPED,
    RowTable,
    TableData,
    connect,
    kind_of,
    redact_errors,
)
from hush.errors import InvalidArgument


def table(tmp_path: Path, *lines: str) -> RowTable:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["a,b", *lines]) + "\n")
    source: Any = data.open_data(path)
    return source.table


def test_numbers_of_untyped_text(tmp_path: Path) -> None:
    rows = table(tmp_path, "1.5,x", "true,-2e3", "inf,NaN", "0x10,", "1e400,7")
    first, second = rows.floats(["a", "b"])
    assert first[[0, 1, 2]].tolist() == [1.5, 1.0, math.inf]
    assert second[[1, 4]].tolist() == [-2000.0, 7.0]
    assert np.isnan(second[[0, 3]]).all()
    assert rows.floats([]) == []


def test_text_is_trimmed_and_missing_is_empty(tmp_path: Path) -> None:
    rows = table(tmp_path, " cook ,1", ",2", '"a ""b""",3')
    assert rows.texts("a").tolist() == ["cook", "", 'a "b"']
    assert rows.codes("a", ["b", "cook"]).tolist() == [1, -1, -1]
    assert rows.counts("a", np.array([True, True, False])) == {"cook": 1}


def test_a_column_holds_text_if_more_than_half_of_all_rows_do(tmp_path: Path) -> None:
    assert table(tmp_path, "x,x", "z,", "1,").text_columns(["a", "b"]) == ["a"]
    assert table(tmp_path, "x,na", "1,null").text_columns(["a", "b"]) == []
    assert table(tmp_path, "x,1").text_columns([]) == []


def test_words_are_letters_and_digits_in_lower_case(tmp_path: Path) -> None:
    rows = table(tmp_path, "Good good-DAY,1", "bad_day,2", ",3")
    assert rows.words("a", ["good", "day", "bad"]).tolist() == [[2, 1, 0], [0, 1, 1], [0, 0, 0]]


def test_hashes_depend_on_the_key_and_the_text_only(tmp_path: Path) -> None:
    rows = table(tmp_path, "u,1", "v,2", " u,3", ",4")
    names, coins, picks = rows.hashes("a", KEY)
    assert names[0] == names[2] != names[1]
    assert (names[3], coins[3], picks[3]) == (-1, -1, -1)
    assert len({int(names[0]), int(coins[0]), int(picks[0])}) == 3  # independent parts of one hash
    assert all(0 <= number < 1 << 60 for number in (*names[:3], *coins[:3], *picks[:3]))
    assert rows.hashes("a", bytes(32))[0][0] != names[0]
    # SHA-256 of the key in hexadecimal and the text: the first 15 hexadecimal digits.
    assert names[0] == int(hashlib.sha256((KEY.hex() + "u").encode()).hexdigest()[:15], 16)


@pytest.mark.parametrize(
    ("declared", "kind"),
    [
        ("BIGINT", NUMBER),
        ("decimal(18,2)", NUMBER),
        ("BOOLEAN", NUMBER),
        ("TIMESTAMP WITH TIME ZONE", DATE),
        ("VARCHAR", TEXT),
        ("ENUM('a', 'b')", TEXT),
        ("INTEGER[]", OTHER),
        ("STRUCT(a INTEGER)", OTHER),
        ("BLOB", OTHER),
        (UNTYPED, UNTYPED),
    ],
)
def test_kinds_of_types(declared: str, kind: str) -> None:
    assert kind_of(declared) == kind


def test_errors_of_duckdb_are_replaced_and_others_pass() -> None:
    connection = connect()
    with pytest.raises(InvalidArgument, match="^data='people.csv'") as caught, redact_errors("people.csv"):
        connection.execute("SELECT CAST('Rosebud7' AS INTEGER)").fetchall()
    assert "Rosebud7" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__
    with pytest.raises(ZeroDivisionError), redact_errors():
        _ = 1 / 0


def test_rows_are_read_when_needed_and_once() -> None:
    filled = []

    def fill(connection: Any, table: str) -> None:
        filled.append(1)
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT 3.0::DOUBLE AS c0, DATE '1970-01-03' AS c1")

    source = TableData("test", ["x", "day"], ["DOUBLE", "DATE"], fill, ("of the file",))
    assert (source.columns, source.kind("day"), source.is_image, filled) == (["x", "day"], DATE, False, [])
    assert source.table is source.table
    assert filled == [1]
    assert source.table.texts("x").tolist() == ["3"]  # so that 3.0 is the class 3
    assert source.table.floats(["day"])[0].tolist() == [2.0]  # days since 1970
    assert source.assumptions[-1] == "of the file"
    with pytest.raises(InvalidArgument, match="^target='z': expected one of the columns x, day"):
        source.check_column("target", "z")


def test_a_table_without_rows_is_refused() -> None:
    def fill(connection: Any, table: str) -> None:
        connection.execute(f"CREATE TEMP TABLE {table}(c0 DOUBLE)")

    with pytest.raises(InvalidArgument, match="at least one row"):
        _ = TableData("test", ["x"], ["DOUBLE"], fill).table


def test_letters_are_no_truth_values() -> None:
    """DuckDB casts F to false and M to nothing: the women of a table would be zeros, and the men missing."""

    def fill(connection: Any, table: str) -> None:
        values = ", ".join(f"('{text}')" for text in ("F", "M", "t", "y", "n", "true", " FALSE ", "1"))
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT * FROM (VALUES {values}) AS v(c0)")

    table = TableData("test", ["sex"], [UNTYPED], fill).table
    np.testing.assert_array_equal(table.floats(["sex"])[0], [*[np.nan] * 5, 1, 0, 1])
    assert table.text_columns(["sex"]) == ["sex"]


@pytest.mark.parametrize("last", [2**63 - 1, -(2**63), -9_223_372_036_854_775_000, 10**18])
@pytest.mark.parametrize(("unit", "zone"), [("ms", None), ("ms", "UTC"), ("us", None), ("us", "UTC"), ("ns", "UTC")])
@pytest.mark.quick_cases(7)
def test_one_date_stops_the_reading_of_no_other(unit: str, zone: str | None, last: int, tmp_path: Path) -> None:
    """DuckDB cannot convert some of these, and cannot write others as text."""
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    day = 86_400 * {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    moments = arrow.array([day, None, 2 * day, last], arrow.int64()).view(arrow.timestamp(unit, zone))
    nested = arrow.ListArray.from_arrays([0, 1, 2, 3, 4], moments)
    parquet.write_table(arrow.table({"at": moments, "nested": nested, "y": list("abab")}), tmp_path / "t.parquet")
    source: Any = data.open_data(tmp_path / "t.parquet")
    rows: RowTable = source.table
    assert rows.floats(["at"])[0][[0, 2]].tolist() == [1.0, 2.0]
    assert [text[:10] for text in rows.texts("at")[:3]] == ["1970-01-02", "", "1970-01-03"]
    assert rows.text_columns(["at"]) == []
    assert len(rows.hashes("at", KEY)[0]) == 4
