"""Parts of a table: conditions that each row meets or not, and units that are in one part only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from hush.data.tables.catalog import PrivateTable
from hush.errors import HushError, InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow
from hush.randomness import TestSource
from hush.sql import JoinedTable, table
from hush.sql.answer.table_parts import parts_condition

COLUMNS = {"who": "BIGINT", "region": "VARCHAR", "day": "DATE", "at": "TIMESTAMP", "x": "DOUBLE"}


def visits(**changes: Any) -> PrivateTable:
    return PrivateTable(columns=COLUMNS, unit="who", **changes)


def rows_in(condition: str) -> list[int]:
    """Return which of five days meet a condition, on DuckDB."""
    days = "('2025-12-31'), ('2026-01-01'), ('2026-01-31'), ('2026-02-01'), ('2026-12-31')"
    query = f"SELECT i FROM (SELECT row_number() OVER () AS i, CAST(d AS DATE) AS day FROM (VALUES {days}) t(d))"
    return [row[0] for row in duckdb.connect().execute(f"{query} WHERE {condition} ORDER BY i").fetchall()]


@pytest.mark.parametrize(
    ("part", "expected"), [("2026", [2, 3, 4, 5]), ("2026-01", [2, 3]), ("2026-12", [5]), ("2026-01-31", [3])]
)
def test_a_period_has_the_rows_of_its_days(part: str, expected: list[int]) -> None:
    assert rows_in(parts_condition("day", [part], visits(time="day", window="day"))) == expected


def test_several_parts_are_joined_by_or() -> None:
    condition = parts_condition("day", ["2025", "2026-02"], visits(time="day", window="day"))
    assert rows_in(condition) == [1, 4]


def rows_as_units() -> PrivateTable:
    return PrivateTable(columns=COLUMNS, unit="row", row_id=("rowid", "BIGINT"))


def test_parts_by_text_quote_their_values() -> None:
    assert parts_condition("region", ["it's", "b"], rows_as_units()) == "\"region\" IN ('it''s', 'b')"


@pytest.mark.parametrize(
    ("part", "window"),
    [("2026", "week"), ("2026-01", "week"), ("2026-01", "quarter"), ("2026-01-31", "month"), ("2026-01", "year")],
)
def test_a_window_that_crosses_parts_is_refused(part: str, window: str) -> None:
    with pytest.raises(Unsupported, match="a unit could be in several of them"):
        parts_condition("day", [part], visits(time="day", window=window))


@pytest.mark.parametrize("column", ["day", "at"])
def test_dates_without_a_window_are_refused(column: str) -> None:
    with pytest.raises(Unsupported, match="several of them"):
        parts_condition(column, ["2026"], visits())


@pytest.mark.parametrize("table", [visits(), visits(time="day", window="month")])
def test_texts_that_a_unit_can_have_several_of_are_refused(table: PrivateTable) -> None:
    with pytest.raises(Unsupported, match="parts by region: a unit could be in several of them"):
        parts_condition("region", ["north"], table)


def test_a_row_is_in_one_period() -> None:
    assert rows_in(parts_condition("day", ["2025", "2026-02"], rows_as_units())) == [1, 4]


@pytest.mark.parametrize(
    "part", ["26", "2026-13", "2026-02-30", "2026-1", "north", "9999", "9999-12", "9999-12-31", "２０２６-01"]
)
def test_periods_that_do_not_exist_are_refused(part: str) -> None:
    with pytest.raises(InvalidArgument, match="^parts="):
        parts_condition("day", [part], visits(time="day", window="hour"))


@pytest.mark.parametrize(
    ("column", "parts"), [("nothing", ["a"]), ("region", []), ("region", "north"), ("x", ["1"]), ("who", ["1"])]
)
def test_columns_and_parts_that_are_refused(column: str, parts: Any) -> None:
    with pytest.raises(HushError):
        parts_condition(column, parts, rows_as_units())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "people.parquet"
    duckdb.sql(
        "COPY (SELECT i AS who, CAST('2024-01-01' AS DATE) + CAST(40 * (i % 2) AS INTEGER) AS day "
        f"FROM range(2000) t(i)) TO '{file}'"
    )
    return file


def test_other_parts_are_not_read(path: Path) -> None:
    january = table(path, unit=UserWindow("who", time="day", window=CalendarWindow.MONTH)).only("day", ["2024-01"])
    answer = january.sql("SELECT COUNT(*) AS n FROM people", epsilon=100.0, source=TestSource(1))
    assert answer.rows[0][0] == pytest.approx(1000, abs=2)


def test_parts_of_one_table_do_not_open_another(path: Path, tmp_path: Path) -> None:
    """A unit may be in all parts of the other table. Answers about two parts would then add up."""
    other = tmp_path / "v.parquet"
    duckdb.sql(f"COPY (SELECT i AS u FROM range(10) t(i)) TO '{other}'")
    unit = UserWindow("who", time="day", window=CalendarWindow.MONTH)
    table(path, unit=unit).only("day", ["2024-01"])
    with pytest.raises(Unsupported, match="further private tables"):
        table(path, unit=unit, private={"visits": JoinedTable(other, unit="u")}).only("day", ["2024-01"])
