r"""Wishart noise on a sum of outer products, and exactly how private it is.

Publish M = S + W, where S is a sum of x x' with \|x\| <= 1, and W = s2 G'G for k rows G of d standard Gaussians: a
Wishart matrix with k degrees of freedom. W has the density ~ det(W)^((k - d - 1) / 2) e^(-tr(W) / (2 s2)) on positive
definite matrices, and none elsewhere. A row x more or less turns W = M - S into W - x x', so that the privacy loss is

    ln f(W) - ln f(W - x x') = -((k - d - 1) / 2) ln(1 - x' W^-1 x) - |x|^2 / (2 s2),

and infinite where x' W^-1 x >= 1. It depends on W by x' W^-1 x alone, and |x|^2 / (s2 x' W^-1 x) has the chi-square law
with m = k - d + 1 degrees of freedom (Muirhead 1982, Theorem 3.2.12). With T that variable and t = |x|^2 / s2, the loss
is ln g(T) - ln g(T - t), for the density g of T: *Wishart noise on x x' is as private as chi-square noise of m degrees
of freedom on a number that moves by 1 / s2*, in both directions. g is log-concave for m >= 2, so the longest row is the
worst, and the event {loss > epsilon} is a tail of T. That gives delta(epsilon) in closed form: `delta_of`.

With k = d + 1 (m = 2) T is an exponential variable: the loss is -t / 2 wherever it is finite, and infinite with
probability P(T < t) = 1 - e^(-t / 2). Jiang, Xie & Zhang 2016 take this k with t / 2 = epsilon / 3, bound the ratio of
densities, and claim delta = 0. But a matrix S + W that is not above S + x x' rules the row x out, which happens with
probability 1 - e^(-epsilon / 3): 28 % at epsilon 1. Their claim does not hold; and there is no pure epsilon for any k,
as T < t has positive probability. Sheffet 2019 proves (epsilon, delta) for more degrees of freedom, up to constants.

W has the mean k s2 I, which is public and subtracted. About it, entries have the standard deviation sqrt(2 k) s2 on the
diagonal and sqrt(k) s2 beside it: the shape of Analyze Gauss's noise, and its size as m grows. It is never smaller.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import chdtr, chdtrc

from hush.errors import InvalidArgument
from hush.estimators.base.estimator import Floats, noise_multiplier
from hush.estimators.moments.gram import UNIT
from hush.randomness import RandomSource, floored_gaussian

_CLOSE = 1.25  # noise may be so many times the Gaussian's: more degrees of freedom cost time and precision
_MOST = 1 << 20
_FINE = 2.0**50
_LOW = 30  # bits of 50 that are not leading
_ROWS = 32  # products of leading bits are below 2^48


def delta_of(epsilon: float, shift: float, degrees: float) -> float:
    """Return delta of chi-square noise with more than 2 ``degrees`` of freedom on a number that moves by ``shift``."""
    power = (degrees - 2) / 2
    # Removed: the loss falls with T, from infinity.
    most = shift / -math.expm1(-(epsilon + shift / 2) / power)
    removed = chdtr(degrees, most) - math.exp(epsilon) * chdtr(degrees, most - shift)
    # Added: it rises with T, to shift / 2.
    added, rest = 0.0, shift / 2 - epsilon
    if rest > 0:
        least = shift / math.expm1(rest / power)
        added = chdtrc(degrees, least) - math.exp(epsilon) * chdtrc(degrees, least + shift)
    return float(max(removed, added, 0.0))


@dataclass(frozen=True, slots=True)
class WishartNoise:
    """Noise for symmetric matrices of a size.

    Attributes:
        size: Rows and columns.
        degrees: Of freedom: k.
        scale: s2, in units of a squared norm.
    """

    size: int
    degrees: int
    scale: float

    @property
    def stddev(self) -> float:
        """On the diagonal; beside it, it is smaller by sqrt(2)."""
        return math.sqrt(2 * self.degrees) * self.scale

    @property
    def _shift(self) -> int:
        """Results are multiples of 2^shift / UNIT: about a thirtieth of the noise."""
        return math.frexp(self.stddev * UNIT / 32)[1]

    @property
    def doubt(self) -> float:
        """How often, at most, rounding errors of the noise change the result.

        G comes as multiples of 2^-50, from below. Where squared norms of columns are at most 2 k (all but a probability
        of e^(-0.153 k) each), that moves an entry of G'G by sqrt(2) k 2^-49 at most; sums of the leading bits' products
        are exact, and what else is rounded is less than half as much. A result changes where an entry is that close to
        the end of a step, of which there is one in every 2^shift; densities are nearly constant over a step (twice the
        chance is more than enough).
        """
        error = 2.0**-48 * self.degrees * self.scale
        entries = self.size * (self.size + 1) / 2
        return entries * 4 * error * UNIT / 2.0**self._shift + self.size * math.exp(-0.153 * self.degrees)

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> Floats:
        """Return totals, counted in UNIT, with centred noise, in units."""
        leading = np.zeros((self.size, self.size), dtype=np.int64)
        rest = np.zeros((self.size, self.size))
        rows = max((1 << 20) // self.size, 1)
        for start in range(0, self.degrees, rows):
            count = min(rows, self.degrees - start)
            normal = floored_gaussian(source, _FINE, count * self.size).reshape(count, self.size)
            high = (normal >> _LOW).astype(np.float64)  # multiples of 2^-20, below 2^4
            low = (normal & ((1 << _LOW) - 1)).astype(np.float64) * 2.0**-_LOW
            for first in range(0, count, _ROWS):
                part = high[first : first + _ROWS]
                leading += (part.T @ part).astype(np.int64)
            cross = high.T @ low
            rest += cross + cross.T + low.T @ low
        noise = np.floor((leading + rest) * (self.scale * UNIT * 2.0 ** (2 * _LOW) / _FINE**2)).astype(np.int64)
        # The floor of totals plus noise, in steps, as exact noise would have it.
        coarse = (totals + noise) >> self._shift
        middle = (coarse.astype(np.float64) + 0.5) * (2.0**self._shift / UNIT)
        return middle - np.eye(self.size) * (self.degrees * self.scale)


@lru_cache(maxsize=64)
def wishart_noise(size: int, epsilon: float, delta: float) -> WishartNoise:
    """Return (epsilon, delta) noise for sums of x x' of norms at most 1; up to a quarter more than the Gaussian's."""
    wanted = noise_multiplier(epsilon, delta) * _CLOSE
    degrees = 256
    while degrees <= _MOST:
        noise = WishartNoise(size, degrees + size - 1, 1.0)
        # Doubt does not depend on the scale, but for a factor of 2 by which steps may be finer.
        left = delta - 2 * (1 + math.exp(epsilon)) * noise.doubt
        if not left > delta / 2:
            break
        noise = WishartNoise(size, noise.degrees, 1 / _largest_shift(epsilon, left, degrees))
        if noise.stddev <= wanted:
            return noise
        degrees *= 2
    raise InvalidArgument(
        "method",
        "Wishart()",
        "a smaller number of features or epsilon, or a larger delta",
        "Rounding errors of the noise would be more than delta has room for",
        "Take AnalyzeGauss(), whose noise is smaller, too",
    )


def _largest_shift(epsilon: float, delta: float, degrees: int) -> float:
    """Return the largest shift of chi-square noise that is (epsilon, delta)-private, a hair below."""

    def excess(log: float) -> float:
        return math.log(max(delta_of(epsilon, math.exp(log), degrees), 1e-300) / delta)

    high = math.log(2 * epsilon + 40 * math.sqrt(2 * degrees))
    found: float = brentq(excess, high - 30, high, xtol=1e-9)
    return math.exp(found) * (1 - 1e-6)
