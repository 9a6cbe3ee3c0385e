"""Data frames and Arrow tables whose texts are all text, and whose columns have a type that no value decides.

A text that UTF-8 cannot represent would make every query of its column fail, or become equal to another text: one
record would reveal its presence, or be confused with another person's. Such texts become missing before the engine sees
them.
"""

from __future__ import annotations

import sys
from typing import Any


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
        return _valid_frame(data)
    if arrow is not None and isinstance(data, arrow.RecordBatch):
        return _valid_arrow(arrow.Table.from_batches([data]), arrow)
    return _valid_arrow(data, arrow) if arrow is not None and isinstance(data, arrow.Table) else data


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


def _valid_frame(frame: Any) -> Any:
    changed = frame
    for position, dtype in enumerate(frame.dtypes):
        values: Any = frame.iloc[:, position] if dtype.kind == "O" else ()
        if not all(map(_is_valid, values)):
            changed = frame.copy(deep=False) if changed is frame else changed
            texts = [value if _is_valid(value) else None for value in values]
            changed.isetitem(position, type(values)(texts, index=frame.index, dtype=object))
    return changed


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
        if not (arrow.types.is_string(values_type) or arrow.types.is_large_string(values_type)):
            continue
        column = table.column(position)
        try:
            column.validate(full=True)
        except arrow.ArrowInvalid:
            texts = [_decoded(value) for value in _as_bytes(column, arrow)]
            table = table.set_column(position, field.name, arrow.array(texts, values_type))
    return table


def _as_bytes(column: Any, arrow: Any) -> list[bytes | None]:
    """Return the bytes of a column of text, which need not be UTF-8."""
    if arrow.types.is_dictionary(column.type):
        column = arrow.chunked_array([chunk.dictionary_decode() for chunk in column.chunks])
    binary = arrow.large_binary() if arrow.types.is_large_string(column.type) else arrow.binary()
    values: list[bytes | None] = column.cast(binary).to_pylist()
    return values


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
