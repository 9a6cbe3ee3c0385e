"""Parts of a table, by a column: as a condition in SQL that each row meets or not, by itself."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date, timedelta

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind, PrivateTable, kind_of
from hush.errors import InvalidArgument, Unsupported

# The windows that lie within a year, a month or a day, whichever they are.
_WITHIN = {
    "year": {"hour", "day", "month", "quarter", "year"},
    "month": {"hour", "day", "month"},
    "day": {"hour", "day"},
}


def rows_in(column: str, parts: Sequence[str], table: PrivateTable) -> str:
    """Return the condition, in SQL, that a row is in one of the parts of a column."""
    if column not in table.columns:
        raise InvalidArgument("column", column, "a column of the table", f"It has {', '.join(table.columns)}")
    if not parts or isinstance(parts, str):
        raise InvalidArgument("parts", parts, "a list of parts, at least one")
    kind = kind_of(table.columns[column])
    name = exp.to_identifier(column, quoted=True).sql()
    if kind is ColumnKind.TEXT:
        values = ", ".join(exp.Literal.string(str(part)).sql() for part in parts)
        return f"{name} IN ({values})"
    if kind not in (ColumnKind.DATE, ColumnKind.TIME):
        raise Unsupported(f"parts by {column}, which is neither text nor a date", "Use another column")
    return " OR ".join(f"({_between(name, part, column, table)})" for part in parts)


def _between(name: str, part: str, column: str, table: PrivateTable) -> str:
    length, first, last = _period(part)
    if column != table.time or table.window not in _WITHIN[length]:
        raise Unsupported(
            f"parts by {column}, a {length} each: somebody may be in several of them",
            f"Protect (unit, {column!r}, one of {', '.join(sorted(_WITHIN[length]))})",
        )
    return f"{name} >= CAST('{first}' AS DATE) AND {name} < CAST('{last}' AS DATE)"


def _period(part: str) -> tuple[str, date, date]:
    """Return how long a part is, its first day and the first day after it."""
    found = re.fullmatch(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?", str(part))
    try:
        if found is None:
            raise ValueError
        year, month, day = (None if group is None else int(group) for group in found.groups())
        assert year is not None
        first = date(year, month or 1, day or 1)
    except ValueError:
        raise InvalidArgument(
            "parts", part, "a year, a month or a day", "Such as 2026, 2026-11 or 2026-11-15"
        ) from None
    if day is not None:
        return "day", first, first + timedelta(days=1)
    if month is not None:
        return "month", first, date(year + month // 12, month % 12 + 1, 1)
    return "year", first, date(year + 1, 1, 1)
