"""Records of files whose cells are text: CSV files and worksheets. The first one names the columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TypeAlias

from hush.errors import InvalidArgument

Record: TypeAlias = Sequence[str | None]

_LINE_BREAK = re.compile(r"\s*[\r\n]\s*")
_EXPECTED_HEADER = "a first line with the names of the columns"
# Names may be whole numbers, such as years. Amounts and dates are values: the line is a record, of a person perhaps.
_VALUE = re.compile(
    r"[-+]?(\d+[.,]\d+|[.,]\d+|\d+(?=e))(e[-+]?\d+)?"  # 102418.07, 3,5 or 1e6
    r"|(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}([-/.])\d{1,2}\4\d{2,4}"  # 2020-02-01, 31.12.2020 or 2/1/20
    r"|\d{1,2}[- ][a-z]{3,9}[- ]\d{2,4}|[a-z]{3,9} \d{1,2}, \d{4})([ t].*)?",  # 1-Feb-2020 or Feb 1, 2020
    re.IGNORECASE,
)


def column_names(cells: Record, file_name: str) -> list[str]:
    r"""Return the names of the columns from the first record. A column without a name gets its number as its name.

    >>> column_names(["", " age ", "income\n(EUR)"], "people.csv")
    ['column1', 'age', 'income (EUR)']
    """
    names = [_LINE_BREAK.sub(" ", (cell or "").strip()) for cell in cells]
    if not any(names):
        raise InvalidArgument("data", file_name, _EXPECTED_HEADER)
    names = [name or f"column{number}" for number, name in enumerate(names, 1)]
    # The messages must not show the line, which is probably a record.
    if _are_values(names):
        raise InvalidArgument("data", file_name, _EXPECTED_HEADER, "It has numbers only", "Add a line above it")
    if any(_VALUE.fullmatch(name) for name in names):
        raise InvalidArgument(
            "data",
            file_name,
            _EXPECTED_HEADER,
            "It has a decimal number or a date, so it looks like a record",
            "Add a line of names above it, or rename these columns",
        )
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise InvalidArgument("column", repeated, "each name only once in the first line", "Rename one of the columns")
    return names


def of_width(width: int, records: list[Record]) -> list[Record]:
    """Return records that all have this many cells. Cells that a record lacks are missing; further ones are dropped.

    Records without any cells are empty lines. They are left out.

    >>> of_width(2, [["1", "2"], ["3"], [], ["4", "5", "6"]])
    [['1', '2'], ['3', None], ['4', '5']]
    """
    if set(map(len, records)) == {width}:
        return records
    return [[*record[:width], *[None] * (width - len(record))] for record in records if record]


def _are_values(names: list[str]) -> bool:
    """Return whether the line looks like numbers rather than names. 0, 1, 2, ... and 1, 2, 3, ... are names."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return numbers not in ([float(n) for n in itertools.islice(itertools.count(first), len(names))] for first in (0, 1))
