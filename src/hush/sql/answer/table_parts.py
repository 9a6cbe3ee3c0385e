"""Parts of a table by a column, as a condition in SQL.

A ledger can hold a budget for each month, or for each region. A query that is charged to one of them must read the rows
of that part only. The condition depends on one row by itself, and no unit may have rows in two parts: it would be
charged in each of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from sqlglot import exp

from hush.data.tables.catalog import ROW, ColumnKind, PrivateTable, kind_of
from hush.errors import InvalidArgument, Unsupported

# The windows that never cross the end of a year, a month or a day. A unit with such a window is in one part only.
_WINDOWS_WITHIN = {
    "year": {"hour", "day", "month", "quarter", "year"},
    "month": {"hour", "day", "month"},
    "day": {"hour", "day"},
}


def parts_condition(column: str, parts: Sequence[str], table: PrivateTable) -> str:
    r"""Return the condition, in SQL, that a row is in one of the parts.

    Args:
        column: The column that divides the table: text, if each row is a unit; or the time column of the unit's window.
        parts: Values of a text column; years, months or days of a time column.
        table: The table.

    >>> row_id = ("rowid", "BIGINT")
    >>> visits = PrivateTable(columns={"who": "BIGINT", "region": "VARCHAR"}, unit="row", row_id=row_id)
    >>> parts_condition("region", ["north", "south"], visits)
    '"region" IN (\'north\', \'south\')'
    """
    if column not in table.columns:
        raise InvalidArgument("column", column, "a column of the table", f"The table has {', '.join(table.columns)}")
    if not parts or isinstance(parts, str):
        raise InvalidArgument("parts", parts, "a list of parts, at least one")
    kind = kind_of(table.columns[column])
    name = exp.to_identifier(column, quoted=True).sql()
    if kind is ColumnKind.TEXT:
        if table.unit != ROW:
            raise Unsupported(
                f"parts by {column}: a unit could be in several of them",
                "Declare unit=EachRow() if each row is a different person, or take months and a unit with a window",
            )
        values = ", ".join(exp.Literal.string(str(part)).sql() for part in parts)
        return f"{name} IN ({values})"
    if kind not in (ColumnKind.DATE, ColumnKind.TIME):
        raise Unsupported(f"parts by {column}, which is neither text nor a date", "Use another column")
    return " OR ".join(f"({_period_condition(name, part, column, table)})" for part in parts)


def _period_condition(name: str, part: str, column: str, table: PrivateTable) -> str:
    """Return the condition that a row is in one period.

    Periods must divide the units: if a unit had rows in two of them, its cost would have to be charged to both.
    """
    length, start, end = _period(part)
    if table.unit != ROW and (column != table.time or table.window not in _WINDOWS_WITHIN[length]):
        windows = ", ".join(sorted(_WINDOWS_WITHIN[length]))
        raise Unsupported(
            f"parts by {column}, one per {length}: a unit could be in several of them",
            f"Declare unit=UserWindow(column, time={column!r}, window=...) with one of the windows {windows}",
        )
    return f"{name} >= CAST('{start}' AS DATE) AND {name} < CAST('{end}' AS DATE)"


def _period(part: str) -> tuple[str, date, date]:
    """Return the length of a part, its first day, and the first day after it."""
    match = re.fullmatch(r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2}))?)?", str(part))
    try:
        if match is None:
            raise ValueError
        year, month, day = (None if group is None else int(group) for group in match.groups())
        assert year is not None
        start = date(year, month or 1, day or 1)
        if day is not None:
            return "day", start, start + timedelta(days=1)
        if month is not None:
            return "month", start, date(year + month // 12, month % 12 + 1, 1)
        return "year", start, date(year + 1, 1, 1)
    except (ValueError, OverflowError):  # no such day, or the next one is after year 9999
        raise InvalidArgument(
            "parts", part, "a year, a month or a day", "For example 2026, 2026-11 or 2026-11-15"
        ) from None
