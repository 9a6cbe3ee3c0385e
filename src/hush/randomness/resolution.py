"""What floating point leaves undecided, decided exactly, with as many further random bits as that takes.

A uniform U is known by its leading bits; the fast samplers compute with the first 64 of them and mark the outcomes that
rounding, or the bits not yet drawn, could still turn. Those (one in 10^6 to 10^11) come here. All quantities are
enclosed in intervals: U between two fractions, logarithms and exponentials by `decimal`, whose functions are correctly
rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from hush.randomness.source import RandomSource

Interval = tuple[Fraction, Fraction]


@dataclass(slots=True)
class Uniform:
    """A real number, uniform on [0, 1), of which ``num_bits`` bits are known so far."""

    source: RandomSource
    bits: int = 0
    num_bits: int = 0

    def refine(self) -> None:
        """Draw 64 more bits."""
        self.bits = (self.bits << 64) | self.source.word()
        self.num_bits += 64

    def interval(self) -> Interval:
        """Return the two fractions between which it lies."""
        size = 1 << self.num_bits
        return Fraction(self.bits, size), Fraction(self.bits + 1, size)

    @property
    def digits(self) -> int:
        """How many decimal digits are worth computing with."""
        return 30 + self.num_bits // 3


def exp_interval(exponent: Interval, digits: int) -> Interval:
    """Enclose e^x for x <= 0 in an interval; of a tiny number it is enough to know how small it is."""
    smallest = -4 * digits
    low = Fraction(0) if exponent[0] < smallest else _outward(exponent[0], digits, "exp")[0]
    return low, _outward(max(exponent[1], Fraction(smallest)), digits, "exp")[1]


def log_interval(argument: Interval, digits: int) -> Interval:
    """Enclose ln x for x in an interval of positive numbers."""
    return _outward(argument[0], digits, "ln")[0], _outward(argument[1], digits, "ln")[1]


def _outward(x: Fraction, digits: int, function: str) -> Interval:
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    rounded = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    value = Fraction(getattr(context, function)(rounded))
    relative = Fraction(12, 10**digits)  # two roundings of half a unit, which is up to 5 / 10^digits
    # The argument was rounded, relatively: e^x changes by the factor e^(x relative), ln x by relative.
    error = abs(value) * relative * (1 + abs(x)) if function == "exp" else (abs(value) + 1) * relative
    return value - error, value + error


def floor_exponential(uniform: Uniform, scale: Fraction) -> int:
    """Return floor(-scale * ln U) exactly."""
    while True:
        low, high = uniform.interval()
        if low > 0:
            bounds = log_interval((low, high), uniform.digits)
            first, last = (-scale * bound // 1 for bound in reversed(bounds))
            if first == last:
                return max(first, 0)  # U < 1: the error of ln 1 alone could be beyond 0
        uniform.refine()


def below_exp(uniform: Uniform, exponent: Callable[[], Interval], refine: Callable[[], None] | None = None) -> bool:
    """Return whether U < e^-x, for an x >= 0 that may be refined, too."""
    while True:
        low, high = uniform.interval()
        smallest, largest = exponent()
        bounds = exp_interval((-largest, -smallest), uniform.digits)
        if high <= bounds[0] or smallest == largest == 0:
            return True
        if low >= bounds[1]:
            return False
        uniform.refine()
        if refine is not None:
            refine()
