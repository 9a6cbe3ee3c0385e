"""Window functions in subqueries: over the rows of one unit.

The plan partitions by the unit itself. A query that does not do so is refused, because its answer would differ from
what it asks for.

Which of two rows comes first must not depend on the rows of other units, which may change the order in which an engine
reads rows. ROW_NUMBER, LAG and LEAD therefore order rows by the query's expressions and then by all columns that the
query can name: rows that still tie are interchangeable. The other functions give the same value to rows that tie.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.grouping import unit_aggregate
from hush.sql.read.relations.tables import column_of
from hush.sql.read.translator import Hook, Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import Origin, WindowClause, from_items_of

_FUNCTION_ADVICE = "Use ROW_NUMBER, RANK, DENSE_RANK, LAG, LEAD, COUNT, SUM, AVG, MIN or MAX"
_PART_ADVICE = "Write OVER (PARTITION BY unit ...)"


def window_functions(row: Translator, origin: Origin) -> Hook:
    """Return the hook that translates the window functions of a subquery.

    Args:
        row: Translates expressions over rows.
        origin: The FROM clause of the subquery.
    """
    return lambda node: _window(row, origin, node) if isinstance(node, exp.Window) else None


def _window(row: Translator, origin: Origin, node: exp.Window) -> Expr:
    """Return a window function."""
    if node.args.get("spec") is not None:
        raise row.refuse(node, "frames of windows are not supported", "Leave out ROWS or RANGE")
    row.refuse.unless_only(node, "this", "partition_by", "order", "over")
    function = _function(row, node.this)
    parts = [row(part) for part in node.args.get("partition_by") or ()]
    owner = origin.owner
    if owner is not None and (owner.relation.units > 1 or not any(part.unit or part.owner_key for part in parts)):
        why = "a window must be one of a single unit's rows, or a row's value would depend on other units"
        raise row.refuse(node, why, _PART_ADVICE)
    clause = node.args.get("order")
    ordered = [] if clause is None else clause.expressions
    for item in ordered:
        row.refuse.unless_only(item, "this", "desc", "nulls_first")
    order = [(row(item.this), _direction(item)) for item in ordered]
    if function.op in ("row_number", "lag", "lead"):
        order += [(column, "ASC NULLS LAST") for column in _all_columns(origin)]
    elif function.op in ("rank", "dense_rank") and not order:
        raise row.refuse(node, "a rank needs ORDER BY within OVER", "Write OVER (PARTITION BY unit ORDER BY x)")
    window = WindowClause(owner.alias if owner else None, len(parts), tuple(direction for _, direction in order))
    args = (function, *parts, *[expression for expression, _ in order])
    expression = Expr("window", function.kind, args, window, function.low, function.high, function.integral)
    row.refuse.unless_written(node, expression)
    return expression


def _function(row: Translator, node: exp.Expr) -> Expr:
    """Return the function of a window."""
    rule = _FUNCTIONS.get(type(node))
    if rule is not None:
        return rule(row, node)
    aggregate = None if isinstance(node, exp.Window) else unit_aggregate(row, node)
    if aggregate is None or aggregate.op in ("distinct_of", "any_of", "all_of"):
        raise row.refuse(node, "this is no function of a window in a subquery", _FUNCTION_ADVICE)
    return aggregate


def _direction(item: exp.Expr) -> str:
    """Return the direction of an expression of ORDER BY. Engines differ in where NULL comes by default."""
    direction = "DESC" if item.args.get("desc") else "ASC"
    return f"{direction} NULLS {'FIRST' if item.args.get('nulls_first') else 'LAST'}"


def _all_columns(origin: Origin) -> list[Expr]:
    """Return all columns of a FROM clause that queries can name."""
    return [
        column_of(from_item, entry)
        for from_item in from_items_of(origin)
        for entry in from_item.relation.fields
        if entry.prototype.kind is not ColumnKind.OTHER
    ]


def _number(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    """Return the rule of ROW_NUMBER, RANK or DENSE_RANK."""

    def rule(row: Translator, node: exp.Expr) -> Expr:
        row.refuse.unless_only(node)
        return Expr(op, ColumnKind.FLOAT, low=1.0, integral=True)

    return rule


def _neighbour(op: str) -> Callable[[Translator, exp.Expr], Expr]:
    """Return the rule of LAG or LEAD, which are NULL where there is no such row."""

    def rule(row: Translator, node: exp.Expr) -> Expr:
        row.refuse.unless_only(node, "this", "offset")
        offset = 1 if node.args.get("offset") is None else row.constant(node.args["offset"], int)
        if not 0 <= offset <= 1000:
            raise row.refuse(node, "LAG and LEAD take a constant number of rows from 0 to 1000")
        inner = row(node.this)
        domain = None if inner.domain is None else tuple(dict.fromkeys((*inner.domain, None)))
        return Expr(op, inner.kind, (inner,), offset, inner.low, inner.high, inner.integral, domain)

    return rule


_FUNCTIONS: Mapping[type[exp.Expr], Callable[[Translator, exp.Expr], Expr]] = {
    exp.RowNumber: _number("row_number"),
    exp.Rank: _number("rank"),
    exp.DenseRank: _number("dense_rank"),
    exp.Lag: _neighbour("lag"),
    exp.Lead: _neighbour("lead"),
}
