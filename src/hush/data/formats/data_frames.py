"""Data frames of pandas and Polars, and tables of Arrow, as data for training.

The type of a column is the one that the frame declares, never one that its values suggest: a column of objects has no
type, like a column of a CSV file. Each value is converted on its own. One that has no place in its column's type, that
is not text in UTF-8 or that lies outside the calendar is missing, and none raises an error.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.table import UNTYPED, TableData
from hush.errors import InvalidArgument, Unsupported

_FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
_INTEGER, _FLOAT, _BOOLEAN, _MOMENT, _TEXT = "HUGEINT", "DOUBLE", "BOOLEAN", "TIMESTAMP", "VARCHAR"
_CASTS = {_INTEGER: _INTEGER, _FLOAT: _FLOAT, _BOOLEAN: _BOOLEAN, _MOMENT: _MOMENT, _TEXT: _TEXT, UNTYPED: _TEXT}
_WORDS: tuple[tuple[str, str], ...] = (  # what the names of types begin with, in pandas, Polars and Arrow
    ("int", _INTEGER),
    ("uint", _INTEGER),
    ("float", _FLOAT),
    ("double", _FLOAT),
    ("halffloat", _FLOAT),
    ("decimal", _FLOAT),
    ("bool", _BOOLEAN),
    ("date", _MOMENT),
    ("timestamp", _MOMENT),
    ("str", _TEXT),
    ("large_string", _TEXT),
    ("categor", _TEXT),
    ("dictionary", _TEXT),
    ("enum", _TEXT),
)
_EPOCH = datetime(1970, 1, 1)
_NOT_A_TIME = -(2**63)  # how pandas writes a missing moment
_UNITS = {"D": (86_400_000_000, 1), "s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of a frame: its name, its declared type, and a function that returns its values."""

    name: str
    type: str
    values: Callable[[], Sequence[Any]]


def is_data_frame(data: Any) -> bool:
    """Return whether data are a data frame or a table of Arrow."""
    for library, names in _FRAMES.items():
        module = sys.modules.get(library)  # the caller has imported it
        if module is not None and isinstance(data, tuple(getattr(module, name) for name in names)):
            return True
    return False


def open_frame(frame: Any) -> TableData:
    """Return a data frame as a table. Only names and types of its columns are read here.

    Args:
        frame: A data frame of pandas or Polars, or a table of Arrow. The index of pandas is not a column.
    """
    columns = list(_columns(frame))
    names = [column.name for column in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated or not names:
        raise InvalidArgument("data", repeated, "a data frame with columns, each with a name of its own")

    def fill(connection: Any, table: str) -> None:
        arrays = {f"c{number}": _CONVERTERS[column.type](column.values()) for number, column in enumerate(columns)}
        casts = [f"TRY_CAST(c{number} AS {_CASTS[column.type]}) AS c{number}" for number, column in enumerate(columns)]
        connection.register("hush_given", arrays)
        connection.execute(f"CREATE TEMP TABLE {table} AS SELECT {', '.join(casts)} FROM hush_given")
        connection.unregister("hush_given")

    return TableData("data frame", names, [column.type for column in columns], fill)


def _columns(frame: Any) -> Iterator[_Column]:
    """Yield the columns of a frame."""
    if type(frame).__module__.startswith("pyarrow"):
        for position, field in enumerate(frame.schema):
            column, kind = frame.column(position), _type(field.name, field.type)
            read = partial(_arrow_moments, column) if kind == _MOMENT else column.to_pylist
            yield _Column(str(field.name), kind, read)
    elif type(frame).__module__.startswith("polars"):
        for name, kind in frame.schema.items():
            column, type_name = frame.get_column(name), _type(name, kind)
            read = partial(_polars_moments, column) if type_name == _MOMENT else column.to_list
            yield _Column(name, type_name, read)
    else:
        for position, (name, kind) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
            column, type_name = frame.iloc[:, position], _type(name, kind)
            read = partial(_pandas_moments, column) if type_name == _MOMENT else column.tolist
            yield _Column(str(name), type_name, read)


def _type(name: Any, declared: Any) -> str:
    """Return the type of a column, from the name of the type that the frame declares."""
    word = str(declared).lower()
    if word == "object":
        return UNTYPED
    for beginning, kind in _WORDS:
        if word.startswith(beginning):
            return kind
    raise Unsupported(f"the column {name!s} of type {declared!s}", "Convert it to numbers, text or dates, or drop it")


def _as_text(value: Any) -> str | None:
    """Return a value as text, as a CSV file would hold it; None if it is missing."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()  # a half of a surrogate pair would stop the reading
    if isinstance(value, (datetime, date)):
        return _as_date(value)
    if isinstance(value, (bool, np.bool_)):
        return "1" if value else "0"
    return _as_number(value)


def _as_number(value: Any) -> str | None:
    if type(value) is float or isinstance(value, np.floating):
        return None if math.isnan(value) else repr(float(value))
    if type(value) is int or isinstance(value, np.integer):
        return str(int(value)) if abs(int(value)) < 10**38 else None
    return str(value) if type(value) is Decimal and value.is_finite() else None


def _as_integer(value: Any) -> str | None:
    if isinstance(value, float) and value.is_integer():  # pandas returns nullable integers as it likes
        return str(int(value))
    return None if isinstance(value, float) else _as_number(value)


def _as_float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, (int, float, Decimal, np.integer, np.floating)) else math.nan
    except (OverflowError, ValueError):
        return math.nan


def _arrow_moments(column: Any) -> list[Any]:
    """Return moments of Arrow as microseconds since 1970. As objects of Python, some of them would be errors."""
    import pyarrow

    kind = str(column.type)
    unit = {"date32": "D", "date64": "ms"}.get(kind.partition("[")[0]) or kind.partition("[")[2].split("]")[0][:2]
    numbers = column.cast(pyarrow.int32()) if unit == "D" else column.cast(pyarrow.int64())
    return _microseconds(numbers.to_pylist(), unit.strip(",") or "us")


def _polars_moments(column: Any) -> list[Any]:
    """Return moments of Polars as microseconds since 1970."""
    return _microseconds(column.to_physical().to_list(), getattr(column.dtype, "time_unit", "D"))


def _pandas_moments(column: Any) -> list[Any]:
    """Return moments of pandas as microseconds since 1970."""
    if not hasattr(column.array, "asi8"):  # a type of Arrow in a frame of pandas
        import pyarrow

        return _arrow_moments(pyarrow.array(column))
    return _microseconds([None if n == _NOT_A_TIME else n for n in column.array.asi8.tolist()], column.array.unit)


def _microseconds(numbers: Sequence[int | None], unit: str) -> list[int | None]:
    times, per = _UNITS[unit]
    return [None if number is None else number * times // per for number in numbers]


def _as_moment(microseconds: Any) -> str | None:
    """Return a moment as text; None outside the years 1 to 9999."""
    if microseconds is None:
        return None
    try:
        return (_EPOCH + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return None


def _as_date(value: date) -> str | None:
    """Return a date or a moment of Python as text, in UTC if it has a time zone."""
    try:
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = value.astimezone(UTC).replace(tzinfo=None)
        text = value.isoformat()
    except Exception:  # a time zone may be of any class; one record must not stop the reading
        return None
    return None if text == "NaT" else text


def _texts(convert: Callable[[Any], str | None]) -> Callable[[Sequence[Any]], NDArray[Any]]:
    """Return a function that converts each value of a column to text."""

    def converted(values: Sequence[Any]) -> NDArray[Any]:
        array = np.empty(len(values), dtype=object)
        for position, value in enumerate(values):
            array[position] = convert(value)
        return array

    return converted


def _as_truth(value: Any) -> str | None:
    return ("true" if value else "false") if isinstance(value, (bool, np.bool_)) else None


def _floats(values: Sequence[Any]) -> NDArray[Any]:
    return np.fromiter(map(_as_float, values), dtype=np.float64, count=len(values))


_CONVERTERS: dict[str, Callable[[Sequence[Any]], NDArray[Any]]] = {
    _INTEGER: _texts(_as_integer),
    _FLOAT: _floats,
    _BOOLEAN: _texts(_as_truth),
    _MOMENT: _texts(_as_moment),
    _TEXT: _texts(_as_text),
    UNTYPED: _texts(_as_text),
}
