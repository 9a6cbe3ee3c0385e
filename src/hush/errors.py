"""What hush raises, and the checks that raise it.

One grammar for every message: ``name=value: expected P. Why. Do this instead.`` Messages quote the caller's own
arguments and nothing else: never a record, a count or any value that depends on data. Checks are written so that
NaN fails them (``if not value > 0``), and they reject what only looks like a number (booleans, strings).
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

__all__ = [
    "BudgetExceeded",
    "HushError",
    "InvalidArgument",
    "Unsupported",
    "check_count",
    "check_delta",
    "check_epsilon",
    "check_fraction",
    "check_instance",
    "check_positive",
    "check_probability",
]


class HushError(Exception):
    """Base of everything that hush raises on purpose."""


class InvalidArgument(HushError, ValueError):
    """An argument is outside what the theorem or the code can take."""

    def __init__(self, name: str, value: object, expected: str, *advice: str) -> None:
        super().__init__(" ".join([f"{name}={show(value)}: expected {_sentence(expected)}", *map(_sentence, advice)]))


class Unsupported(HushError, TypeError):
    """A combination for which no proof is implemented; the message names the part."""

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(" ".join(map(_sentence, [what, *advice])))


class BudgetExceeded(HushError):
    """The request was refused, and nothing was released, because it would overspend a budget."""

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(" ".join(map(_sentence, [what, *advice])))


def show(value: object) -> str:
    """Write an argument for a message: three digits for a float, a bounded repr for everything else."""
    if isinstance(value, float):
        return f"{value:.3g}"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_positive(name: str, value: Any, *advice: str, maximum: float = math.inf) -> float:
    """Return ``value`` as a float if it is a finite real number in (0, maximum]."""
    number = _real(name, value, "a finite number > 0", advice)
    if not (0 < number <= maximum and number < math.inf):
        limit = "" if maximum == math.inf else f" and <= {maximum:.3g}"
        raise InvalidArgument(name, value, f"a finite number > 0{limit}", *advice)
    return number


def check_epsilon(name: str, value: Any, *advice: str) -> float:
    """Return ``value`` as a float if it is a finite real number >= 0."""
    number = _real(name, value, "a finite number >= 0", advice)
    if not 0 <= number < math.inf:
        raise InvalidArgument(name, value, "a finite number >= 0", *advice)
    return number


def check_delta(name: str, value: Any, *advice: str) -> float:
    """Return ``value`` as a float if it is in [0, 1)."""
    number = _real(name, value, "a number in [0, 1)", advice)
    if not 0 <= number < 1:
        raise InvalidArgument(name, value, "a number in [0, 1)", *advice)
    return number


def check_fraction(name: str, value: Any, *advice: str) -> float:
    """Return ``value`` as a float if it is in [0, 1]."""
    number = _real(name, value, "a number in [0, 1]", advice)
    if not 0 <= number <= 1:
        raise InvalidArgument(name, value, "a number in [0, 1]", *advice)
    return number


def check_probability(name: str, value: Any, *advice: str) -> float:
    """Return ``value`` as a float if it is in (0, 1]."""
    number = _real(name, value, "a number in (0, 1]", advice)
    if not 0 < number <= 1:
        raise InvalidArgument(name, value, "a number in (0, 1]", *advice)
    return number


def check_count(name: str, value: Any, *advice: str, minimum: int = 1) -> int:
    """Return ``value`` as an int if it is an integer >= minimum (2.0 is not an integer, nor is True)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not int(value) >= minimum:
        raise InvalidArgument(name, value, f"an integer >= {minimum}", *advice)
    return int(value)


def check_instance(name: str, value: Any, kind: type | tuple[type, ...], *advice: str) -> None:
    """Refuse a value that is not of the given type."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidArgument(name, value, " or ".join(k.__name__ for k in kinds), *advice)


def _real(name: str, value: Any, expected: str, advice: tuple[str, ...]) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgument(name, value, expected, *advice)
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        raise InvalidArgument(name, value, expected, *advice) from None


def _sentence(text: str) -> str:
    return text if text.endswith((".", "?", "!", ":")) else text + "."
