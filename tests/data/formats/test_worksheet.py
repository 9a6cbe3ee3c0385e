"""Excel workbooks: the first worksheet, all cells as text."""

from __future__ import annotations

import sys
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import pytest

from hush import data
from hush.data.formats.worksheet import Worksheet, cell_text
from hush.errors import InvalidArgument, Unsupported

openpyxl = pytest.importorskip("openpyxl")


def write(path: Path, rows: list[list[Any]]) -> Path:
    workbook = openpyxl.Workbook()
    for row in rows:
        workbook.active.append(row)
    workbook.create_sheet("other").append(["not", "read"])
    workbook.save(path)
    return path


def test_cells_are_text(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["who", "income\n(EUR)", None, "day"],
        [1, 2.5, True, datetime(2026, 11, 16)],
        [2.0, 1e20, False, datetime(2026, 11, 16, 12, 30)],
        [None, None, None, None],
        ["x\n,\"'", "=1+1", "#DIV/0!", time(1, 2)],
        [3],
    ]
    sheet = Worksheet(write(tmp_path / "t.xlsx", rows))
    assert sheet.columns == ["who", "income (EUR)", "column3", "day"]
    (records,) = sheet.batches()
    assert [list(record) for record in records] == [
        ["1", "2.5", "true", "2026-11-16"],
        ["2", "1e+20", "false", "2026-11-16 12:30:00"],
        ["x\n,\"'", None, None, "01:02:00"],
        ["3", None, None, None],
    ]


def test_a_number_that_is_no_date_is_missing(tmp_path: Path) -> None:
    """openpyxl warns about such a cell by its place, which tells that it is there."""
    workbook = openpyxl.Workbook()
    workbook.active.append(["day", "x"])
    workbook.active.append([1e10, 1])
    workbook.active["A2"].number_format = "yyyy-mm-dd"
    workbook.active.append(["2020-01-01", 2])
    workbook.save(tmp_path / "t.xlsx")
    ((first, second),) = Worksheet(tmp_path / "t.xlsx").batches()
    assert (list(first), list(second)) == ([None, "1"], ["2020-01-01", "2"])


def test_a_workbook_is_a_table(tmp_path: Path) -> None:
    source = data.open_data(write(tmp_path / "t.xlsx", [["a", "y"], [1, "no"], [2, "yes"]]), target="y")
    assert source.columns == ["a", "y"]
    assert isinstance(source, data.TableData)
    assert source.table.floats(["a"])[0].tolist() == [1, 2]


def test_what_is_no_workbook_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK garbage")
    with pytest.raises(InvalidArgument, match="Save it as CSV UTF-8"):
        Worksheet(tmp_path / "t.xlsx")
    (tmp_path / "t.xls").write_bytes(b"old")
    with pytest.raises(InvalidArgument, match="or as .xlsx"):
        data.open_data(tmp_path / "t.xls")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(Unsupported, match=r"hush\[excel\].*save the workbook as CSV"):
        Worksheet(tmp_path / "t.xlsx")


def test_texts_of_cells() -> None:
    assert [cell_text(value) for value in (None, 7, -0.5, date(2020, 1, 2), "#N/A", "")] == [
        *(None, "7", "-0.5", "2020-01-02", None, "")
    ]
