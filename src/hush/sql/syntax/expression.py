"""Expressions as hush understands them: typed, total (they never raise on data) and free of any engine's syntax."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hush.data.tables.catalog import ColumnKind

INFINITE = (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Expr:
    """One node of an expression.

    Attributes:
        op: What it does; `_emit` knows how each engine writes it.
        kind: What its values are.
        args: Its operands.
        value: What belongs to the node itself: a literal, a column's place, a part of a date.
        low: No value is below this (it is used to choose a clamp, so that nothing private hangs on it).
        high: No value is above this.
        whole: Whether numbers are integers.
        domain: All values that it can have, where the query or the catalog says so.
        unit: Whether it is, unchanged, the column that identifies the unit.
        required: Whether a missing value counts as the middle of the bounds.
    """

    op: str
    kind: ColumnKind
    args: tuple[Expr, ...] = ()
    value: Any = None
    low: float = -math.inf
    high: float = math.inf
    whole: bool = False
    domain: tuple[Any, ...] | None = None
    unit: bool = False
    required: bool = False

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    def weight(self) -> int:
        """Return a bound on the length of its text, which some guards repeat."""
        return (1 + sum(part.weight() for part in self.args)) * _REPEATS.get(self.op, 1)

    def has(self, op: str) -> bool:
        """Return whether a node of this kind is within."""
        return self.op == op or any(part.has(op) for part in self.args)


# Operations whose guard writes an operand more than once.
_REPEATS = {
    "sqrt": 2,
    "ln": 2,
    "exp": 2,
    "power": 2,
    "sum_of": 4,
    "mean_of": 5,
    "bool_number": 2,
    "to_number": 2,
    "to_date": 3,
}


def literal(value: Any, kind: ColumnKind) -> Expr:
    """Return a constant."""
    low, high = INFINITE
    if kind in (ColumnKind.INT, ColumnKind.FLOAT):
        low = high = float(value)
    return Expr("literal", kind, (), value, low, high, whole=kind is ColumnKind.INT, domain=(value,))


NULL = Expr("literal", ColumnKind.NULL, domain=(None,))


def numeric(op: str, *args: Expr, value: Any = None) -> Expr:
    """Return an operation on numbers, with what follows for its bounds."""
    low, high = _interval(op, args, value)
    whole = op in _ALWAYS_WHOLE or (op in _KEEP_WHOLE and all(part.whole for part in args))
    return Expr(op, ColumnKind.FLOAT, args, value, low, high, whole)


def _interval(op: str, args: tuple[Expr, ...], value: Any) -> tuple[float, float]:
    rule = _INTERVALS.get(op)
    if rule is None:
        return INFINITE
    low, high = rule(*[(part.low, part.high) for part in args])
    # A bound of 0 * inf or inf - inf is none.
    return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)


Pair = tuple[float, float]


def _product(a: Pair, b: Pair) -> Pair:
    ends = [x * y for x in a for y in b]
    return INFINITE if any(map(math.isnan, ends)) else (min(ends), max(ends))


def _quotient(a: Pair, b: Pair) -> Pair:
    if b[0] <= 0 <= b[1]:
        return INFINITE
    return _product(a, (1 / b[1], 1 / b[0]))


def _absolute(a: Pair) -> Pair:
    ends = sorted(map(abs, a))
    return (0.0 if a[0] <= 0 <= a[1] else ends[0]), ends[1]


def _least(*pairs: Pair) -> Pair:
    return min(p[0] for p in pairs), min(p[1] for p in pairs)


def _greatest(*pairs: Pair) -> Pair:
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


_INTERVALS: Mapping[str, Callable[..., Pair]] = {
    "number": lambda a: a,
    "neg": lambda a: (-a[1], -a[0]),
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "mul": _product,
    "div": _quotient,
    "abs": _absolute,
    "floor": lambda a: (_rounded(math.floor, a[0]), a[1]),
    "ceil": lambda a: (a[0], _rounded(math.ceil, a[1])),
    "round": lambda a: (_rounded(math.floor, a[0]), _rounded(math.ceil, a[1])),
    "least": _least,
    "greatest": _greatest,
    "nullif": lambda a, _: a,
    "length": lambda _: (0.0, math.inf),
}
_ALWAYS_WHOLE = ("floor", "ceil", "length")
_KEEP_WHOLE = ("number", "neg", "add", "sub", "mul", "abs", "least", "greatest", "nullif")


def _rounded(how: Callable[[float], int], end: float) -> float:
    return float(how(end)) if math.isfinite(end) else end


def union(parts: tuple[Expr, ...]) -> Mapping[str, Any]:
    """Return what is known of a value that is one of these."""
    real = [part for part in parts if part.kind is not ColumnKind.NULL]
    known = all(part.domain is not None for part in parts)
    return {
        "low": min((part.low for part in real), default=-math.inf),
        "high": max((part.high for part in real), default=math.inf),
        "whole": all(part.whole for part in real),
        "domain": tuple(dict.fromkeys(v for part in parts for v in part.domain or ())) if known else None,
    }
