"""Files with tables: CSV, Parquet and arrays. Opening one reads names and declared types of columns only.

Each opener returns a `TableSource` with a function that creates the table ``t`` on a DuckDB connection. It runs when
the rows are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.formats.csv import lines_with_returns, read_header
from hush.data.tables.table import UNTYPED, TableSource, connect, redact_errors
from hush.errors import InvalidArgument

# DuckDB needs some delimiter to read lines as one column. These three control characters cut only lines that have them.
_NO_DELIMITER = "\x01\x02\x03"


def open_csv(path: Path, name: str, delimiter: str | None = None) -> TableSource:
    """Open a CSV file. Only its first line is read here.

    Args:
        path: The file.
        name: The name that the caller used.
        delimiter: The delimiter; None for the most frequent one of the first line.
    """
    columns, separator = read_header(path, delimiter)
    assumption = (
        "each line of a CSV file is one record, even if quotes span several lines; lines with an odd number of quotes, "
        "and lines that are not UTF-8, are dropped"
    )

    def fill(connection: Any) -> None:
        escaped = "\\|" if separator == "|" else separator
        pattern = f'{escaped}("(?:[^"]|"")*"|[^{separator}"]*)'
        # Every line is split on its own. $1 is the separator, put in front so that each field starts with one.
        split = (
            "CASE WHEN contains(line, '\"') THEN list_transform(regexp_extract_all($1 || line, $2, 1), lambda f: "
            "CASE WHEN starts_with(f, '\"') THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END) "
            "ELSE string_split(line, $1) END"
        )
        fields = ", ".join(f"f[{number}] AS c{number - 1}" for number in range(1, len(columns) + 1))
        lines = lines_with_returns(path)
        if lines is None:
            origin = (
                "read_csv($3, auto_detect=false, header=false, columns={'line': 'VARCHAR'}, delim=$4, quote='', "
                "escape='', skip=1, null_padding=true, ignore_errors=true, strict_mode=false)"
            )
            parameters = [separator, pattern, _plain_path(path), _NO_DELIMITER]
        else:
            connection.register("given", {"line": np.array([*lines, ""], dtype=object)})
            origin, parameters = "given", [separator, pattern]
        query = (
            f"CREATE TEMP TABLE t AS SELECT {fields} FROM (SELECT {split} AS f FROM "
            f"(SELECT rtrim(line, chr(13)) AS line FROM {origin}) "
            "WHERE line <> '' AND (NOT contains(line, '\"') "
            "OR (length(line) - length(replace(line, '\"', ''))) % 2 = 0))"
        )
        connection.execute(query, parameters)
        if lines is not None:
            connection.unregister("given")

    return TableSource(name, columns, [UNTYPED] * len(columns), fill, (assumption,))


def open_parquet(path: Path, name: str) -> TableSource:
    """Open a Parquet file. Only its footer is read here.

    Args:
        path: The file.
        name: The name that the caller used.
    """
    plain = _plain_path(path)
    with redact_errors(path.name):
        described = connect().execute("DESCRIBE SELECT * FROM read_parquet($1)", [plain]).fetchall()
    columns, types = [str(row[0]) for row in described], [str(row[1]) for row in described]
    names = ", ".join(f"c{number}" for number in range(len(columns)))

    def fill(connection: Any) -> None:
        connection.execute(f"CREATE TEMP TABLE t AS SELECT * FROM read_parquet($1) AS p({names})", [plain])

    return TableSource(name, columns, types, fill, ("the Parquet file is valid: its text is UTF-8",))


def from_arrays(
    name: str, columns: Sequence[str], types: Sequence[str], read: Callable[[], Sequence[NDArray[Any]]]
) -> TableSource:
    """Return arrays, one per column, as a table.

    Args:
        name: The name that the caller used.
        columns: The names of the columns.
        types: Their types, in DuckDB's words.
        read: Returns the arrays. It is called when the rows are needed.
    """

    def fill(connection: Any) -> None:
        connection.register("given", {f"c{number}": _encodable(array) for number, array in enumerate(read())})
        connection.execute("CREATE TEMP TABLE t AS SELECT * FROM given")
        connection.unregister("given")

    return TableSource(name, columns, types, fill)


def _encodable(array: NDArray[Any]) -> NDArray[Any]:
    """Return texts that UTF-8 can encode. Halves of surrogate pairs are replaced: one would stop the reading."""
    if array.dtype.kind != "U":
        return array
    try:
        np.char.encode(array, "utf-8")
        return array
    except UnicodeEncodeError:
        return np.array([str(text).encode("utf-8", "replace").decode() for text in array])


def _plain_path(path: Path) -> str:
    """Return a path without characters that DuckDB expands as a pattern: it would read other files, too."""
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "Rename the file")
    return str(path.resolve())
