r"""Wishart noise on a sum of outer products, and its exact privacy profile.

The mechanism publishes M = S + W. S is the sum of x x' over rows with \|x\| <= 1. W = s2 G'G for a k x d matrix G of
standard Gaussians: a Wishart matrix with k degrees of freedom. W has density ~ det(W)^((k - d - 1) / 2) e^(-tr(W) / (2
s2)) on the positive definite matrices, and 0 elsewhere. Adding or removing a row x turns W = M - S into W - x x', so
the privacy loss is

    ln f(W) - ln f(W - x x') = -((k - d - 1) / 2) ln(1 - x' W^-1 x) - |x|^2 / (2 s2),

and infinite where x' W^-1 x >= 1. It depends on W through x' W^-1 x alone, and |x|^2 / (s2 x' W^-1 x) has the
chi-square distribution with m = k - d + 1 degrees of freedom (Muirhead 1982, Theorem 3.2.12). Let T be that variable, g
its density, and t = |x|^2 / s2. The loss is ln g(T) - ln g(T - t). So *Wishart noise on x x' is exactly as private as
chi-square noise with m degrees of freedom on a number that moves by 1 / s2*, in both directions. g is log-concave for m
>= 2. Hence the longest row is the worst case, and the event {loss > epsilon} is a tail of T. This gives delta(epsilon)
in closed form: `chi_square_delta`.

With k = d + 1 (m = 2), T is exponential. The loss is -t / 2 wherever it is finite, and infinite with probability P(T <
t) = 1 - e^(-t / 2). Jiang, Xie & Zhang 2016 use this k with t / 2 = epsilon / 3, bound the ratio of densities, and
claim delta = 0. But an output that is not above S + x x' proves that row x is absent, and that happens with probability
1 - e^(-epsilon / 3): 28 % at epsilon = 1. Their claim does not hold. Nor does any k give delta = 0, since T < t always
has positive probability. Sheffet 2019 proves (epsilon, delta) for more degrees of freedom, up to constants.

The mean of W is k s2 I, which is public and is subtracted. Around it, entries have standard deviation sqrt(2 k) s2 on
the diagonal and sqrt(k) s2 off it: the shape of Analyze Gauss's noise. Its size approaches Analyze Gauss's from above
as m grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtr, chdtrc

from hush.accounting import gaussian_multiplier
from hush.errors import InvalidArgument
from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import UNIT
from hush.randomness import RandomSource, floored_gaussian

_MAX_RATIO = 1.25  # accept noise up to this multiple of the Gaussian's: more degrees of freedom cost time and precision
_MAX_DEGREES = 1 << 20
_FINE = 2.0**50  # Gaussians are multiples of 2^-50
_LOW_BITS = 30  # of these 50 bits, the low ones; products of the others are summed exactly
_EXACT_ROWS = 32  # sums of this many products of high parts, each below 2^48, are exact in double precision


def chi_square_delta(epsilon: float, shift: float, degrees: float) -> float:
    """Return delta(epsilon) of chi-square noise on a number that moves by ``shift``.

    With tail end a of the event {loss > epsilon}: delta = P(T in tail) - e^epsilon P(T - shift in tail), for the worse
    of the two directions.

    Args:
        epsilon: Privacy loss.
        shift: Sensitivity t, in units of the noise.
        degrees: Degrees of freedom m, more than 2.
    """
    exponent = (degrees - 2) / 2
    # Removing a row: the loss decreases in T, from infinity. It exceeds epsilon for T < upper.
    # Solves loss(T) = epsilon for T.
    upper = shift / -math.expm1(-(epsilon + shift / 2) / exponent)
    removed = chdtr(degrees, upper) - math.exp(epsilon) * chdtr(degrees, upper - shift)
    # Adding a row: the loss increases in T, up to shift / 2. It exceeds epsilon for T > lower, if at all.
    added, excess = 0.0, shift / 2 - epsilon
    if excess > 0:
        lower = shift / math.expm1(excess / exponent)
        added = chdtrc(degrees, lower) - math.exp(epsilon) * chdtrc(degrees, lower + shift)
    return float(max(removed, added, 0.0))


@dataclass(frozen=True, slots=True)
class WishartNoise:
    """Wishart noise for symmetric matrices of a fixed size.

    Attributes:
        size: Number of rows and columns, d.
        degrees: Degrees of freedom, k.
        scale: Scale s2, in units of a squared norm.
    """

    size: int
    degrees: int
    scale: float

    @property
    def stddev(self) -> float:
        """Standard deviation of the diagonal entries; off the diagonal it is smaller by sqrt(2)."""
        return math.sqrt(2 * self.degrees) * self.scale

    @property
    def _grid_shift(self) -> int:
        """Results are multiples of 2^shift / UNIT, which is about a thirtieth of the noise."""
        return math.frexp(self.stddev * UNIT / 32)[1]

    @property
    def rounding_probability(self) -> float:
        """Bound on the probability that rounding errors of the noise change the result.

        G is drawn as multiples of 2^-50, rounded down. Suppose that squared norms of its columns are at most 2 k, which
        fails with probability at most e^(-0.153 k) each. Then the rounding moves an entry of G'G by at most sqrt(2) k
        2^-49. Sums of products of the high parts are exact, and all other rounding is less than half as large. The
        result changes only if an entry is this close to the edge of a grid cell, and cells are 2^shift wide. The
        density is nearly constant over a cell; twice the uniform probability is more than enough.
        """
        error = 2.0**-48 * self.degrees * self.scale
        entries = self.size * (self.size + 1) / 2
        return entries * 4 * error * UNIT / 2.0**self._grid_shift + self.size * math.exp(-0.153 * self.degrees)

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> Floats:
        """Return totals (multiples of 1 / UNIT) as floats, with centred Wishart noise."""
        high_products = np.zeros((self.size, self.size), dtype=np.int64)
        other_products = np.zeros((self.size, self.size))
        chunk = max((1 << 20) // self.size, 1)
        for start in range(0, self.degrees, chunk):
            count = min(chunk, self.degrees - start)
            gaussians = floored_gaussian(source, _FINE, count * self.size).reshape(count, self.size)
            high = (gaussians >> _LOW_BITS).astype(np.float64)  # multiples of 2^-20, of size below 2^4
            low = (gaussians & ((1 << _LOW_BITS) - 1)).astype(np.float64) * 2.0**-_LOW_BITS
            for start_row in range(0, count, _EXACT_ROWS):
                high_rows = high[start_row : start_row + _EXACT_ROWS]
                high_products += (high_rows.T @ high_rows).astype(np.int64)
            # G'G = (H + L)'(H + L): the other three products are small, and rounding them is accounted for.
            cross = high.T @ low
            other_products += cross + cross.T + low.T @ low
        noise = np.floor(
            (high_products + other_products) * (self.scale * UNIT * 2.0 ** (2 * _LOW_BITS) / _FINE**2)
        ).astype(np.int64)
        # Rounding down to grid cells gives the cell that exact noise would give, but for the edges.
        cells = (totals + noise) >> self._grid_shift
        midpoints = (cells.astype(np.float64) + 0.5) * (2.0**self._grid_shift / UNIT)
        return midpoints - np.eye(self.size) * (self.degrees * self.scale)


@lru_cache(maxsize=64)
def wishart_noise(size: int, epsilon: float, delta: float) -> WishartNoise:
    """Return (epsilon, delta) noise for sums of x x' with |x| <= 1, at most a quarter above the Gaussian noise."""
    max_stddev = gaussian_multiplier(epsilon, delta) * _MAX_RATIO
    # Double the degrees of freedom until the noise is close enough to the Gaussian.
    degrees = 256
    while degrees <= _MAX_DEGREES:
        noise = WishartNoise(size, degrees + size - 1, 1.0)
        # Does not depend on the scale, except that grid cells may be finer by a factor of 2.
        remaining_delta = delta - 2 * (1 + math.exp(epsilon)) * noise.rounding_probability
        if not remaining_delta > delta / 2:
            break
        noise = WishartNoise(size, noise.degrees, 1 / _largest_shift(epsilon, remaining_delta, degrees))
        if noise.stddev <= max_stddev:
            return noise
        degrees *= 2
    raise InvalidArgument(
        "method",
        "Wishart()",
        "fewer features, a smaller epsilon, or a larger delta",
        "Rounding errors of the noise would exceed delta",
        "Use AnalyzeGauss(), which also adds less noise",
    )


def _largest_shift(epsilon: float, delta: float, degrees: int) -> float:
    """Return the largest shift for which chi-square noise is (epsilon, delta)-private, rounded down."""

    def excess(log_shift: float) -> float:
        return math.log(max(chi_square_delta(epsilon, math.exp(log_shift), degrees), 1e-300) / delta)

    # At this shift delta is nearly 1; thirty powers of e below it, delta is 0.
    high = math.log(2 * epsilon + 40 * math.sqrt(2 * degrees))
    root: float = brentq(excess, high - 30, high, xtol=1e-9)
    return math.exp(root) * (1 - 1e-6)
