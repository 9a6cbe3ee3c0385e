"""Functions of text and dates over the keys of released groups, such as UPPER(region) with GROUP BY region.

Engines compute these for each row; here they follow the release. The values are the same.
"""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

EARLIEST, LATEST = datetime(1, 1, 8), datetime(9999, 12, 31)  # beyond these, engines disagree about dates


def strict(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule total: None if an operand is None, and if the rule raises or overflows."""

    def total(*args: Any) -> Any:
        if any(arg is None for arg in args):
            return None
        try:
            result = rule(*args)
        except (ArithmeticError, ValueError, TypeError, AttributeError):
            return None
        return None if isinstance(result, float) and not math.isfinite(result) else result

    return total


def moved(moment: datetime, intervals: tuple[tuple[str, int], ...]) -> datetime | None:
    """Return a timestamp that is moved by intervals, as engines move it; None outside the years that all have."""
    try:
        for unit, number in intervals:
            moment = _add_months(moment, number) if unit == "month" else moment + timedelta(**{unit + "s": number})
    except (ValueError, OverflowError):
        return None
    return moment if EARLIEST <= moment <= LATEST else None


def _add_months(moment: datetime, months: int) -> datetime:
    """Return a timestamp some months later, at the end of the month if the day does not exist there."""
    year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
    day = min(moment.day, calendar.monthrange(year, month + 1)[1])
    return moment.replace(year=year, month=month + 1, day=day)


def _in_case(convert: Callable[[str], str]) -> Callable[[str], str]:
    """Return LOWER or UPPER, for every letter that has one counterpart."""
    return lambda text: "".join(other if len(other := convert(letter)) == 1 else letter for letter in text)


_lower = _in_case(str.lower)


def _like(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern of LIKE."""
    parts = (".*" if letter == "%" else "." if letter == "_" else re.escape(letter) for letter in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _split_part(options: tuple[str, int], text: str) -> str:
    """Return one of the parts of a text, or an empty text if there are fewer."""
    parts = text.split(options[0])
    return parts[options[1] - 1] if options[1] <= len(parts) else ""


def _text(value: Any) -> str:
    """Return an integer, a date or a boolean as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _truncated(unit: str, moment: date) -> datetime:
    """Return the beginning of a moment's hour, day, week, month, quarter or year."""
    start = datetime(moment.year, moment.month, moment.day)
    if unit == "hour":
        return start.replace(hour=moment.hour) if isinstance(moment, datetime) else start
    if unit == "week":
        return start - timedelta(days=start.weekday())
    month = {"year": 1, "quarter": 3 * ((moment.month - 1) // 3) + 1}.get(unit, moment.month)
    return start if unit == "day" else start.replace(month=month, day=1)


_PARTS: Mapping[str, Callable[[Any], int]] = {
    "quarter": lambda moment: int((moment.month + 2) // 3),
    "week": lambda moment: int(moment.isocalendar().week),
    "dayofyear": lambda moment: int(moment.timetuple().tm_yday),
    "isodow": lambda moment: int(moment.isoweekday()),
}
# The first argument is the data of the node, the others are its operands.
KEY_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "lower": lambda _, text: _lower(text),
    "upper": lambda _, text: _in_case(str.upper)(text),
    "trim": lambda _, text: text.strip(" "),
    "ltrim": lambda _, text: text.lstrip(" "),
    "rtrim": lambda _, text: text.rstrip(" "),
    "length": lambda _, text: float(len(text)),
    "substring": lambda ends, text: text[ends[0] - 1 : ends[0] - 1 + ends[1]],
    "right": lambda length, text: text[max(0, len(text) - length) :],
    "split_part": _split_part,
    "replace": lambda texts, text: text.replace(*texts),
    "position": lambda _, text, searched: float(text.find(searched) + 1),
    "concat": lambda _, *texts: "".join(texts),
    "like": _like,
    "ilike": lambda pattern, text: _like(_lower(pattern), _lower(text)),
    "to_text": lambda _, value: _text(value),
    "integer_text": lambda _, number: str(int(number)) if abs(number) <= 2**53 else None,
    "bool_number": lambda _, value: float(value),
    "to_time": lambda _, day: datetime.combine(day, time()),
    "time_date": lambda _, moment: moment.date(),
    "part": lambda name, moment: _PARTS[name](moment) if name in _PARTS else getattr(moment, name),
    "truncate": _truncated,
    "days_between": lambda _, later, earlier: float((later - earlier).days),
    "shift": lambda intervals, moment: moved(moment, intervals),
}
