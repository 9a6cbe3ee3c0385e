"""Rewrites short forms of SQL as the longer forms that the other modules read.

| written | read as |
|---|---|
| GROUP BY ALL | GROUP BY every column of SELECT without an aggregate |
| a RIGHT JOIN b | b LEFT JOIN a |
| QUANTILE_CONT(x, p), where the dialect has no such function | the same function of DuckDB |
| DATE_PART('year', d), where the dialect has no such function | EXTRACT(YEAR FROM d) |
| TIMESTAMP in Spark, BigQuery and MySQL | a timestamp without a time zone, unless it is a constant with one |
| FROM_UTC_TIMESTAMP(m, 'zone') of Spark | CONVERT_TIMEZONE('UTC', 'zone', m); TO_UTC_TIMESTAMP likewise |
| TIMEZONE('zone', m) of DuckDB and PostgreSQL | m AT TIME ZONE 'zone' |
| SUM(x) FILTER (WHERE c) | SUM(CASE WHEN c THEN x END); other aggregates likewise |
| COUNT(*) FILTER (WHERE c), COUNT_IF(c) | COUNT(CASE WHEN c THEN 1 END) |
| COUNT(DISTINCT x) FILTER (WHERE c) | COUNT(DISTINCT CASE WHEN c THEN x END) |
| WHERE x <= 0.06 + 0.01 | WHERE x <= 0.07: in double precision, the sum is less |

`expand` writes out all but the aggregates before a query is read. Those are written out by `plain_aggregate` where an
aggregate is read, so that a column without an alias keeps its own text as its name.
"""

from __future__ import annotations

import re
from decimal import Decimal

from sqlglot import exp

from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser

# Aggregates of one expression, which a FILTER can be moved into.
_FILTERED = (
    *(exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevSamp, exp.StddevPop),
    *(exp.Median, exp.Quantile, exp.PercentileCont, exp.PercentileDisc),
)

_DECIMAL = re.compile(r"[0-9]{1,20}([.][0-9]{0,20})?")  # longer ones stay as they are


_OFFSET = re.compile(r":[0-9.]+ ?(Z|[+-][0-9:]+)$", re.IGNORECASE)

# Where TIMESTAMP is a type with a time zone.
_ZONED = ("spark", "bigquery", "databricks", "mysql", "mariadb")


def expand(select: exp.Select, dialect: str) -> None:
    """Write out the short forms of a query, in place.

    >>> from sqlglot import parse_one
    >>> select = parse_one("SELECT place, COUNT(*) FROM a RIGHT JOIN b USING (who) GROUP BY ALL", read="duckdb")
    >>> expand(select, "duckdb")
    >>> select.sql()
    'SELECT place, COUNT(*) FROM b LEFT JOIN a USING (who) GROUP BY place'
    """
    for function in list(select.find_all(exp.Anonymous)):
        if str(function.this).lower() == "quantile_cont" and len(function.expressions) == 2:
            value, level = function.expressions
            function.replace(exp.PercentileCont(this=value, expression=level))
        if str(function.this).lower() == "date_part" and len(function.expressions) == 2:
            part, moment = function.expressions
            function.replace(exp.Extract(this=exp.var(part.name), expression=moment))
        if str(function.this).lower() == "timezone" and len(function.expressions) == 2:
            zone, moment = function.expressions
            function.replace(exp.AtTimeZone(this=moment, zone=zone))
    for inner in list(select.find_all(exp.Select)):
        _expand_group_by_all(inner)
        _expand_right_join(inner)
        _add_constants(inner)
    if dialect in ("spark", "databricks"):
        _expand_utc(select)
    if dialect in _ZONED:
        for data_type in select.find_all(exp.DataType):
            # TIMESTAMP_LTZ is another type, and stays refused.
            if data_type.this is exp.DType.TIMESTAMPTZ and not _has_offset(data_type.parent):
                data_type.set("this", exp.DType.TIMESTAMP)


def _has_offset(cast: exp.Expr | None) -> bool:
    """Return whether a node is a constant timestamp with its distance from UTC, such as 2026-01-01 12:00:00+01:00."""
    constant = cast.this if isinstance(cast, exp.Cast) else None
    return isinstance(constant, exp.Literal) and _OFFSET.search(constant.name) is not None


def _expand_utc(select: exp.Select) -> None:
    """Write FROM_UTC_TIMESTAMP and TO_UTC_TIMESTAMP, which the parser takes for AT TIME ZONE, as CONVERT_TIMEZONE."""
    for node in list(select.find_all(exp.AtTimeZone, exp.FromTimeZone)):
        # A cast that is written in the query is to another type, as long as types are as they were written.
        if isinstance(node.this, exp.Cast) and node.this.to.this is exp.DType.TIMESTAMP:
            zones = [exp.Literal.string("UTC"), node.args["zone"]]
            source, target = zones if isinstance(node, exp.AtTimeZone) else zones[::-1]
            node.replace(exp.ConvertTimezone(source_tz=source, target_tz=target, timestamp=node.this.this))


def _expand_group_by_all(select: exp.Select) -> None:
    """Name the columns that GROUP BY ALL stands for. Constants are not keys."""
    clause = select.args.get("group")
    if clause is None or clause.args.get("all") is not True:
        return
    columns = [item.unalias() for item in select.expressions if item.find(exp.AggFunc, exp.Window) is None]
    keys = [column.copy() for column in columns if not isinstance(column, exp.Literal)]
    clause.set("all", None)
    clause.set("expressions", keys)
    if not keys:
        select.set("group", None)


def _expand_right_join(select: exp.Select) -> None:
    """Swap the sides of a RIGHT JOIN. Later ones would have a join as their left side, and stay refused."""
    joins, clause = select.args.get("joins") or [], select.args.get("from_")
    if not joins or clause is None or (joins[0].args.get("side") or "").upper() != "RIGHT":
        return
    left, right = clause.this, joins[0].this
    clause.set("this", right)
    joins[0].set("this", left)
    joins[0].set("side", "LEFT")


def _add_constants(select: exp.Select) -> None:
    """Add and subtract the constants of WHERE exactly, as decimal numbers of SQL."""
    where = select.args.get("where")
    nodes = [] if where is None else list(where.find_all(exp.Add, exp.Sub))
    for node in reversed(nodes):  # operands first
        sides = (node.this, node.expression)
        if all(
            isinstance(side, exp.Literal) and not side.is_string and _DECIMAL.fullmatch(side.this) for side in sides
        ):
            left, right = (Decimal(side.this) for side in sides)
            total = left + right if isinstance(node, exp.Add) else left - right
            number = exp.Literal.number(format(abs(total), "f"))
            node.replace(exp.Neg(this=number) if total < 0 else number)


def plain_aggregate(refuse: Refuser, node: exp.Expr) -> exp.Expr:
    """Return an aggregate without FILTER, and COUNT_IF as COUNT. Any other node stays as it is."""
    if isinstance(node, exp.CountIf):
        refuse.unless_only(node, "this", "zero_on_all_null")
        return exp.Count(this=_where(node.this, exp.Literal.number(1)))
    if not isinstance(node, exp.Filter):
        return node
    refuse.unless_only(node, "this", "expression")
    aggregate, condition = node.this, node.expression.this
    if isinstance(aggregate, exp.CountIf):
        aggregate = plain_aggregate(refuse, aggregate)
    if not isinstance(aggregate, (exp.Count, *_FILTERED)):
        raise refuse(node, *reason(node))
    if isinstance(aggregate.this, exp.Distinct):
        return _filtered_distinct(refuse, node, aggregate)
    counts_rows = isinstance(aggregate, exp.Count) and isinstance(aggregate.this, exp.Star)
    plain = aggregate.copy()
    plain.set("this", _where(condition, exp.Literal.number(1) if counts_rows else aggregate.this))
    return plain


def _filtered_distinct(refuse: Refuser, node: exp.Filter, aggregate: exp.Expr) -> exp.Expr:
    """Return COUNT(DISTINCT x) FILTER (WHERE c) as COUNT(DISTINCT CASE WHEN c THEN x END)."""
    if not isinstance(aggregate, exp.Count) or len(aggregate.this.expressions) != 1:
        raise refuse(node, *reason(node))
    plain = aggregate.copy()
    plain.this.set("expressions", [_where(node.expression.this, aggregate.this.expressions[0])])
    return plain


def _where(condition: exp.Expr, value: exp.Expr) -> exp.Case:
    """Return CASE WHEN condition THEN value END."""
    return exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())])
