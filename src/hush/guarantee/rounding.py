"""Formats numbers for people, rounded so that the claim stays true.

`explanation` builds sentences such as "at most 2.93". For an upper bound, the printed number must not be smaller than
the exact one; for a lower bound, not larger. Ordinary rounding would make some of these sentences false.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from hush.guarantee.terms import Bound

_DIGITS = 3
_MODES = {Bound.UPPER: ROUND_CEILING, Bound.LOWER: ROUND_FLOOR, Bound.ESTIMATE: ROUND_HALF_EVEN}


def rounded(value: float, bound: Bound) -> str:
    """Format a number with three significant digits, rounding an upper bound up and a lower bound down.

    >>> rounded(2.9211, Bound.UPPER), rounded(2.9211, Bound.LOWER), rounded(1e-05, Bound.UPPER)
    ('2.93', '2.92', '1e-05')
    """
    return _write(_decimal(value), bound) if math.isfinite(value) else f"{value:g}"


def rounded_percentage(share: float, bound: Bound) -> str:
    """Format a proportion as a percentage without the percent sign."""
    return _write(_decimal(share) * 100, bound)


def percent(share: float, bound: Bound) -> str:
    """Format a proportion as a percentage."""
    return f"{rounded_percentage(share, bound)} %"


def factor(epsilon: float, bound: Bound) -> str:
    """Format e^epsilon, as a power of ten beyond a million."""
    if epsilon <= math.log(1e6):
        return rounded(math.exp(epsilon), bound)
    power = epsilon / math.log(10)
    return f"10^{math.floor(power) if bound is Bound.LOWER else math.ceil(power)}"


def _decimal(value: float) -> Decimal:
    # repr gives the shortest decimal that reads back as the float. From its exact binary value, 1e-05 would be rounded
    # up to 1.01e-05.
    return Decimal(repr(float(value)))


def _write(value: Decimal, bound: Bound) -> str:
    """Format with three digits, in plain notation where that is short."""
    if value == 0:
        return "0"
    step = Decimal(1).scaleb(value.adjusted() - _DIGITS + 1)
    digits = value.quantize(step, rounding=_MODES[bound]).normalize()
    return f"{digits:f}" if -5 < digits.adjusted() < 6 else f"{float(digits):.3g}"
