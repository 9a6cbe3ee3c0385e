"""Files with tables: CSV, Parquet and arrays. Opening one reads names and declared types only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.formats.csv import lines_with_returns, read_header
from hush.data.tables.table import UNTYPED, TableSource, connect, wordless
from hush.errors import InvalidArgument

# Three control characters: a line that has them is cut there, and no other one is concerned.
_NO_DELIMITER = "\x01\x02\x03"


def open_csv(path: Path, name: str, delimiter: str | None = None) -> TableSource:
    """Return a CSV file as a source; only its first line is read here."""
    columns, found = read_header(path, delimiter)
    assumption = (
        "each line of a CSV file is a record, also where quotes span several lines; lines with an odd number of "
        "quotes, or not in UTF-8, are dropped"
    )

    def fill(connection: Any) -> None:
        escaped = "\\|" if found == "|" else found
        pattern = f'{escaped}("(?:[^"]|"")*"|[^{found}"]*)'
        split = (
            "CASE WHEN contains(line, '\"') THEN list_transform(regexp_extract_all($1 || line, $2, 1), lambda f: "
            "CASE WHEN starts_with(f, '\"') THEN replace(substr(f, 2, length(f) - 2), '\"\"', '\"') ELSE f END) "
            "ELSE string_split(line, $1) END"
        )
        chosen = ", ".join(f"f[{place}] AS c{place - 1}" for place in range(1, len(columns) + 1))
        lines = lines_with_returns(path)
        if lines is None:
            origin = (
                "read_csv($3, auto_detect=false, header=false, columns={'line': 'VARCHAR'}, delim=$4, quote='', "
                "escape='', skip=1, null_padding=true, ignore_errors=true, strict_mode=false)"
            )
            given = [found, pattern, _plain(path), _NO_DELIMITER]
        else:
            connection.register("given", {"line": np.array([*lines, ""], dtype=object)})
            origin, given = "given", [found, pattern]
        query = (
            f"CREATE TEMP TABLE t AS SELECT {chosen} FROM (SELECT {split} AS f FROM "
            f"(SELECT rtrim(line, chr(13)) AS line FROM {origin}) "
            "WHERE line <> '' AND (NOT contains(line, '\"') "
            "OR (length(line) - length(replace(line, '\"', ''))) % 2 = 0))"
        )
        connection.execute(query, given)
        if lines is not None:
            connection.unregister("given")

    return TableSource(name, columns, [UNTYPED] * len(columns), fill, (assumption,))


def open_parquet(path: Path, name: str) -> TableSource:
    """Return a Parquet file as a source; only its footer is read here."""
    plain = _plain(path)
    with wordless(path.name):
        described = connect().execute("DESCRIBE SELECT * FROM read_parquet($1)", [plain]).fetchall()
    columns, types = [str(row[0]) for row in described], [str(row[1]) for row in described]
    names = ", ".join(f"c{place}" for place in range(len(columns)))

    def fill(connection: Any) -> None:
        connection.execute(f"CREATE TEMP TABLE t AS SELECT * FROM read_parquet($1) AS p({names})", [plain])

    return TableSource(name, columns, types, fill, ("a Parquet file keeps to its format: text is in UTF-8",))


def from_arrays(
    name: str, columns: Sequence[str], types: Sequence[str], read: Callable[[], Sequence[NDArray[Any]]]
) -> TableSource:
    """Return arrays, one for each column, as a source; ``read`` is called when they are needed."""

    def fill(connection: Any) -> None:
        connection.register("given", {f"c{place}": _encodable(array) for place, array in enumerate(read())})
        connection.execute("CREATE TEMP TABLE t AS SELECT * FROM given")
        connection.unregister("given")

    return TableSource(name, columns, types, fill)


def _encodable(array: NDArray[Any]) -> NDArray[Any]:
    """Return texts without what UTF-8 cannot write (halves of surrogate pairs): one of them would end the reading."""
    if array.dtype.kind != "U":
        return array
    try:
        np.char.encode(array, "utf-8")
        return array
    except UnicodeEncodeError:
        return np.array([str(text).encode("utf-8", "replace").decode() for text in array])


def _plain(path: Path) -> str:
    """Return a path that DuckDB takes as it is: it reads patterns, and other files than the one that was meant."""
    if any(character in str(path) for character in "*?[]{}"):
        raise InvalidArgument("data", path.name, "a path without any of *?[]{}", "Rename the file")
    return str(path.resolve())
