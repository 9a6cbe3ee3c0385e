"""The errors that hush raises, and the argument checks that raise them.

Every message follows one grammar: ``name=value: expected P. Why. Do this instead.`` A message quotes your own
arguments and nothing else. It never contains a record, a count or any other value that depends on data, because an
error message is an output like any other and would leak.

The checks are written so that NaN fails them (``if not value > 0`` instead of ``if value <= 0``). They also refuse
values that merely look like numbers, such as ``True`` and ``"1"``.

>>> check_positive("epsilon", 0.5)
0.5
>>> check_positive("epsilon", float("nan"), "Smaller values are more private")
Traceback (most recent call last):
    ...
hush.errors.InvalidArgument: epsilon=nan: expected a finite number > 0. Smaller values are more private.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

# The checks below are shared inside hush, not public.
__all__ = ["BudgetExceeded", "HushError", "InvalidArgument", "Unsupported"]


class HushError(Exception):
    """Base class of every error that hush raises on purpose.

    Catch it to tell refusals from bugs: a refusal is part of the interface, and nothing was released.

    >>> try:
    ...     check_delta("delta", 1.5)
    ... except HushError as error:
    ...     print(error)
    delta=1.5: expected a number in [0, 1).
    """


class InvalidArgument(HushError, ValueError):
    """An argument is outside the range that the theorem or the code allows.

    It is a ValueError, too, so code that does not know hush handles it.

    Args:
        name: The argument's name as you wrote it in the call.
        value: The refused value; `show` shortens it.
        expected: The condition that it fails, as a phrase after "expected".
        *advice: Sentences that explain why, and what to do instead.

    >>> raise InvalidArgument("clip_norm", -1.0, "a finite number > 0", "It bounds each gradient")
    Traceback (most recent call last):
        ...
    hush.errors.InvalidArgument: clip_norm=-1: expected a finite number > 0. It bounds each gradient.
    """

    def __init__(self, name: str, value: object, expected: str, *advice: str) -> None:
        super().__init__(" ".join([f"{name}={show(value)}: expected {_sentence(expected)}", *map(_sentence, advice)]))


class Unsupported(HushError, TypeError):
    """No proof is implemented for this combination; the message names the unsupported part.

    hush refuses rather than approximates: an epsilon without a proof would look like any other.

    >>> raise Unsupported("shuffling has no event here", "Use Poisson sampling")
    Traceback (most recent call last):
        ...
    hush.errors.Unsupported: shuffling has no event here. Use Poisson sampling.

    ``what`` is the message without the advice, which is for users of Python.
    """

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(" ".join(map(_sentence, [what, *advice])))
        self.what = _sentence(what)


class BudgetExceeded(HushError):
    """The request would overspend a budget. It was refused before anything was released.

    >>> raise BudgetExceeded("this query costs epsilon = 2, and 1.5 is left", "Ask for less")
    Traceback (most recent call last):
        ...
    hush.errors.BudgetExceeded: this query costs epsilon = 2, and 1.5 is left. Ask for less.
    """

    def __init__(self, what: str, *advice: str) -> None:
        super().__init__(" ".join(map(_sentence, [what, *advice])))


def show(value: object) -> str:
    """Format an argument for a message: three digits for a float, a repr of at most 60 characters for the rest."""
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


def check_confidence(name: str, value: Any, *advice: str) -> float:
    """Return ``value`` as a float if it is in (0, 1)."""
    number = _real(name, value, "a number in (0, 1)", advice)
    if not 0 < number < 1:
        raise InvalidArgument(name, value, "a number in (0, 1)", *advice)
    return number


def check_count(name: str, value: Any, *advice: str, minimum: int = 1) -> int:
    """Return ``value`` as an int if it is an integer >= minimum (2.0 is not an integer, nor is True)."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not int(value) >= minimum:
        raise InvalidArgument(name, value, f"an integer >= {minimum}", *advice)
    return int(value)


def check_instance(name: str, value: Any, kind: type | tuple[type, ...], *advice: str) -> None:
    """Refuse a value that is not an instance of ``kind``; the message names the accepted types."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        raise InvalidArgument(name, value, " or ".join(k.__name__ for k in kinds), *advice)


def _real(name: str, value: Any, expected: str, advice: tuple[str, ...]) -> float:
    """Return a real number as a float; refuse booleans, which Python counts as integers."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidArgument(name, value, expected, *advice)
    try:
        return float(value)
    except OverflowError:  # an integer beyond the range of floats
        raise InvalidArgument(name, value, expected, *advice) from None


def _sentence(text: str) -> str:
    """End a string with a full stop unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!", ":")) else text + "."
