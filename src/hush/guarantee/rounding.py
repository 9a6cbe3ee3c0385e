"""Numbers for people, rounded to the side that keeps the claim true."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from hush.guarantee.terms import Bound

_DIGITS = 3
_MODES = {Bound.UPPER: ROUND_CEILING, Bound.LOWER: ROUND_FLOOR, Bound.ESTIMATE: ROUND_HALF_EVEN}


def rounded(value: float, bound: Bound) -> str:
    """Write a number with three digits: never less than it for an upper bound, never more for a lower bound.

    >>> rounded(2.9211, Bound.UPPER), rounded(2.9211, Bound.LOWER), rounded(1e-05, Bound.UPPER)
    ('2.93', '2.92', '1e-05')
    """
    return _write(_decimal(value), bound) if math.isfinite(value) else f"{value:g}"


def rounded_percentage(share: float, bound: Bound) -> str:
    """Write a share of one in hundredths, without the sign."""
    return _write(_decimal(share) * 100, bound)


def percent(share: float, bound: Bound) -> str:
    """Write a share of one as a percentage."""
    return f"{rounded_percentage(share, bound)} %"


def factor(epsilon: float, bound: Bound) -> str:
    """Write e^epsilon; as a power of ten once it stops being a number that anybody can picture."""
    if epsilon <= math.log(1e6):
        return rounded(math.exp(epsilon), bound)
    power = epsilon / math.log(10)
    return f"10^{math.floor(power) if bound is Bound.LOWER else math.ceil(power)}"


def _decimal(value: float) -> Decimal:
    # The shortest decimal that reads back as the float, not its exact binary value: 1e-05 must not print as 1.01e-05.
    return Decimal(repr(float(value)))


def _write(value: Decimal, bound: Bound) -> str:
    if value == 0:
        return "0"
    step = Decimal(1).scaleb(value.adjusted() - _DIGITS + 1)
    digits = value.quantize(step, rounding=_MODES[bound]).normalize()
    return f"{digits:f}" if -5 < digits.adjusted() < 6 else f"{float(digits):.3g}"
