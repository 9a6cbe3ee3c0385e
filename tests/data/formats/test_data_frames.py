"""Data frames as data for training: the frame's types decide, and no value raises an error."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from hush.data import Category, Numeric, Schema, open_data, transform
from hush.errors import InvalidArgument, Unsupported

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
arrow = pytest.importorskip("pyarrow")
pytest.importorskip("duckdb")

COLUMNS: dict[str, list[Any]] = {
    "age": [30.5, None, 40.0],
    "visits": [1, 2, None],
    "sex": ["m", "f", None],
    "at": [datetime(2024, 1, 1), None, datetime(2024, 2, 1)],
}
SCHEMA = Schema(columns={"age": Numeric(lower=0, upper=100), "sex": Category(values=("m", "f"))})
MAKERS = {
    "pandas": pandas.DataFrame,
    "pandas with nullable types": lambda columns: pandas.DataFrame(columns).convert_dtypes(),
    "polars": polars.DataFrame,
    "arrow": arrow.table,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_all_kinds_of_frames_read_the_same(make: Any) -> None:
    data = open_data(make(COLUMNS), target="sex")
    assert data.columns == list(COLUMNS)
    np.testing.assert_array_equal(data.rows.floats(["visits"])[0], [1, 2, np.nan])
    assert list(data.rows.texts("at")) == ["2024-01-01 00:00:00", "", "2024-02-01 00:00:00"]
    expected = [[-0.39, 1, 0, 0], [0, 0, 1, 0], [-0.2, 0, 0, 1]]
    np.testing.assert_allclose(transform(SCHEMA, data), expected, atol=1e-6)


def test_opening_a_frame_reads_no_value() -> None:
    """Two frames of the same types cannot be told apart before their rows are read."""
    other = {"age": [1.0], "visits": [2], "sex": ["x"], "at": [datetime(1999, 1, 1)]}
    first, second = (open_data(polars.DataFrame(columns)) for columns in (COLUMNS, other))
    assert repr(first) == repr(second)
    assert first._repr_html_() == second._repr_html_()
    assert [first.kind(name) for name in COLUMNS] == [second.kind(name) for name in COLUMNS]


def test_no_object_raises_an_error() -> None:
    values = [10**400, "\ud800", [1], pandas.NA, pandas.NaT, float("inf"), b"x", object(), pandas.Timestamp("2024")]
    frame = pandas.DataFrame({"x": pandas.Series(values, dtype=object)})
    data = open_data(frame)
    assert list(data.rows.texts("x")) == ["", "?", "", "", "", "inf", "", "", "2024-01-01T00:00:00"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_moments_outside_the_calendar_are_missing(unit: str, zone: str | None) -> None:
    extreme = 2**62 if unit != "ns" else None  # nanoseconds end in 2262
    table = arrow.table({"at": arrow.array([0, extreme], arrow.timestamp(unit, zone))})
    assert list(open_data(table).rows.texts("at")) == ["1970-01-01 00:00:00", ""]
    series = pandas.Series([0, extreme]).astype(f"datetime64[{unit}]").dt.tz_localize(zone and "UTC")
    assert list(open_data(pandas.DataFrame({"at": series})).rows.texts("at")) == ["1970-01-01 00:00:00", ""]


def test_large_ids_stay_exact() -> None:
    ids = [2**53, 2**53 + 1]
    assert list(open_data(polars.DataFrame({"who": ids})).rows.texts("who")) == [str(number) for number in ids]


def test_frames_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="name of its own"):
        open_data(pandas.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(Unsupported, match="the column a of type List"):
        open_data(polars.DataFrame({"a": [[1]]}))
    with pytest.raises(InvalidArgument, match="^target="):
        open_data(polars.DataFrame({"a": [1]}), target="b")
