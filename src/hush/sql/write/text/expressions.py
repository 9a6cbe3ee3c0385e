"""The text of expressions, and of what they contain in turn: joins, windows and subqueries of conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hush.data.tables.catalog import ColumnKind
from hush.errors import Unsupported
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import NamedRelation, NestedQuery, Origin, Scan, WindowClause
from hush.sql.write.dialects import Dialect
from hush.sql.write.text.functions import WRITERS
from hush.sql.write.text.scans import same_unit, write_scan
from hush.sql.write.text.sums import sum_or_mean


def write_expression(expression: Expr, dialect: Dialect) -> str:
    """Return the text of an expression.

        >>> from collections.abc import Callable, Mapping

    from hush.data.tables.catalog import ColumnKind
        >>> from hush.sql.syntax.expression import literal, numeric
        >>> from hush.sql.write.dialects import DIALECTS
        >>> age = Expr("column", ColumnKind.FLOAT, value=("r1", "c0"))
        >>> write_expression(numeric("div", age, numeric("neg", age)), DIALECTS["duckdb"])
        '(r1.c0 / NULLIF((-r1.c0), 0))'
    """
    if expression.op in dialect.missing:  # a query is refused before, unless it is planned for another engine
        raise Unsupported(f"{expression.op.upper()} is not supported on {dialect.name}", "Compute it in a view")
    if expression.op in NESTED:
        return NESTED[expression.op](expression, dialect)
    operands = [write_expression(operand, dialect) for operand in expression.args]
    if expression.op in WRITERS:
        return WRITERS[expression.op](expression, dialect, *operands)
    return dialect.templates[expression.op].format(*operands)


def write_origin(origin: Origin, dialect: Dialect) -> str:
    """Return a FROM clause. A join of private relations compares their units, whatever the query's condition is."""
    parts = [_write_from_item(origin.first, dialect)]
    for join in origin.joins:
        conditions = []
        if join.on_unit and origin.owner is not None:
            conditions.append(same_unit(origin.owner.alias, join.item.alias))
        if join.condition is not None:
            conditions.append(write_expression(join.condition, dialect))
        keyword = "LEFT JOIN" if join.left else "INNER JOIN"
        parts.append(f"{keyword} {_write_from_item(join.item, dialect)} ON {' AND '.join(conditions) or 'TRUE'}")
    return " ".join(parts)


def _write_from_item(from_item: NamedRelation, dialect: Dialect) -> str:
    """Return a base table, or the name of a subquery, with its alias."""
    body = from_item.relation.body
    text = f"({write_scan(body, dialect)})" if isinstance(body, Scan) else from_item.relation.name
    return f"{text} AS {from_item.alias}"


def _window(expression: Expr, dialect: Dialect) -> str:
    """Return a function of a window of one unit's rows: the plan partitions by the unit, whatever the query says."""
    function, *rest = expression.args
    window: WindowClause = expression.value
    partition = [_partition(operand, dialect) for operand in rest[: window.num_parts]]
    partition = [f"{window.unit}.u0", *partition] if window.unit else partition
    clauses = [f"PARTITION BY {', '.join(partition)}"] if partition else []
    directions = zip(rest[window.num_parts :], window.directions, strict=True)
    order = ", ".join(_ordered(write_expression(operand, dialect), words, dialect) for operand, words in directions)
    clauses += [f"ORDER BY {order}"] if order else []
    over = f" OVER ({' '.join(clauses)})"
    operands = [write_expression(operand, dialect) for operand in function.args]
    if function.op in ("sum_of", "mean_of"):
        return sum_or_mean(function, dialect, operands[0], over)
    text = _WINDOW_FUNCTIONS[function.op].format(*operands, over=over, offset=function.value)
    return f"CAST({text} AS {dialect.double})" if function.op in _COUNTS else text


def _partition(operand: Expr, dialect: Dialect) -> str:
    """Return an expression of PARTITION BY, which takes no numbers on some engines. -0.0 equals 0.0."""
    text, template = write_expression(operand, dialect), dialect.templates["partition_number"]
    if operand.kind is not ColumnKind.FLOAT or template == "{0}":
        return text
    return template.format(f"({text} + {dialect.real(0.0)})")


def _ordered(text: str, direction: str, dialect: Dialect) -> str:
    """Return an expression of ORDER BY with its direction, such as DESC NULLS LAST."""
    way, _, nulls = direction.partition(" NULLS ")
    return dialect.templates[f"nulls_{nulls.lower()}"].format(text, way)


def _nested(expression: Expr, dialect: Dialect) -> str:
    """Return EXISTS, IN or a scalar subquery. The plan equates its unit with that of the row it is about."""
    *operands, where = expression.args
    query: NestedQuery = expression.value
    conditions = [] if query.units is None else [same_unit(*query.units)]
    conditions += [] if where.op == "literal" else [write_expression(where, dialect)]
    texts = [write_expression(operand, dialect) for operand in operands]
    shown = texts[-1] if texts else "1"
    select = f"SELECT {shown} FROM {write_origin(query.origin, dialect)}"
    select += f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return {"exists": f"(EXISTS ({select}))", "in_query": f"({texts[0] if texts else ''} IN ({select}))"}.get(
        expression.op, f"({select})"
    )


# What is more than an operation on the texts of its operands.
NESTED: Mapping[str, Callable[[Expr, Dialect], str]] = {
    "window": _window,
    "exists": _nested,
    "in_query": _nested,
    "scalar": _nested,
}
# Functions of a window; {over} is the window.
_WINDOW_FUNCTIONS = {
    "row_number": "ROW_NUMBER(){over}",
    "rank": "RANK(){over}",
    "dense_rank": "DENSE_RANK(){over}",
    "count_rows": "COUNT(*){over}",
    "count_of": "COUNT({0}){over}",
    "min_of": "MIN({0}){over}",
    "max_of": "MAX({0}){over}",
    "lag": "LAG({0}, {offset}){over}",
    "lead": "LEAD({0}, {offset}){over}",
}
_COUNTS = ("row_number", "rank", "dense_rank", "count_rows", "count_of")
