"""Excel workbooks: the first worksheet, whose first row names the columns.

A row of a worksheet is a record, whatever text its cells hold. All cells become text, as in a CSV file: numbers with a
decimal point, dates as 2026-11-16, truth values as true and false. A cell that Excel shows as an error is missing, and
so is a formula that Excel has not computed. A workbook that is not valid XML is damaged, and refused as a whole: no
text that Excel accepts in a cell can cause that.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from hush.data.formats.records import Record, column_names, of_width
from hush.errors import HushError, InvalidArgument, Unsupported

_BATCH_RECORDS = 20_000
_ERRORS = frozenset({"#N/A", "#VALUE!", "#REF!", "#DIV/0!", "#NUM!", "#NAME?", "#NULL!", "#SPILL!", "#CALC!"})
_LARGEST_EXACT = 2.0**53  # floats hold every integer up to here


class Worksheet:
    """The first worksheet of a workbook (.xlsx), whose first row was read.

    Attributes:
        path: The file.
        columns: The names of the columns.
    """

    def __init__(self, path: Path) -> None:
        """Read the first row."""
        self.path = path
        with self._rows() as rows:
            names = [cell_text(value) for value in next(rows, ())]
        while names and not (names[-1] or "").strip():  # formatted cells beyond the table
            names.pop()
        self.columns = column_names(names, path.name)

    def batches(self) -> Iterator[list[Record]]:
        """Yield the records after the first row, a few thousand at a time. A missing cell is None."""
        with self._rows() as rows:
            next(rows, None)
            while values := list(itertools.islice(rows, _BATCH_RECORDS)):
                records: list[Record] = [[cell_text(value) for value in row] for row in values]
                yield of_width(len(self.columns), [record if any(record) else [] for record in records])

    @contextmanager
    def _rows(self) -> Iterator[Iterator[tuple[Any, ...]]]:
        """Open the worksheet. Errors and warnings of the reader are not shown: they may quote a cell."""
        try:
            from openpyxl import load_workbook
        except ModuleNotFoundError:
            advice = "pip install 'hush[excel]', or save the workbook as CSV UTF-8"
            raise Unsupported("reading Excel needs openpyxl", advice) from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                workbook = load_workbook(self.path, read_only=True, data_only=True)
                try:
                    sheet = workbook.worksheets[0]
                    sheet.reset_dimensions()  # some programs write wrong ones, which would cut the table
                    yield sheet.iter_rows(values_only=True)
                finally:
                    workbook.close()
        except HushError:
            raise
        except Exception:
            raise InvalidArgument("data", self.path.name, "a readable workbook", "Save it as CSV UTF-8") from None


def cell_text(value: Any) -> str | None:
    """Return a cell as text; None if it is missing.

    >>> [cell_text(value) for value in (7.0, 0.1, True, datetime(2026, 11, 16), "#N/A", " x ")]
    ['7', '0.1', 'true', '2026-11-16', None, ' x ']
    """
    if value is None or value in _ERRORS:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < _LARGEST_EXACT else repr(value)
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(sep=" ")
    return value.isoformat() if isinstance(value, (date, time)) else str(value)
