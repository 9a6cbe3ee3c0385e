"""What is computed from released values: post-processing, which costs nothing and never raises."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hush.sql.syntax.expression import Expr

Values = Mapping[str, Any]


def evaluate(found: Expr, keys: Sequence[Any], statistics: Sequence[float | None]) -> Any:
    """Return the value of an expression over one group's keys and statistics; None where it has none."""
    if found.op == "key":
        return keys[found.value]
    if found.op == "statistic":
        return statistics[found.value]
    if found.op == "literal":
        return found.value
    return OPERATIONS[found.op](*[evaluate(part, keys, statistics) for part in found.args], **_options(found))


def _options(found: Expr) -> dict[str, Any]:
    return {"digits": found.value} if found.op == "round" else {}


def _strict(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Make a rule give None for None, and where there is no value."""

    def total(*args: Any, **options: Any) -> Any:
        if any(arg is None for arg in args):
            return None
        try:
            found = rule(*args, **options)
        except (ArithmeticError, ValueError, TypeError):
            return None
        return None if isinstance(found, float) and not math.isfinite(found) else found

    return total


def _and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _in(first: Any, *rest: Any) -> Any:
    if first is None:
        return None
    if any(first == other for other in rest if other is not None):
        return True
    return None if None in rest else False


def _case(*parts: Any) -> Any:
    for condition, value in zip(parts[:-1:2], parts[1:-1:2], strict=True):
        if condition is True:
            return value
    return parts[-1]


def _present(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *parts: rule(there) if (there := [part for part in parts if part is not None]) else None


OPERATIONS: Mapping[str, Callable[..., Any]] = {
    "number": _strict(float),
    "neg": _strict(lambda a: -a),
    "add": _strict(lambda a, b: a + b),
    "sub": _strict(lambda a, b: a - b),
    "mul": _strict(lambda a, b: a * b),
    "div": _strict(lambda a, b: a / b),
    "mod": _strict(math.fmod),
    "abs": _strict(abs),
    "floor": _strict(lambda a: float(math.floor(a))),
    "ceil": _strict(lambda a: float(math.ceil(a))),
    "round": _strict(lambda a, digits: math.floor(a * 10**digits + 0.5) / 10**digits),
    "sqrt": _strict(math.sqrt),
    "ln": _strict(math.log),
    "exp": _strict(math.exp),
    "eq": _strict(lambda a, b: a == b),
    "ne": _strict(lambda a, b: a != b),
    "lt": _strict(lambda a, b: a < b),
    "le": _strict(lambda a, b: a <= b),
    "gt": _strict(lambda a, b: a > b),
    "ge": _strict(lambda a, b: a >= b),
    "between": _strict(lambda a, low, high: low <= a <= high),
    "not": _strict(lambda a: not a),
    "and": _and,
    "or": _or,
    "in": _in,
    "is_null": lambda a: a is None,
    "is_true": lambda a: a is True,
    "is_false": lambda a: a is False,
    "case": _case,
    "least": _present(min),
    "greatest": _present(max),
    "coalesce": lambda *parts: next((part for part in parts if part is not None), None),
    "nullif": lambda a, b: None if a == b else a,
}


def can_evaluate(found: Expr) -> bool:
    """Return whether an expression can be computed after the release."""
    return found.op in ("key", "statistic", "literal") or (
        found.op in OPERATIONS and all(can_evaluate(part) for part in found.args)
    )


def sort_key(value: Any, descending: bool, nulls_first: bool) -> tuple[int, Any]:
    """Return what orders a value; missing ones stand together at one end."""
    if value is None:
        return (0 if nulls_first else 2, 0)
    return (1, _Reversed(value) if descending else value)


class _Reversed:
    """A value whose order is turned round."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.value < self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)
