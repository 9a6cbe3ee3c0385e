"""The first line of a CSV file: names of columns and what separates them. Nothing else is looked at.

A record is a line, whatever is in it. In the usual grammar a quote that is not closed swallows all lines that follow:
one person's record would decide whether the others' exist. So a line break within quotes is not supported, a line with
an odd number of quotes is dropped, and every line is taken apart by itself.
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
_LONGEST = 1 << 24


def read_header(path: Path, delimiter: str | None = None) -> tuple[list[str], str]:
    """Return the names of the columns and the delimiter: the given one, or the most frequent one of this line."""
    if delimiter is not None and delimiter not in DELIMITERS:
        raise InvalidArgument("delimiter", delimiter, "a comma, a semicolon, a tab or a bar")
    line = _first_line(path)
    found = delimiter or max(DELIMITERS, key=line.count)
    names = [name.strip() for name in next(csv.reader([line], delimiter=found), [])]
    if not any(names):
        raise InvalidArgument("data", path.name, "a first line with the names of the columns")
    # What older programs write above row numbers.
    names = [name or f"column{place}" for place, name in enumerate(names, 1)]
    if _are_values(names):  # the message must not show what may be a record
        raise InvalidArgument(
            "data",
            path.name,
            "a first line with the names of the columns",
            "It has numbers only",
            "Add a line above it",
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InvalidArgument("column", twice, "each name once in the first line", "Rename one of them")
    return names, found


def _first_line(path: Path) -> str:
    try:
        with _open(path) as file:
            raw = file.readline(_LONGEST)
        line = raw.decode("utf-8-sig").rstrip("\r\n")
    except (OSError, EOFError, gzip.BadGzipFile):
        raise InvalidArgument("data", path.name, "a readable file") from None
    except UnicodeDecodeError:
        raise InvalidArgument("data", path.name, "text in UTF-8", "Save it with that encoding") from None
    if len(raw) >= _LONGEST or line.count('"') % 2 or "\r" in line or "\0" in line:
        raise InvalidArgument("data", path.name, "a first line with the names of the columns, without line breaks")
    return line


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if path.suffix == ".gz" else path.open("rb")


def _are_values(names: list[str]) -> bool:
    """Tell whether the line looks like numbers and not like names; 0, 1, 2, ... are names."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return numbers not in ([float(n) for n in itertools.islice(itertools.count(first), len(names))] for first in (0, 1))


def lines_with_returns(path: Path) -> list[str] | None:
    """Return the lines after the first, if a carriage return stands anywhere but before a line feed; else None.

    DuckDB would end a line there, and make several records of one, or change the next one. Here lines end at line
    feeds; other carriage returns are spaces. A line that is not in UTF-8 is left out.
    """
    with _open(path) as file:
        content = file.read()
    if re.search(rb"\r(?!\n)", content) is None:
        return None
    found = []
    for line in re.sub(rb"\r+(?=\n)", b"", content).split(b"\n")[1:]:
        try:
            found.append(line.replace(b"\r", b" ").decode("utf-8").replace("\0", ""))
        except UnicodeDecodeError:
            continue
    return found
