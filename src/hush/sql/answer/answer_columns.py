"""The columns of an answer, with the ends of intervals beside them, for CSV files and data frames.

`hush.frames` makes frames of them.
"""

from __future__ import annotations

from typing import Any, Protocol

_EXACT_IN_FLOATS = 2**53


class Answered(Protocol):
    """Rows with intervals: an answer or a preview."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        """The rows."""

    @property
    def intervals(self) -> list[dict[str, tuple[float, float]]]:
        """The intervals of each row, by column."""


def end_titles(name: str, answer: Answered) -> list[str]:
    """Return the titles of an interval's ends, which no column of the answer has; none without an interval."""
    if not any(name in ends for ends in answer.intervals):
        return []
    taken = {column.casefold() for column in answer.columns}
    titles = [f"{name}_low", f"{name}_high"]
    while taken.intersection(title.casefold() for title in titles):
        titles = [f"{title}_" for title in titles]
    return titles


def named_columns(answer: Answered, *, intervals: bool) -> list[tuple[str, list[Any]]]:
    """Return titles and values, column by column.

    Args:
        answer: The answer.
        intervals: Whether two more columns, the ends, follow each column that has an interval.
    """
    columns: list[tuple[str, list[Any]]] = []
    for index, name in enumerate(answer.columns):
        values = [row[index] for row in answer.rows]
        columns.append((name, values))
        titles = end_titles(name, answer) if intervals else []
        are_counts = all(isinstance(value, int) for value in values)
        for end, title in enumerate(titles):
            ends = [row[name][end] if name in row else None for row in answer.intervals]
            columns.append((title, list(map(without_decimals, ends)) if are_counts else ends))
    return columns


def without_decimals(value: Any) -> Any:
    """Return an integer for a float that is one."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_IN_FLOATS else value


def written(value: Any) -> str:
    r"""Return a value for display on one line: a float with six digits, and NULL for a missing value.

    A key may be any text; control characters are replaced, so that it cannot move a terminal's cursor or begin a new
    line.

    >>> written(1234.5678), written(1234567.0), written(None), written("a\x1b[2J") == "a\ufffd[2J"
    ('1234.57', '1234567', 'NULL', True)
    """
    if isinstance(value, list):
        return f"[{', '.join(map(written, value))}]"
    shown = without_decimals(value)
    if shown is None:
        return "NULL"
    text = f"{shown:.6g}" if isinstance(shown, float) else str(shown)
    return text if text.isprintable() else "".join(letter if letter.isprintable() else "\ufffd" for letter in text)
