"""Exact decisions for the draws that floating point leaves undecided.

    uniform     a real number in [0, 1), known by its leading bits
    fast path   the samplers compute with the first 64 bits in floating point, and bound their error
    undecided   outcomes that rounding, or the bits not drawn yet, could change: one in 10^6 to 10^11
    here        the same quantity in rational intervals, with more bits and digits until it is clear

U lies between two fractions. Logarithms and exponentials come from `decimal`, whose functions are correctly rounded.
Bits are drawn only when they are needed (Karney 2016), so the distribution is exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction

from hush.randomness.source import RandomSource

ExactInterval = tuple[Fraction, Fraction]


@dataclass(slots=True)
class Uniform:
    """A real number, uniform on [0, 1), known by its leading bits.

    Attributes:
        source: The random bits.
        bits: The bits drawn so far, as an integer.
        num_bits: The number of bits drawn so far.
    """

    source: RandomSource
    bits: int = 0
    num_bits: int = 0

    def refine(self) -> None:
        """Draw 64 more bits."""
        # The known bits stay: U is one real number, of which more and more digits are revealed.
        self.bits = (self.bits << 64) | self.source.word()
        self.num_bits += 64

    def interval(self) -> ExactInterval:
        """Return two fractions that enclose it: bits / 2^num_bits and (bits + 1) / 2^num_bits."""
        denominator = 1 << self.num_bits
        return Fraction(self.bits, denominator), Fraction(self.bits + 1, denominator)

    @property
    def digits(self) -> int:
        """The number of decimal digits worth computing with: more than the known bits have."""
        return 30 + self.num_bits // 3


def exp_interval(exponent: ExactInterval, digits: int) -> ExactInterval:
    """Return two fractions that enclose e^x, for all x <= 0 between two fractions.

    Below e^(-4 digits) the lower end is 0: a number that small needs no relative precision.
    """
    smallest = -4 * digits
    low = Fraction(0) if exponent[0] < smallest else _outward(exponent[0], digits, "exp")[0]
    # e^x increases, so each end of the interval follows from one end of the exponent.
    return low, _outward(max(exponent[1], Fraction(smallest)), digits, "exp")[1]


def log_interval(argument: ExactInterval, digits: int) -> ExactInterval:
    """Return two fractions that enclose ln x, for all x between two positive fractions."""
    return _outward(argument[0], digits, "ln")[0], _outward(argument[1], digits, "ln")[1]


def _outward(x: Fraction, digits: int, function: str) -> ExactInterval:
    """Return an interval around exp(x) or ln(x), computed with ``digits`` decimal digits and widened by its error."""
    context = Context(prec=digits, Emax=MAX_EMAX, Emin=MIN_EMIN)
    rounded = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    value = Fraction(getattr(context, function)(rounded))
    # Two roundings, of the argument and of the result, by half a unit in the last digit: at most 5 / 10^digits each.
    relative = Fraction(12, 10**digits)
    # A relative change of the argument multiplies e^x by e^(x relative) and adds at most relative to ln x.
    error = abs(value) * relative * (1 + abs(x)) if function == "exp" else (abs(value) + 1) * relative
    return value - error, value + error


def floor_exponential(uniform: Uniform, scale: Fraction) -> int:
    """Return floor(-scale * ln U) exactly: the floor of an exponential variable with mean ``scale``."""
    while True:
        low, high = uniform.interval()
        if low > 0:
            bounds = log_interval((low, high), uniform.digits)
            first, last = (-scale * bound // 1 for bound in reversed(bounds))
            # Both ends have the same floor, so the exact value has it, too.
            if first == last:
                return max(first, 0)  # -ln U > 0, but its enclosure may reach below 0
        uniform.refine()


def below_exp(
    uniform: Uniform, exponent: Callable[[], ExactInterval], refine: Callable[[], None] | None = None
) -> bool:
    """Return whether U < e^-x.

    Args:
        uniform: U, refined until the answer is clear.
        exponent: Returns two fractions that enclose x >= 0.
        refine: Makes the enclosure of x smaller, if x is random itself.
    """
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
