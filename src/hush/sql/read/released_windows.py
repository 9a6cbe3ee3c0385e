"""Window functions of the outer query, which are computed from released values.

| written | allowed |
|---|---|
| ROW_NUMBER, RANK, DENSE_RANK, PERCENT_RANK, CUME_DIST, NTILE(4) | yes |
| LAG, LEAD, FIRST_VALUE, LAST_VALUE of keys and aggregates | yes |
| SUM, AVG, MIN, MAX, COUNT of keys and aggregates, such as SUM(COUNT(*)) OVER () | yes |
| PARTITION BY, ORDER BY, ROWS BETWEEN constants | yes |
| any of these over the rows of a table, or in a subquery, WHERE or HAVING | no |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import NULL, Expr, literal
from hush.sql.syntax.output import Order
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.windows import Frame, ReleasedWindow, windows_in

_LARGEST_OFFSET = 1_000_000  # of LAG, of a frame, and in NTILE: no answer has more rows
_NUMBERING: Mapping[type[exp.Expr], str] = {
    exp.RowNumber: "row_number",
    exp.Rank: "rank",
    exp.DenseRank: "dense_rank",
    exp.PercentRank: "percent_rank",
    exp.CumeDist: "cume_dist",
}
_OF_VALUES: Mapping[type[exp.Expr], str] = {
    exp.FirstValue: "first_value",
    exp.LastValue: "last_value",
    exp.Min: "min",
    exp.Max: "max",
    exp.Count: "count",
}
_OF_NUMBERS: Mapping[type[exp.Expr], str] = {exp.Sum: "sum", exp.Avg: "avg"}
_SHIFTS: Mapping[type[exp.Expr], str] = {exp.Lag: "lag", exp.Lead: "lead"}


def released_window(translate: Translator, node: exp.Window) -> Expr:
    """Return a window function over released values.

    Args:
        translate: Translates expressions over groups.
        node: The function with its OVER.
    """
    translate.refuse.unless_only(node, "this", "partition_by", "order", "spec", "over")
    function, args, kind = _function(translate, node.this)
    partition = tuple(translate(part) for part in node.args.get("partition_by") or ())
    order = ordering(translate.refuse, node.args.get("order"), translate)
    window = ReleasedWindow(function, args, partition, order, _frame(translate, node.args.get("spec")))
    operands = (*args, *partition, *(by.expression for by in order))
    if any(True for operand in operands for _ in windows_in(operand)):
        raise translate.refuse(node, "a window inside a window is refused", "Compute it from the answer")
    return Expr("window", kind, operands, window, integral=function in _NUMBERING.values())


def ordering(refuse: Refuser, clause: exp.Expr | None, expression_of: Callable[[exp.Expr], Expr]) -> tuple[Order, ...]:
    """Return the expressions of an ORDER BY over released values."""
    order = []
    for node in clause.expressions if clause is not None else ():
        refuse.unless_only(node, "this", "desc", "nulls_first")
        descending, nulls_first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
        order.append(Order(expression=expression_of(node.this), descending=descending, nulls_first=nulls_first))
    return tuple(order)


def _function(translate: Translator, node: exp.Expr) -> tuple[str, tuple[Expr, ...], ColumnKind]:
    """Return the name of a window function, its arguments, and the kind of its values."""
    kind = type(node)
    if kind in _NUMBERING:
        translate.refuse.unless_only(node)
        return _NUMBERING[kind], (), ColumnKind.FLOAT
    if kind is exp.Ntile:
        tiles = literal(_offset(translate, node.this, lowest=1), ColumnKind.INT)
        return "ntile", (tiles,), ColumnKind.FLOAT
    if kind in _SHIFTS:
        return _shift(translate, node)
    if kind not in _OF_VALUES and kind not in _OF_NUMBERS:
        raise translate.refuse(node, *reason(exp.Window()))
    translate.refuse.unless_only(node, "this", "big_int")
    if kind in _OF_NUMBERS:
        return _OF_NUMBERS[kind], (translate.number(node.this),), ColumnKind.FLOAT
    value = literal(1, ColumnKind.INT) if isinstance(node.this, exp.Star) else translate(node.this)
    return _OF_VALUES[kind], (value,), ColumnKind.FLOAT if kind is exp.Count else value.kind


def _shift(translate: Translator, node: exp.Expr) -> tuple[str, tuple[Expr, ...], ColumnKind]:
    """Return LAG(x, offset, default) or LEAD."""
    translate.refuse.unless_only(node, "this", "offset", "default")
    value, default = translate(node.this), NULL
    offset = 1 if node.args.get("offset") is None else _offset(translate, node.args["offset"], lowest=0)
    if node.args.get("default") is not None:
        value, default = translate.same_kind([node.this, node.args["default"]])
    return _SHIFTS[type(node)], (value, literal(offset, ColumnKind.INT), default), value.kind


def _frame(translate: Translator, node: exp.Expr | None) -> Frame | None:
    """Return the rows of ROWS BETWEEN."""
    if node is None:
        return None
    ends = [(node.args.get(end), str(node.args.get(f"{end}_side") or "")) for end in ("start", "end")]
    whole = str(node.args.get("kind")).upper() == "RANGE" and [str(end) for end, _ in ends] == [
        "UNBOUNDED",
        "CURRENT ROW",
    ]
    if whole:  # what it is anyway
        return None
    if str(node.args.get("kind")).upper() != "ROWS" or node.args.get("exclude") is not None:
        raise translate.refuse(
            node, "a window takes ROWS BETWEEN only", "Write ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"
        )
    (start, start_side), (end, end_side) = ends
    return _bound(translate, start, start_side), 0 if end is None else _bound(translate, end, end_side)


def _bound(translate: Translator, node: object, side: str) -> int | None:
    """Return one end of a frame, counted from the current row; None if it is unbounded."""
    if not isinstance(node, exp.Expr):
        return None if str(node).upper() == "UNBOUNDED" else 0
    offset = _offset(translate, node, lowest=0)
    return -offset if side.upper() == "PRECEDING" else offset


def _offset(translate: Translator, node: exp.Expr, *, lowest: int) -> int:
    """Return a constant number of rows."""
    offset = int(translate.constant(node, int))
    if not lowest <= offset <= _LARGEST_OFFSET:
        raise translate.refuse(node, f"expected a number of rows from {lowest} to {_LARGEST_OFFSET}")
    return offset
