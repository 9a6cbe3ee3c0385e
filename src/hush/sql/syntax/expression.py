"""Expressions of a query as a typed tree, independent of any engine's syntax.

`hush.sql.read` builds these trees from the parser's, `hush.sql.write` writes them for an engine, and
`hush.sql.syntax.output` evaluates the ones that combine released values. Every operation is total: it has a value, or
NULL, for all inputs, so that no row can make a query fail.

A node knows what can be inferred from declarations about its values: their kind, an interval that contains them, and
all possible values if there are few. Intervals follow from the operands by interval arithmetic (`numeric`). They bound
how much one row adds to a sum, and are computed from public declarations only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from hush.data.tables.catalog import ColumnKind

Interval = tuple[float, float]
INFINITE: Interval = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of an expression.

    Attributes:
        op: The operation; `hush.sql.write.text.expressions` knows how each engine writes it.
        kind: The kind of its values.
        args: Its operands.
        value: Data of the node itself: a literal, the alias and name of a column, a part of a date.
        low: A lower bound of its values. Sums clamp to it, so privacy does not depend on its being right.
        high: An upper bound of its values.
        integral: Whether all its values are integers.
        domain: All values that it can have, if the query or the catalog lists them.
        unit: Whether it is the column that identifies the unit, unchanged.
        owner_key: The key, as table.column, if it is a column with values of a key that tables refer to (`Through`),
            unchanged. Rows that agree in it belong to one unit.
        required: Whether a missing value counts as the middle of the bounds.
    """

    op: str
    kind: ColumnKind
    args: tuple[Expr, ...] = ()
    value: Any = None
    low: float = -math.inf
    high: float = math.inf
    integral: bool = False
    domain: tuple[Any, ...] | None = None
    unit: bool = False
    owner_key: str = ""
    required: bool = False

    @property
    def bounded(self) -> bool:
        """Whether both bounds are finite."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells a column, or a text that is read as a number, from others, whatever its bounds."""
        return self.op, self.value, self.args

    def weight(self) -> int:
        """Return a bound on the length of the SQL text, in nodes. Guards write some operands several times."""
        return (1 + sum(operand.weight() for operand in self.args)) * _REPEATS.get(self.op, 1)


# How many times the text of an operation repeats its operands.
_REPEATS = {
    "sqrt": 2,
    "ln": 2,
    "exp": 2,
    "least": 2,
    "greatest": 2,
    "power": 2,
    "round": 4,
    "floor": 3,
    "ceil": 3,
    "clamp": 3,
    "lower": 5,
    "upper": 5,
    "ilike": 5,
    "regexp_extract": 2,
    "regexp_replace": 2,
    "regexp_replace_first": 2,
    "sum_of": 12,
    "mean_of": 13,
    "bool_number": 2,
    "to_number": 2,
    "to_date": 3,
    "shift": 3,
    "move_clock": 300,
    "integer_text": 2,
}


def literal(value: Any, kind: ColumnKind) -> Expr:
    """Return a constant.

    >>> literal(3, ColumnKind.INT).bounded, literal("x", ColumnKind.TEXT).domain
    (True, ('x',))
    """
    low, high = INFINITE
    if kind in (ColumnKind.INT, ColumnKind.FLOAT):
        low = high = float(value)
    return Expr("literal", kind, (), value, low, high, integral=kind is ColumnKind.INT, domain=(value,))


NULL = Expr("literal", ColumnKind.NULL, domain=(None,))


def numeric(op: str, *args: Expr, value: Any = None) -> Expr:
    """Return an operation on numbers, with the bounds that follow from its operands.

    >>> age = Expr("column", ColumnKind.FLOAT, low=0.0, high=120.0)
    >>> double = numeric("mul", age, literal(2, ColumnKind.FLOAT))
    >>> double.low, double.high
    (0.0, 240.0)
    """
    low, high = _interval(op, args)
    integral = op in _ALWAYS_INTEGRAL or (op in _KEEPS_INTEGRAL and all(operand.integral for operand in args))
    return Expr(op, ColumnKind.FLOAT, args, value, low, high, integral)


def _interval(op: str, args: tuple[Expr, ...]) -> Interval:
    """Return an interval that contains the values of an operation."""
    if op in ("least", "greatest"):
        return _interval_of_extreme(op, args)
    rule = _INTERVALS.get(op)
    if rule is None:
        return INFINITE
    low, high = rule(*[(operand.low, operand.high) for operand in args])
    # 0 * inf and inf - inf are NaN, which bounds nothing.
    return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)


def _product(a: Interval, b: Interval) -> Interval:
    """Return the interval of a product: its ends are products of ends."""
    ends = [x * y for x in a for y in b]
    return INFINITE if any(map(math.isnan, ends)) else (min(ends), max(ends))


def _quotient(a: Interval, b: Interval) -> Interval:
    """Return the interval of a quotient, which is infinite if the divisor can be 0."""
    if b[0] <= 0 <= b[1]:
        return INFINITE
    return _product(a, (1 / b[1], 1 / b[0]))


def _logarithm(end: float) -> float:
    """Return the logarithm of an end of an interval; that of 0 and below is minus infinity."""
    return math.log(end) if end > 0 else -math.inf


def _absolute(a: Interval) -> Interval:
    """Return the interval of absolute values."""
    ends = sorted(map(abs, a))
    return (0.0 if a[0] <= 0 <= a[1] else ends[0]), ends[1]


def _interval_of_extreme(op: str, args: tuple[Expr, ...]) -> Interval:
    """Return the interval of LEAST or GREATEST, which skip missing operands.

    The least of some of the operands is at least the least lower bound of all. It is at most the upper bound of every
    operand that is certainly there. If none is, it can be any of them.
    """
    operands = [operand for operand in args if operand.kind is not ColumnKind.NULL]
    present = [operand for operand in operands if _never_null(operand)]
    lows, highs = [operand.low for operand in operands], [operand.high for operand in operands]
    if not operands:
        return INFINITE
    if op == "least":
        return min(lows), min((operand.high for operand in present), default=max(highs))
    return max((operand.low for operand in present), default=min(lows)), max(highs)


def _never_null(expression: Expr) -> bool:
    """Return whether an expression certainly has a value, judged by its form."""
    if expression.op in ("coalesce", "least", "greatest"):  # they skip missing operands
        return any(map(_never_null, expression.args))
    if expression.op == "number":
        return _never_null(expression.args[0])
    return expression.op == "literal" and expression.value is not None


_INTERVALS: Mapping[str, Callable[..., Interval]] = {
    "number": lambda a: a,
    "neg": lambda a: (-a[1], -a[0]),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "div": _quotient,
    "mod": lambda a, b: (max(a[0], -max(map(abs, b))) if a[0] < 0 else 0.0, max(map(abs, b)) if a[1] > 0 else 0.0),
    "abs": _absolute,
    "floor": lambda a: (_rounded(math.floor, a[0]), a[1]),
    "ceil": lambda a: (a[0], _rounded(math.ceil, a[1])),
    "round": lambda a: (_rounded(math.floor, a[0]), _rounded(math.ceil, a[1])),
    "nullif": lambda a, _: a,
    "sqrt": lambda a: (math.sqrt(max(a[0], 0.0)), math.sqrt(max(a[1], 0.0))),
    "ln": lambda a: (_logarithm(a[0]), _logarithm(a[1])),
    "exp": lambda a: (math.exp(min(a[0], 200.0)) if a[0] >= -200 else 0.0, math.exp(min(a[1], 200.0))),
    "length": lambda _: (0.0, math.inf),
    "position": lambda *_: (0.0, math.inf),
}
_ALWAYS_INTEGRAL = ("floor", "ceil", "length", "position")
_KEEPS_INTEGRAL = ("number", "neg", "add", "sub", "mul", "mod", "abs", "least", "greatest", "nullif")


def _rounded(direction: Callable[[float], int], end: float) -> float:
    """Return an end of an interval, rounded outwards; infinity stays."""
    return float(direction(end)) if math.isfinite(end) else end


def clamp_columns(expression: Expr) -> Expr:
    """Return an argument of an aggregate with all columns clamped to their bounds before it computes with them.

    SUM(x * x) with -1000 in a column x between 0 and 10 then adds 0 * 0. The bounds of x * x alone would make it 100.
    Conditions of CASE compare the values as they are. A column by itself is clamped where it is summed.
    """
    column = expression.args[0] if expression.op == "number" else expression
    return expression if column.op in _SOURCES else _clamp_operands(expression)


def _clamp_operands(expression: Expr) -> Expr:
    """Return an expression with the columns among its operands clamped."""
    if expression.op in _SOURCES:
        if expression.kind not in (ColumnKind.INT, ColumnKind.FLOAT) or not expression.bounded:
            return expression
        ends = (literal(expression.low, ColumnKind.FLOAT), literal(expression.high, ColumnKind.FLOAT))
        return replace(expression, op="clamp", args=(expression, *ends), value=None)
    operands = zip(expression.args, _are_values(expression), strict=True)
    return replace(expression, args=tuple(_clamp_operands(part) if clamps else part for part, clamps in operands))


def _are_values(expression: Expr) -> list[bool]:
    """Return, for each operand, whether the result is computed from its value. Conditions of CASE only decide."""
    if expression.op == "case":
        # Condition, value, condition, value, ..., default.
        last = len(expression.args) - 1
        return [index % 2 == 1 or index == last for index in range(len(expression.args))]
    return [expression.op in _CLAMPED] * len(expression.args)


def summed_columns(expression: Expr) -> list[Expr]:
    """Return the columns that an argument of an aggregate computes with. Their bounds decide what a row can add."""
    if expression.op in _SOURCES:
        return [expression]
    operands = zip(expression.args, _are_values(expression), strict=True)
    return [column for part, is_value in operands if is_value for column in summed_columns(part)]


# Where numbers come from: a column, and text that is read as a number.
_SOURCES = ("column", "to_number")
# Operations that compute a number from numbers.
_CLAMPED = (
    *("number", "neg", "add", "sub", "mul", "div", "mod", "abs", "floor", "ceil", "round", "sqrt", "ln", "exp"),
    *("least", "greatest", "coalesce", "nullif", "clamp"),
)


def union(alternatives: tuple[Expr, ...]) -> Mapping[str, Any]:
    """Return the bounds and the domain of an expression that takes the value of one of these.

    They are keyword arguments of `Expr`, for CASE and COALESCE.
    """
    not_null = [branch for branch in alternatives if branch.kind is not ColumnKind.NULL]
    listed = all(branch.domain is not None for branch in alternatives)
    return {
        "low": min((branch.low for branch in not_null), default=-math.inf),
        "high": max((branch.high for branch in not_null), default=math.inf),
        "integral": all(branch.integral for branch in not_null),
        "domain": tuple(dict.fromkeys(v for branch in alternatives for v in branch.domain or ())) if listed else None,
    }
