"""Data frames and Arrow tables whose values the engine can read, and whose columns have a type that no value decides.

A text that UTF-8 cannot represent would make every query of its column fail, or become equal to another text: one
record would reveal its presence, or be confused with another person's. Such texts become missing before the engine sees
them, and so do moments outside years 1 to 9999: DuckDB converts those with a time zone to microseconds, which fails if
there are too many.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
_CONVERTED = ("s", "ms")  # units of moments that are converted to microseconds


def is_frame(data: Any) -> bool:
    """Return whether data are of a type whose values the functions of this module check.

    An array of NumPy has objects whose type an engine would guess. A reader can be read once, and would be empty then.
    """
    types = {"pandas": ("DataFrame",), "polars": ("DataFrame", "LazyFrame"), "pyarrow": ("Table", "RecordBatch")}
    known = [(sys.modules.get(library), names) for library, names in types.items()]  # the caller has imported it
    return any(isinstance(data, tuple(getattr(library, name) for name in names)) for library, names in known if library)


def with_valid_texts(data: Any) -> Any:
    r"""Return a pandas data frame or an Arrow table without texts that are not UTF-8, and any other data as they are.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"note": pd.Series(["a", "\ud800", None], dtype=object)})
    >>> with_valid_texts(frame)["note"].tolist()
    ['a', None, None]
    """
    # Who passes such data has imported the library.
    pandas, arrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _valid_frame(data, pandas, arrow)
    if arrow is not None and isinstance(data, arrow.RecordBatch):
        return _valid_arrow(arrow.Table.from_batches([data]), arrow)
    return _valid_arrow(data, arrow) if arrow is not None and isinstance(data, arrow.Table) else data


def with_valid_moments(data: Any) -> Any:
    """Return a data frame or an Arrow table in which moments outside years 1 to 9999 are missing.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"at": pd.Series([0, 10**17]).astype("datetime64[s]").dt.tz_localize("UTC")})
    >>> with_valid_moments(frame)["at"].isna().tolist()
    [False, True]
    """
    pandas, polars, arrow = (sys.modules.get(name) for name in ("pandas", "polars", "pyarrow"))
    if pandas is not None and isinstance(data, pandas.DataFrame):
        return _frame_of_valid_moments(data, pandas, arrow)
    if polars is not None and isinstance(data, (polars.DataFrame, polars.LazyFrame)):
        types = data.collect_schema().items()
        zoned = [name for name, kind in types if isinstance(kind, polars.Datetime) and kind.time_zone is not None]
        columns = map(polars.col, zoned)
        return data.with_columns(polars.when(column.is_between(_FIRST, _LAST)).then(column) for column in columns)
    return _arrow_of_valid_moments(data, arrow) if arrow is not None and isinstance(data, arrow.Table) else data


def _frame_of_valid_moments(frame: Any, pandas: Any, arrow: Any) -> Any:
    changed = frame.copy(deep=False)
    for position, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, position]
        if isinstance(dtype, pandas.DatetimeTZDtype) and dtype.unit in _CONVERTED:
            changed.isetitem(position, column.where(column.between(_FIRST, _LAST)))
        elif isinstance(dtype, pandas.ArrowDtype) and _is_converted(dtype.pyarrow_dtype, arrow):
            moments = _valid_moments(arrow.chunked_array([arrow.array(column.array)]), arrow)
            changed.isetitem(position, pandas.Series(pandas.arrays.ArrowExtensionArray(moments), index=frame.index))
    return changed


def _arrow_of_valid_moments(table: Any, arrow: Any) -> Any:
    for position, field in enumerate(table.schema):
        if _is_converted(field.type, arrow):
            table = table.set_column(position, field.name, _valid_moments(table.column(position), arrow))
    return table


def _is_converted(column_type: Any, arrow: Any) -> bool:
    is_zoned = arrow.types.is_timestamp(column_type) and column_type.tz is not None
    return is_zoned and column_type.unit in _CONVERTED


def _valid_moments(column: Any, arrow: Any) -> Any:
    import pyarrow.compute

    second = {"s": 1, "ms": 1000}[column.type.unit]
    numbers = column.cast(arrow.int64())
    is_inside = pyarrow.compute.and_(
        pyarrow.compute.greater_equal(numbers, int(_FIRST.timestamp()) * second),
        pyarrow.compute.less_equal(numbers, int(_LAST.timestamp()) * second),
    )
    return pyarrow.compute.if_else(is_inside, numbers, None).cast(column.type)


def with_text_columns(data: Any) -> Any:
    """Return a pandas data frame whose columns of objects are text, and any other data as they are.

    DuckDB guesses the type of such a column from a sample of its values, unless a connection forbids it. One record
    could then decide how all others are read, or end each query.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"note": pd.Series([7, b"x", None], dtype=object)})
    >>> with_text_columns(frame)["note"].tolist()
    ['7', "b'x'", <NA>]
    """
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(data, pandas.DataFrame):
        return data
    changed = data.copy(deep=False)
    for position, dtype in enumerate(data.dtypes):
        if getattr(dtype, "hasobject", False):  # of NumPy, not a type of its own
            column = data.iloc[:, position]
            pairs = zip(column, column.isna(), strict=True)
            texts = [None if is_missing else str(value) for value, is_missing in pairs]
            changed.isetitem(position, pandas.Series(texts, index=data.index, dtype="string[python]"))
    return changed


def _valid_frame(frame: Any, pandas: Any, arrow: Any) -> Any:
    changed = frame
    for position, dtype in enumerate(frame.dtypes):
        column = frame.iloc[:, position]
        if isinstance(dtype, pandas.CategoricalDtype):
            texts = _valid_texts(pandas.Series(dtype.categories), pandas, arrow)
            # The code of a missing value is -1, the last one of the list.
            texts = None if texts is None else [[*texts, None][code] for code in column.cat.codes]
        else:
            texts = _valid_texts(column, pandas, arrow)
        if texts is not None:
            changed = frame.copy(deep=False) if changed is frame else changed
            changed.isetitem(position, pandas.Series(texts, index=frame.index, dtype=object))
    return changed


def _valid_texts(column: Any, pandas: Any, arrow: Any) -> list[Any] | None:
    """Return the values of a pandas column without texts that are not UTF-8; None if there are no such texts."""
    dtype = column.dtype
    in_arrow = isinstance(dtype, pandas.ArrowDtype) or getattr(dtype, "storage", None) == "pyarrow"
    if in_arrow and arrow is not None:
        texts = arrow.array(column.array)
        return _decoded_column(texts, arrow) if _is_text(texts.type, arrow) else None
    values = column if dtype.kind == "O" else ()
    return None if all(map(_is_valid, values)) else [value if _is_valid(value) else None for value in values]


def _is_valid(value: Any) -> bool:
    """Return whether a value is not text, or is text that UTF-8 can represent."""
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _valid_arrow(table: Any, arrow: Any) -> Any:
    for position, field in enumerate(table.schema):
        values_type = field.type.value_type if arrow.types.is_dictionary(field.type) else field.type
        texts = _decoded_column(table.column(position), arrow) if _is_text(values_type, arrow) else None
        if texts is not None:
            table = table.set_column(position, field.name, arrow.array(texts, values_type))
    return table


def _is_text(column_type: Any, arrow: Any) -> bool:
    types = arrow.types
    return any(test(column_type) for test in (types.is_string, types.is_large_string, types.is_string_view))


def _decoded_column(column: Any, arrow: Any) -> list[str | None] | None:
    """Return an Arrow column without texts that are not UTF-8; None if there are no such texts."""
    try:
        column.validate(full=True)
    except arrow.ArrowInvalid:
        return [_decoded(value) for value in _as_bytes(column, arrow)]
    return None


def _as_bytes(column: Any, arrow: Any) -> list[bytes | None]:
    """Return the bytes of a column of text, which need not be UTF-8."""
    if arrow.types.is_dictionary(column.type):
        column = arrow.chunked_array([chunk.dictionary_decode() for chunk in column.chunks])
    binary = arrow.large_binary() if arrow.types.is_large_string(column.type) else arrow.binary()
    binary = arrow.binary_view() if arrow.types.is_string_view(column.type) else binary
    values: list[bytes | None] = column.cast(binary).to_pylist()
    return values


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
