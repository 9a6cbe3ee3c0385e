"""Casts, and parts of dates: conversions that give NULL where an engine might raise."""

from __future__ import annotations

from sqlglot import exp

from hush.data.tables.catalog import WINDOWS, Kind
from hush.sql.read.translate import Rule, Translator, moment_literal
from hush.sql.syntax.expression import Expr, numeric

PARTS = ("year", "quarter", "month", "day", "hour", "minute", "dayofyear")
_PART_DOMAINS = {"quarter": range(1, 5), "month": range(1, 13), "day": range(1, 32), "hour": range(24)}


def cast(to: Translator, node: exp.Cast) -> Expr:
    """Return a CAST, made total."""
    inner, target = to(node.this), _TARGETS.get(node.to.this)
    if target is None or inner.kind is Kind.OTHER:
        raise to.refuse(node, "this CAST is not supported", "Types: BOOLEAN, BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP")
    if inner.kind is Kind.NULL:
        return inner
    if target in (Kind.DATE, Kind.TIME) and inner.op == "literal" and inner.kind is Kind.TEXT:
        return moment_literal(to, node, inner.value, target)
    found = _CASTS.get((inner.kind, target))
    if found is None:
        raise to.refuse(node, f"CAST of a {inner.kind.value} to a {target.value} is not supported")
    return inner if found == "" else _apply_cast(found, inner, target)


def _apply_cast(op: str, inner: Expr, target: Kind) -> Expr:
    if op == "round":  # to an integer: half is rounded up, on every engine
        return numeric("round", inner, value=0)
    if op == "number":
        return numeric("number", inner)
    if op == "to_number":
        found = numeric("to_number", inner)
        return numeric("round", found, value=0) if target is Kind.INT else found
    return Expr(op, target, (inner,))


_TARGETS = {
    **dict.fromkeys([exp.DType.BOOLEAN], Kind.BOOL),
    **dict.fromkeys([exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT], Kind.INT),
    **dict.fromkeys([exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL], Kind.FLOAT),
    **dict.fromkeys([exp.DType.VARCHAR, exp.DType.TEXT, exp.DType.CHAR], Kind.TEXT),
    exp.DType.DATE: Kind.DATE,
    exp.DType.TIMESTAMP: Kind.TIME,
    exp.DType.TIMESTAMPNTZ: Kind.TIME,
    exp.DType.DATETIME: Kind.TIME,
}
_CASTS = {
    **{(kind, kind): "" for kind in (Kind.BOOL, Kind.INT, Kind.FLOAT, Kind.TEXT, Kind.DATE, Kind.TIME)},
    (Kind.INT, Kind.FLOAT): "number",
    (Kind.FLOAT, Kind.INT): "round",
    (Kind.BOOL, Kind.INT): "bool_number",
    (Kind.BOOL, Kind.FLOAT): "bool_number",
    (Kind.TEXT, Kind.FLOAT): "to_number",
    (Kind.TEXT, Kind.INT): "to_number",
    (Kind.TEXT, Kind.DATE): "to_date",
    (Kind.INT, Kind.TEXT): "to_text",
    (Kind.DATE, Kind.TEXT): "to_text",
    (Kind.BOOL, Kind.TEXT): "to_text",
    (Kind.TIME, Kind.DATE): "time_date",
    (Kind.DATE, Kind.TIME): "to_time",
}


def _part(name: str, to: Translator, node: exp.Expr, inner: exp.Expr) -> Expr:
    if name not in PARTS:
        raise to.refuse(node, f"the part {name} of a date is not supported", "Parts: " + ", ".join(PARTS))
    domain = tuple(_PART_DOMAINS[name]) if name in _PART_DOMAINS else None
    found = to.moment(inner)
    if name in ("hour", "minute") and found.kind is Kind.DATE:
        raise to.refuse(node, f"a date has no {name}")
    # A missing date has a missing part, so that NULL is a group too.
    known = None if domain is None else (*domain, None)
    low, high = (domain[0], domain[-1]) if domain else (0, 9999)
    return Expr("part", Kind.INT, (found,), name, low, high, whole=True, domain=known)


def extract(to: Translator, node: exp.Extract) -> Expr:
    """Return EXTRACT(part FROM date)."""
    return _part(str(node.this.this).lower(), to, node, node.expression)


def named_part(name: str) -> Rule:
    """Return the rule of a function like YEAR."""
    return lambda to, node: _part(name, to, node, node.this)


def truncate(to: Translator, node: exp.Expr) -> Expr:
    """Return DATE_TRUNC."""
    unit = str(getattr(node.args["unit"], "this", "")).lower()
    unit = "week" if unit.startswith("week") else unit
    if unit not in WINDOWS:
        raise to.refuse(node, "this unit of DATE_TRUNC is not supported", "Units: " + ", ".join(WINDOWS))
    return Expr("truncate", Kind.TIME, (to.moment(node.this),), unit)
