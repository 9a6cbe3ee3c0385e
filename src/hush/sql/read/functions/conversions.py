"""Rules for CAST and for parts of dates.

An engine's CAST raises on values that it cannot convert. The conversions here give NULL instead. Engines also disagree
on rounding and on the text of numbers, so some conversions are refused:

| from | to |
|---|---|
| integer | number, text |
| number | integer (halves are rounded away from 0); text, if it is computed from integers |
| text | number, integer, date |
| date | timestamp, text |
| timestamp | date; not text |
| timestamp with a time zone | none: AT TIME ZONE says what its clock shows |
| boolean | integer, number, text |
"""

from __future__ import annotations

from sqlglot import exp

from hush.data.tables.catalog import WINDOWS, ColumnKind
from hush.sql.read.translator import MOMENTS, ZONE_ADVICE, Rule, Translator, moment_literal
from hush.sql.syntax.expression import Expr, numeric

DATE_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "dayofyear", "isodow")
# In PostgreSQL, Spark, Databricks, Snowflake and BigQuery.
_OTHER_NAMES = {
    "doy": "dayofyear",
    **dict.fromkeys(("dow_iso", "dayofweek_iso", "dayofweekiso"), "isodow"),
    **dict.fromkeys(("isoweek", "weekiso"), "week"),
}
# Parts with few values. Queries that group by them have public keys.
_PART_DOMAINS = {
    "quarter": range(1, 5),
    "month": range(1, 13),
    "day": range(1, 32),
    "hour": range(24),
    "isodow": range(1, 8),
}


def cast(translate: Translator, node: exp.Cast) -> Expr:
    """Return a CAST that gives NULL if it fails."""
    inner, target = translate(node.this), _TARGETS.get(node.to.this)
    if target is None or inner.kind is ColumnKind.OTHER:
        raise translate.refuse(
            node, "this CAST is not supported", "Use BOOLEAN, BIGINT, DOUBLE, VARCHAR, DATE or TIMESTAMP"
        )
    if inner.kind is ColumnKind.NULL:
        return inner
    if target in MOMENTS and inner.op == "literal" and inner.kind is ColumnKind.TEXT:
        return moment_literal(translate, node, inner.value, target)
    op = _CASTS.get((inner.kind, target))
    if target is ColumnKind.TEXT and (text := as_text(inner)) is not None:
        return text
    if op is None and ColumnKind.INSTANT in (inner.kind, target):
        raise translate.refuse(node, "the time zone of this CAST is not known", ZONE_ADVICE)
    if op is None:
        raise translate.refuse(node, f"CAST from {inner.kind.value} to {target.value} is not supported")
    return inner if op == "" else _apply_cast(translate, op, inner, target)


def as_text(inner: Expr) -> Expr | None:
    """Return a value as text, or None if it has no text that is the same on every engine."""
    if inner.kind is ColumnKind.TEXT:
        return inner
    if inner.kind is ColumnKind.FLOAT and inner.integral:
        return Expr("integer_text", ColumnKind.TEXT, (inner,))
    return Expr("to_text", ColumnKind.TEXT, (inner,)) if inner.kind in _WITH_TEXT else None


def _apply_cast(translate: Translator, op: str, inner: Expr, target: ColumnKind) -> Expr:
    """Return the expression of a conversion."""
    if op == "round":  # engines round halves differently; here they are rounded away from 0
        return numeric("round", inner, value=0)
    if op == "number":
        return numeric("number", inner)
    if op == "to_number":
        number = translate.rebound(numeric("to_number", inner))
        return numeric("round", number, value=0) if target is ColumnKind.INT else number
    return Expr(op, target, (inner,))


_TARGETS = {
    **dict.fromkeys([exp.DType.BOOLEAN], ColumnKind.BOOL),
    **dict.fromkeys([exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT], ColumnKind.INT),
    **dict.fromkeys([exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL], ColumnKind.FLOAT),
    **dict.fromkeys([exp.DType.VARCHAR, exp.DType.TEXT, exp.DType.CHAR], ColumnKind.TEXT),
    exp.DType.DATE: ColumnKind.DATE,
    exp.DType.TIMESTAMP: ColumnKind.TIME,
    exp.DType.TIMESTAMPNTZ: ColumnKind.TIME,
    exp.DType.DATETIME: ColumnKind.TIME,
    exp.DType.TIMESTAMPTZ: ColumnKind.INSTANT,
}
_WITH_TEXT = (ColumnKind.INT, ColumnKind.DATE, ColumnKind.BOOL)
# The operation that converts one kind to another; "" changes nothing. `as_text` converts to text.
_CASTS = {
    **{
        (kind, kind): ""
        for kind in (
            ColumnKind.BOOL,
            ColumnKind.INT,
            ColumnKind.FLOAT,
            ColumnKind.TEXT,
            ColumnKind.DATE,
            ColumnKind.TIME,
            ColumnKind.INSTANT,
        )
    },
    (ColumnKind.INT, ColumnKind.FLOAT): "number",
    (ColumnKind.FLOAT, ColumnKind.INT): "round",
    (ColumnKind.BOOL, ColumnKind.INT): "bool_number",
    (ColumnKind.BOOL, ColumnKind.FLOAT): "bool_number",
    (ColumnKind.TEXT, ColumnKind.FLOAT): "to_number",
    (ColumnKind.TEXT, ColumnKind.INT): "to_number",
    (ColumnKind.TEXT, ColumnKind.DATE): "to_date",
    (ColumnKind.TIME, ColumnKind.DATE): "time_date",
    (ColumnKind.DATE, ColumnKind.TIME): "to_time",
}


def _date_part(name: str, translate: Translator, node: exp.Expr, inner: exp.Expr) -> Expr:
    """Return a part of a date or timestamp, such as its year."""
    if name not in DATE_PARTS:
        raise translate.refuse(node, f"{name} is not a supported part of a date", "Use one of " + ", ".join(DATE_PARTS))
    moment = translate.moment(inner)
    if name in ("hour", "minute") and moment.kind is ColumnKind.DATE:
        raise translate.refuse(node, f"a date has no {name}")
    return date_part(name, moment)


def date_part(name: str, moment: Expr) -> Expr:
    """Return a part of a moment that has it."""
    values = tuple(_PART_DOMAINS[name]) if name in _PART_DOMAINS else None
    # The part of a missing date is missing, so NULL is a group as well.
    domain = None if values is None else (*values, None)
    low, high = (values[0], values[-1]) if values else (0, 9999)
    return Expr("part", ColumnKind.INT, (moment,), name, low, high, integral=True, domain=domain)


def extract(translate: Translator, node: exp.Extract) -> Expr:
    """Return EXTRACT(part FROM date)."""
    name = str(node.this.this).lower()
    return _date_part(_OTHER_NAMES.get(name, name), translate, node, node.expression)


def date_part_function(name: str) -> Rule:
    """Return the rule of a function such as YEAR(date)."""
    return lambda translate, node: _date_part(name, translate, node, node.this)


def truncate(translate: Translator, node: exp.Expr) -> Expr:
    """Return DATE_TRUNC('unit', date)."""
    unit = str(getattr(node.args["unit"], "this", "")).lower()
    unit = "week" if unit.startswith(("week", "isoweek")) else unit
    if unit not in WINDOWS:
        raise translate.refuse(node, "DATE_TRUNC does not support this unit", "Use one of " + ", ".join(WINDOWS))
    return Expr("truncate", ColumnKind.TIME, (translate.moment(node.this),), unit)
