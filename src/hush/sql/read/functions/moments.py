"""Rules for arithmetic with dates and timestamps.

| written | value |
|---|---|
| d + INTERVAL 3 MONTH, d - INTERVAL '3 days' | a timestamp; the end of the month if the day does not exist |
| d + 3, DATE_ADD(d, 3) in Spark | a date |
| d - e, DATEDIFF(d, e) | a number of days |
| DATE_DIFF('month', d, e), DATEDIFF likewise | how many beginnings of a month lie between them, as on DuckDB |
| LAST_DAY(d) | the last day of the month |

Intervals are constants of at most 4,000 years, so that no engine leaves its own range of dates. A result outside years
1 to 9999 is NULL.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.functions.conversions import date_part
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr, literal, numeric
from hush.sql.syntax.key_functions import moved

_MOST_DAYS = 3_652_059  # from the beginning of year 1 to the end of year 9999
# An interval is a number of months, days or seconds.
_UNITS = {
    "year": ("month", 12),
    "quarter": ("month", 3),
    "month": ("month", 1),
    "week": ("day", 7),
    "day": ("day", 1),
    "hour": ("second", 3600),
    "minute": ("second", 60),
    "second": ("second", 1),
}
_LONGEST = {"month": 48_000, "day": 1_461_000, "second": 126_230_400_000}
_PER_DAY = {"hour": ("hour",), "minute": ("hour", "minute")}
_PER_YEAR = {"year": (1, ()), "quarter": (4, ("quarter",)), "month": (12, ("month",))}


def shifted(translate: Translator, node: exp.Binary, *, sign: int) -> Expr:
    """Return a moment plus or minus an interval: Add, Sub, DATE_ADD and DATE_SUB."""
    moment, interval = node.this, node.expression
    if isinstance(moment, exp.Interval) and sign == 1:
        moment, interval = interval, moment
    if not isinstance(interval, exp.Interval) or isinstance(moment, exp.Interval):
        raise translate.refuse(node, "expected a date and an interval here", "Write d + INTERVAL 3 DAY")
    unit, number = _interval(translate, interval)
    return _shift(translate, node, timestamp(translate.moment(moment)), unit, sign * number)


def shifted_days(translate: Translator, node: exp.Expr, moment: Expr, days: int) -> Expr:
    """Return a date plus a constant number of days."""
    if not abs(days) <= _LONGEST["day"]:
        raise translate.refuse(node, "intervals of more than 4000 years are not supported")
    return _date(_shift(translate, node, timestamp(moment), "day", days))


def date_add(translate: Translator, node: exp.TsOrDsAdd) -> Expr:
    """Translate DATE_ADD(d, 3) and DATE_SUB(d, 3) of Spark, which count days."""
    if str(node.args.get("unit") or "day").lower() != "day":
        raise translate.refuse(node, "only days are supported here", "Write d + INTERVAL 3 MONTH")
    days, sign = node.expression, 1
    if isinstance(days, exp.Mul):  # DATE_SUB is parsed as a product with -1
        days, sign = days.this, -1
    return shifted_days(translate, node, translate.moment(node.this), sign * int(translate.constant(days, int)))


def date_difference(translate: Translator, node: exp.DateDiff) -> Expr:
    """Translate DATE_DIFF('unit', start, end) and DATEDIFF(end, start)."""
    end, start, unit = node.this, node.expression, node.args.get("unit")
    if isinstance(end, exp.Literal) and unit is not None:  # the parser takes another order, and loses the last name
        raise translate.refuse(node, "this dialect has no DATE_DIFF", "Write d - e for a number of days")
    name = "day" if unit is None else str(unit.name).lower()
    later, earlier = translate.moment(end), translate.moment(start)
    if name in _PER_YEAR:
        factor, parts = _PER_YEAR[name]
        years = numeric("mul", _difference("year", later, earlier), literal(factor, ColumnKind.FLOAT))
        return _sum([years, *(_difference(part, later, earlier) for part in parts)])
    days = days_between(later, earlier)
    if name == "day":
        return days
    if name not in _PER_DAY:
        supported = ", ".join([*_PER_YEAR, "day", *_PER_DAY])
        raise translate.refuse(node, "DATE_DIFF does not support this unit", f"Use one of {supported}")
    total = days
    for part, factor in zip(_PER_DAY[name], (24, 60), strict=False):
        scaled = numeric("mul", total, literal(factor, ColumnKind.FLOAT))
        total = numeric("add", scaled, _difference(part, timestamp(later), timestamp(earlier)))
    return total


def days_between(later: Expr, earlier: Expr) -> Expr:
    """Return the number of days from one date to another."""
    dates = (_date(later), _date(earlier))
    return Expr("days_between", ColumnKind.FLOAT, dates, low=-_MOST_DAYS, high=_MOST_DAYS, integral=True)


def last_day(translate: Translator, node: exp.LastDay) -> Expr:
    """Translate LAST_DAY(d): the beginning of the month, a month later, a day earlier."""
    month = Expr("truncate", ColumnKind.TIME, (translate.moment(node.this),), "month")
    return _date(Expr("shift", ColumnKind.TIME, (month,), (("month", 1), ("day", -1))))


def _interval(translate: Translator, node: exp.Interval) -> tuple[str, int]:
    """Return the unit and the number of a constant interval."""
    translate.refuse.unless_only(node, "this", "unit", "fraction_in_string")
    unit = str(getattr(node.args.get("unit"), "name", "")).lower().removesuffix("s")
    text = node.this.sql() if isinstance(node.this, exp.Neg) else str(getattr(node.this, "this", ""))
    if unit not in _UNITS or re.fullmatch(r"[+-]?\d{1,12}", text.strip()) is None:
        advice = "Write INTERVAL 3 MONTH, with a whole number and one unit: " + ", ".join(_UNITS)
        raise translate.refuse(node, "this interval is not supported", advice)
    smallest, factor = _UNITS[unit]
    number = int(text) * factor
    if not abs(number) <= _LONGEST[smallest]:
        raise translate.refuse(node, "intervals of more than 4000 years are not supported")
    return smallest, number


def _shift(translate: Translator, node: exp.Expr, moment: Expr, unit: str, number: int) -> Expr:
    """Return a timestamp that is moved by an interval. Constants are computed here."""
    if moment.op != "literal":
        return Expr("shift", ColumnKind.TIME, (moment,), ((unit, number),))
    result = moved(moment.value, ((unit, number),))
    if result is None:
        raise translate.refuse(node, "this date is outside years 1 to 9999")
    return literal(result, ColumnKind.TIME)


def timestamp(moment: Expr) -> Expr:
    """Return a moment as a timestamp."""
    if moment.kind is ColumnKind.TIME:
        return moment
    if moment.op == "literal" and isinstance(moment.value, date):
        return literal(datetime.combine(moment.value, time()), ColumnKind.TIME)
    return Expr("to_time", ColumnKind.TIME, (moment,))


def _date(moment: Expr) -> Expr:
    """Return a moment as a date."""
    if moment.kind is ColumnKind.DATE:
        return moment
    if moment.op == "literal" and isinstance(moment.value, datetime):
        return literal(moment.value.date(), ColumnKind.DATE)
    return Expr("time_date", ColumnKind.DATE, (moment,))


def _difference(part: str, later: Expr, earlier: Expr) -> Expr:
    """Return the difference of a part of two moments, such as their years."""
    return numeric("sub", *(numeric("number", date_part(part, moment)) for moment in (later, earlier)))


def _sum(terms: list[Expr]) -> Expr:
    """Return the sum of some numbers."""
    first, *others = terms
    for term in others:
        first = numeric("add", first, term)
    return first
