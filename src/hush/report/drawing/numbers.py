"""Numbers for readers, rounded so that claims stay true: upper bounds up, lower bounds down."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal
from numbers import Real
from typing import Any, Final

MISSING: Final = "not measured"

_SPACE = "\u00a0"  # non-breaking: a figure and its unit stay on one line
_DIGITS = 3

# Larger numbers are useless in a plot, and their differences could overflow.
_LARGEST = 1e100


def number(value: Any) -> float | None:
    """Return a finite number as a float, and None for anything else (NaN, text, booleans, None)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    try:
        result = float(value)
    except OverflowError:
        return None
    return result if abs(result) <= _LARGEST else None  # NaN fails the comparison


def share(value: Any) -> float | None:
    """Return a number in [0, 1], and None for anything else."""
    result = number(value)
    return result if result is not None and 0 <= result <= 1 else None


def interval(part: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return the interval of a part, if it has both ends in the right order."""
    low, high = share(part.get("low")), share(part.get("high"))
    return None if low is None or high is None or low > high else (low, high)


def epsilon(value: Any) -> str:
    """Format an epsilon with three digits, rounded up.

    >>> epsilon(2.9996), epsilon(0.1), epsilon(12.34), epsilon(math.inf)
    ('3.00', '0.100', '12.4', 'unbounded')
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        return "not known"
    try:
        finite = float(value)
    except OverflowError:
        return "unbounded"
    if not finite >= 0:
        return "not known"
    return "unbounded" if finite == math.inf else _digits(finite, ROUND_CEILING)


def at_least(value: float) -> str:
    """Format a lower bound with three digits, rounded down."""
    return _digits(value, ROUND_FLOOR)


def delta(value: float) -> str:
    """Format a delta, rounded up, without trailing zeros."""
    text = _digits(value, ROUND_CEILING)
    mantissa, mark, exponent = text.partition("e")
    return (mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa) + mark + exponent


def percent(value: Any) -> str:
    r"""Format a fraction as a percentage with one decimal.

    >>> percent(0.8531).replace("\xa0", " "), percent(float("nan"))
    ('85.3 %', 'not measured')
    """
    known = share(value)
    return MISSING if known is None else f"{_hundredths(known, ROUND_HALF_EVEN)}{_SPACE}%"


def at_most(value: float) -> str:
    r"""Format a fraction as a percentage, rounded up, but to 100 only if it is 1.

    >>> at_most(0.7311).replace("\xa0", " "), at_most(0.99996).replace("\xa0", " ")
    ('73.2 %', '99.996 %')
    """
    exact, step = Decimal(repr(value)) * 100, Decimal("0.1")
    while exact < 100 <= exact.quantize(step, rounding=ROUND_CEILING):
        step /= 10
    return f"{exact.quantize(step, rounding=ROUND_CEILING):f}{_SPACE}%"


def percent_interval(ends: tuple[float, float] | None) -> str:
    """Format an interval in percent, rounded outwards."""
    if ends is None:
        return "no interval"
    return f"{_hundredths(ends[0], ROUND_FLOOR)} to {_hundredths(ends[1], ROUND_CEILING)}{_SPACE}%"


def points(difference: float) -> str:
    """Format a difference of fractions in percentage points."""
    return f"{_hundredths(difference, ROUND_HALF_EVEN)} percentage points"


def count(value: Any) -> str:
    """Format a count with thousands separators."""
    known = number(value)
    return "not known" if known is None else f"{known:,.0f}"


def general(value: Any) -> str:
    """Format a setting: short numbers, lists and mappings on one line, text as it is.

    >>> general(0.1), general(True), general([1, "a"]), general({"b": None})
    ('0.1', 'yes', '1, a', 'b: none')
    """
    if value is None or isinstance(value, bool):
        return {None: "none", True: "yes", False: "no"}[value]
    if isinstance(value, float):
        return f"{value:.6g}" if float(f"{value:.6g}") == value else repr(value)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {general(inner)}" for key, inner in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(general, value)) or "none"
    return str(value)


def measured(value: Any) -> str:
    """Format a measured number with four digits.

    >>> measured(23.953797648762936), measured(0.0), measured(None)
    ('23.95', '0', 'not measured')
    """
    known = number(value)
    return MISSING if known is None else f"{known:.4g}"


def _hundredths(value: float, rounding: str) -> str:
    exact = Decimal(repr(value)) * 100
    return f"{exact.quantize(Decimal('0.1'), rounding=rounding):f}"


def _digits(value: float, rounding: str) -> str:
    # Start from the shortest decimal that reads back as the float, so that 0.1 does not become 0.101.
    exact = Decimal(repr(value))
    if exact == 0:
        return "0"
    step = Decimal(1).scaleb(exact.adjusted() - _DIGITS + 1)
    rounded = exact.quantize(step, rounding=rounding)
    return f"{rounded:f}" if -4 <= rounded.adjusted() < 6 else f"{float(rounded):.3g}"
