"""Evaluation of expressions over released values.

HAVING, ORDER BY and the columns of an answer are computed here from noisy statistics and from keys that may be shown.
That is post-processing, which costs no privacy. The rules are SQL's: NULL is None, and logic has three values. Nothing
raises: an operation without a value, such as the square root of a negative number, gives None.

>>> from hush.data.tables.catalog import ColumnKind
>>> count = Expr("statistic", ColumnKind.FLOAT, value=0)
>>> evaluate(Expr("sqrt", ColumnKind.FLOAT, (count,)), keys=(), statistics=[16.0])
4.0
>>> evaluate(Expr("sqrt", ColumnKind.FLOAT, (count,)), keys=(), statistics=[-3.0]) is None
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from hush.sql.syntax.expression import Expr
from hush.sql.syntax.key_functions import KEY_FUNCTIONS, strict


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One expression of ORDER BY."""

    expression: Expr
    descending: bool
    nulls_first: bool


def evaluate(
    expression: Expr,
    keys: Sequence[Any],
    statistics: Sequence[float | None],
    windows: Mapping[Any, Any] = MappingProxyType({}),
) -> Any:
    """Return the value of an expression in one group, or None if it has none.

    Args:
        expression: A tree that `can_evaluate` accepts.
        keys: The group's keys. A node "key" refers to one by its index.
        statistics: The group's released statistics. A node "statistic" refers to one by its index.
        windows: The group's values of window functions. A node "window" refers to one by itself.
    """
    if expression.op == "key":
        return keys[expression.value]
    if expression.op == "statistic":
        return statistics[expression.value]
    if expression.op == "window":
        return windows[expression.value]
    if expression.op == "literal":
        return expression.value
    operands = [evaluate(operand, keys, statistics, windows) for operand in expression.args]
    if expression.op in _OF_VALUES:
        return _OF_VALUES[expression.op](expression.value, *operands)
    return OPERATIONS[expression.op](*operands)


def _and(left: Any, right: Any) -> Any:
    """Return AND in three-valued logic: False decides, whatever the other operand is."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    """Return OR in three-valued logic: True decides."""
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _in(first: Any, *candidates: Any) -> Any:
    """Return whether a value is in a list. If it is not, and the list contains NULL, the answer is unknown."""
    if first is None:
        return None
    if any(first == candidate for candidate in candidates if candidate is not None):
        return True
    return None if None in candidates else False


def _case(*parts: Any) -> Any:
    """Return the value after the first true condition: condition, value, condition, value, ..., default."""
    for condition, value in zip(parts[:-1:2], parts[1:-1:2], strict=True):
        if condition is True:
            return value
    return parts[-1]


def _ignoring_null(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule skip None. PostgreSQL, DuckDB and Spark all define LEAST and GREATEST in this way."""
    return lambda *parts: rule(present) if (present := [part for part in parts if part is not None]) else None


@strict
def _rounded(number: float, digits: int) -> float:
    """Return a number with some digits; halves are rounded away from 0."""
    return math.copysign(math.floor(abs(number) * 10**digits + 0.5) / 10**digits, number)


def _of_value(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule total whose first argument is the data of its node, which may be None."""
    return lambda value, *operands: strict(partial(rule, value))(*operands)


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "number": strict(float),
    "neg": strict(lambda a: -a),
    "add": strict(lambda a, b: a + b),
    "sub": strict(lambda a, b: a - b),
    "mul": strict(lambda a, b: a * b),
    "div": strict(lambda a, b: a / b),
    "mod": strict(math.fmod),
    "abs": strict(abs),
    "floor": strict(lambda a: float(math.floor(a))),
    "ceil": strict(lambda a: float(math.ceil(a))),
    "sqrt": strict(math.sqrt),
    "ln": strict(math.log),
    "exp": strict(math.exp),
    "eq": strict(lambda a, b: a == b),
    "ne": strict(lambda a, b: a != b),
    "lt": strict(lambda a, b: a < b),
    "le": strict(lambda a, b: a <= b),
    "gt": strict(lambda a, b: a > b),
    "ge": strict(lambda a, b: a >= b),
    "between": strict(lambda a, low, high: low <= a <= high),
    "not": strict(lambda a: not a),
    "and": _and,
    "or": _or,
    "in": _in,
    "is_null": lambda a: a is None,
    "is_true": lambda a: a is True,
    "is_false": lambda a: a is False,
    "case": _case,
    "least": _ignoring_null(min),
    "greatest": _ignoring_null(max),
    "coalesce": lambda *parts: next((part for part in parts if part is not None), None),
    "nullif": lambda a, b: None if a == b else a,
    "list": lambda *parts: list(parts),
    "concat_ws": lambda separator, *texts: separator.join(text for text in texts if text is not None),
}
# Operations whose first argument is the data of the node.
_OF_VALUES: Mapping[str, Callable[..., Any]] = {
    "round": lambda digits, a: _rounded(a, digits),
    **{name: _of_value(rule) for name, rule in KEY_FUNCTIONS.items()},
}


def can_evaluate(expression: Expr) -> bool:
    """Return whether `evaluate` knows every operation of an expression."""
    return expression.op in ("key", "statistic", "literal") or (
        (expression.op == "window" or expression.op in OPERATIONS or expression.op in _OF_VALUES)
        and all(can_evaluate(operand) for operand in expression.args)
    )


def sort_key(value: Any, descending: bool, nulls_first: bool) -> tuple[int, Any]:
    """Return a key that sorts a value as ORDER BY does, with missing values at one end."""
    if value is None:
        return (0 if nulls_first else 2, 0)
    return (1, _Reversed(value) if descending else value)


class _Reversed:
    """A value that compares the other way round. Text has no negative to sort by."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)
