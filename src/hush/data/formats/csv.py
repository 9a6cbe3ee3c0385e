"""The first line of a CSV file: the names of the columns, and their delimiter. Nothing else is read here.

A record is a line, whatever it contains. In the usual CSV grammar, a quote that is not closed swallows all lines after
it, so one person's record would decide whether the records of others exist. Here, a line break within quotes is not
supported, a line with an odd number of quotes is dropped, and every line is split on its own.
"""

from __future__ import annotations

import csv
import gzip
import itertools
import re
from pathlib import Path
from typing import BinaryIO, cast

from hush.errors import InvalidArgument

DELIMITERS = (",", ";", "\t", "|")
_MAX_HEADER_BYTES = 1 << 24
_EXPECTED_HEADER = "a first line with the names of the columns"


def read_header(path: Path, delimiter: str | None = None) -> tuple[list[str], str]:
    """Return the names of the columns, and the delimiter.

    Args:
        path: A CSV file, compressed or not.
        delimiter: The delimiter; None for the one that is most frequent in the first line.
    """
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InvalidArgument("delimiter", delimiter, "a comma, a semicolon, a tab or a bar")
    line = _first_line(path)
    delimiter = delimiter or max(DELIMITERS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    if not any(names):
        raise InvalidArgument("data", path.name, _EXPECTED_HEADER)
    # Some programs leave the name above row numbers empty.
    names = [name or f"column{number}" for number, name in enumerate(names, 1)]
    if _are_values(names):  # the message must not show the line, which is probably a record
        raise InvalidArgument("data", path.name, _EXPECTED_HEADER, "It has numbers only", "Add a line above it")
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidArgument("column", repeated, "each name only once in the first line", "Rename one of the columns")
    return names, delimiter


def _first_line(path: Path) -> str:
    try:
        with _open(path) as file:
            raw = file.readline(_MAX_HEADER_BYTES)
        line = raw.decode("utf-8-sig").rstrip("\r\n")
    except (OSError, EOFError, gzip.BadGzipFile):
        raise InvalidArgument("data", path.name, "a readable file") from None
    except UnicodeDecodeError:
        raise InvalidArgument("data", path.name, "text in UTF-8", "Save it with that encoding") from None
    if len(raw) >= _MAX_HEADER_BYTES or line.count('"') % 2 or "\r" in line or "\0" in line:
        raise InvalidArgument("data", path.name, f"{_EXPECTED_HEADER}, without line breaks")
    return line


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _are_values(names: list[str]) -> bool:
    """Return whether the line looks like numbers rather than names. 0, 1, 2, ... and 1, 2, 3, ... are names."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return numbers not in ([float(n) for n in itertools.islice(itertools.count(first), len(names))] for first in (0, 1))


def lines_with_returns(path: Path) -> list[str] | None:
    """Return the lines after the first if the file has carriage returns that end no line; None if it has none.

    DuckDB would end a line at such a carriage return. It would make several records of one, or change the next one.
    Here, lines end at line feeds, and other carriage returns become spaces. Lines that are not UTF-8 are left out.
    """
    with _open(path) as file:
        content = file.read()
    if re.search(rb"\r(?!\n)", content) is None:
        return None
    lines = []
    for line in re.sub(rb"\r+(?=\n)", b"", content).split(b"\n")[1:]:
        try:
            lines.append(line.replace(b"\r", b" ").decode("utf-8").replace("\0", ""))
        except UnicodeDecodeError:
            continue
    return lines
