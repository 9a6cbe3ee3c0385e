"""Casts, and parts of dates: conversions that give NULL where an engine might raise."""

from __future__ import annotations

from sqlglot import exp

from hush.data.tables.catalog import WINDOWS, ColumnKind
from hush.sql.read.translate import Rule, Translator, moment_literal
from hush.sql.syntax.expression import Expr, numeric

PARTS = ("year", "quarter", "month", "day", "hour", "minute", "dayofyear")
_PART_DOMAINS = {"quarter": range(1, 5), "month": range(1, 13), "day": range(1, 32), "hour": range(24)}


def cast(to: Translator, node: exp.Cast) -> Expr:
    """Return a CAST, made total."""
    inner, target = to(node.this), _TARGETS.get(node.to.this)
    if target is None or inner.kind is ColumnKind.OTHER:
        raise to.refuse(node, "this CAST is not supported", "Types: BOOLEAN, BIGINT, DOUBLE, VARCHAR, DATE, TIMESTAMP")
    if inner.kind is ColumnKind.NULL:
        return inner
    if target in (ColumnKind.DATE, ColumnKind.TIME) and inner.op == "literal" and inner.kind is ColumnKind.TEXT:
        return moment_literal(to, node, inner.value, target)
    found = _CASTS.get((inner.kind, target))
    if found is None:
        raise to.refuse(node, f"CAST of a {inner.kind.value} to a {target.value} is not supported")
    return inner if found == "" else _apply_cast(found, inner, target)


def _apply_cast(op: str, inner: Expr, target: ColumnKind) -> Expr:
    if op == "round":  # to an integer: half is rounded up, on every engine
        return numeric("round", inner, value=0)
    if op == "number":
        return numeric("number", inner)
    if op == "to_number":
        found = numeric("to_number", inner)
        return numeric("round", found, value=0) if target is ColumnKind.INT else found
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
}
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
        )
    },
    (ColumnKind.INT, ColumnKind.FLOAT): "number",
    (ColumnKind.FLOAT, ColumnKind.INT): "round",
    (ColumnKind.BOOL, ColumnKind.INT): "bool_number",
    (ColumnKind.BOOL, ColumnKind.FLOAT): "bool_number",
    (ColumnKind.TEXT, ColumnKind.FLOAT): "to_number",
    (ColumnKind.TEXT, ColumnKind.INT): "to_number",
    (ColumnKind.TEXT, ColumnKind.DATE): "to_date",
    (ColumnKind.INT, ColumnKind.TEXT): "to_text",
    (ColumnKind.DATE, ColumnKind.TEXT): "to_text",
    (ColumnKind.BOOL, ColumnKind.TEXT): "to_text",
    (ColumnKind.TIME, ColumnKind.DATE): "time_date",
    (ColumnKind.DATE, ColumnKind.TIME): "to_time",
}


def _part(name: str, to: Translator, node: exp.Expr, inner: exp.Expr) -> Expr:
    if name not in PARTS:
        raise to.refuse(node, f"the part {name} of a date is not supported", "Parts: " + ", ".join(PARTS))
    domain = tuple(_PART_DOMAINS[name]) if name in _PART_DOMAINS else None
    found = to.moment(inner)
    if name in ("hour", "minute") and found.kind is ColumnKind.DATE:
        raise to.refuse(node, f"a date has no {name}")
    # A missing date has a missing part, so that NULL is a group too.
    known = None if domain is None else (*domain, None)
    low, high = (domain[0], domain[-1]) if domain else (0, 9999)
    return Expr("part", ColumnKind.INT, (found,), name, low, high, whole=True, domain=known)


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
    return Expr("truncate", ColumnKind.TIME, (to.moment(node.this),), unit)
