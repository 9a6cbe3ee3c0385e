"""Answers as data frames: types, missing keys, and titles of intervals."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from hush.errors import Unsupported
from hush.frames import to_arrow, to_pandas, to_polars
from hush.sql.answer.answer_columns import end_titles, named_columns, written


@dataclass
class Rows:
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    intervals: list[dict[str, tuple[float, float]]] = field(default_factory=list)


COUNTS = Rows(("k", "n", "s"), [(None, 3, 2.5), ("a", 4, 1.0)], [{"n": (1.0, 5.0), "s": (1.0, 4.0)}, {"n": (2.0, 6.0)}])


def test_ends_follow_their_column() -> None:
    assert named_columns(COUNTS, intervals=False) == [("k", [None, "a"]), ("n", [3, 4]), ("s", [2.5, 1.0])]
    columns = dict(named_columns(COUNTS, intervals=True))
    assert list(columns) == ["k", "n", "n_low", "n_high", "s", "s_low", "s_high"]
    assert columns["n_low"] == [1, 2]
    assert {type(end) for end in columns["n_low"] + columns["n_high"]} == {int}
    assert (columns["s_low"], columns["s_high"]) == ([1.0, None], [4.0, None])
    assert type(columns["s_low"][0]) is float


def test_titles_of_ends_are_new() -> None:
    assert end_titles("n", Rows(("N_low", "n"), [(1, 1)], [{"n": (0, 2)}])) == ["n_low_", "n_high_"]
    assert end_titles("k", COUNTS) == []


DAY, MOMENT = date(2024, 2, 29), datetime(1, 1, 1, 12, 30)
VALUES: list[tuple[list[Any], str, str, str]] = [  # values, and the type in pandas, Polars and Arrow
    ([1, 2], "int64", "Int64", "int64"),
    ([1, None], "Int64", "Int64", "int64"),
    ([1.5, None], "float64", "Float64", "double"),
    ([1, 2.5], "float64", "Float64", "double"),
    ([2.5, 1], "float64", "Float64", "double"),
    ([True, False], "bool", "Boolean", "bool"),
    ([True, None], "boolean", "Boolean", "bool"),
    ([DAY, None], "object", "Date", "date32[day]"),
    ([MOMENT, None], "datetime64[us]", "Datetime(time_unit='us', time_zone=None)", "timestamp[us]"),
    ([time(1, 2), None], "object", "Time", "time64[us]"),
    ([b"\xff", None], "object", "Binary", "binary"),
    ([None, None], "object", "Null", "null"),
    ([], "object", "Null", "null"),
]


@pytest.mark.parametrize(("values", "pandas_type", "polars_type", "arrow_type"), VALUES)
def test_types(values: list[Any], pandas_type: str, polars_type: str, arrow_type: str) -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    columns = [("x", values), ("y", values)]
    frame = to_pandas(columns)
    assert list(map(str, frame.dtypes)) == [pandas_type] * 2
    assert len(frame) == len(values)
    assert [value is None for value in values] == frame["x"].isna().tolist()
    assert str(to_polars(columns)["x"].dtype) == polars_type
    assert str(to_arrow(columns).schema.field("y").type) == arrow_type
    wanted = [float(value) for value in values] if 2.5 in values else values
    assert to_polars(columns)["x"].to_list() == to_arrow(columns).column("x").to_pylist() == wanted


@pytest.mark.parametrize("values", [["a", None, ""], [Decimal("1.20"), None, Decimal("3")], [2**100, None, 1]])
def test_no_value_is_lost(values: list[Any]) -> None:
    for package in ("pandas", "polars", "pyarrow"):
        pytest.importorskip(package)
    columns = [("x", values)]
    assert to_polars(columns)["x"].to_list() == to_arrow(columns).column("x").to_pylist() == values
    frame = to_pandas(columns)["x"]
    assert [None if missing else value for value, missing in zip(frame, frame.isna(), strict=True)] == values


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(Unsupported, match="needs polars.*pip install polars"):
        to_polars([("x", [1])])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (1234.5678, "1234.57"),
        (3.0, "3"),
        (1e300, "1e+300"),
        (True, "True"),
        ("x", "x"),
        ("é\x1b[2J\n\u202e", "é\ufffd[2J\ufffd\ufffd"),
    ],
)
def test_written(value: Any, text: str) -> None:
    assert written(value) == text
