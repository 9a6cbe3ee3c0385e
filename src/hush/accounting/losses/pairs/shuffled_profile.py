"""The profile of shuffled reports: one person's report among those of others, in a random order.

*The pair.* Let R be epsilon_0-DP under replacement, p = e^epsilon_0, and x_0, x_1 two records. There are distributions
Q_0, Q_1 with R(x_0) = (p Q_0 + Q_1) / (p + 1) and R(x_1) = (Q_0 + p Q_1) / (p + 1) (Kairouz, Oh & Viswanath 2015). Any
other report has R(x) >= max(R(x_0), R(x_1)) / p >= (Q_0 + Q_1) / (2 p). So with probability g = 1 / p it is a *clone*:
a sample of Q_0 or of Q_1, with equal probability. Whatever else others report, in whatever order, is a function of the
numbers of samples of Q_0 and of Q_1. With B ~ Binomial(n - 1, g) clones these are two binomial halves of B, and one
more for the person (Feldman, McMillan & Talwar 2021, Theorem 3.2 and its proof).

Randomised response among k values has R(x) >= (Q_0 + Q_1) / (p + 1): Q_0 has mass p + 1 on x_0 and 1 on each of the
k - 2 others, out of p + k - 1, and R(x) has a mass of at least 1 everywhere. So there g = 2 / (p + 1), which is larger.

*The curve.* Given B, let h count the samples of Q_0, and t be the smallest h whose ratio is at least e^eps. Then, with
F(t) = P(Binomial(B, 1/2) >= t) and f(t) the probability of t itself,

    delta_B(eps) = (p - e^eps) / (p + 1) f(t - 1) - (e^eps - 1) F(t).

B is the same with and without a change, so delta is the mean of delta_B. It falls with B, as a further clone is
independent noise on the two counts; so a range of B counts as its lower end. Rounding goes up: f by a bound on its
error, F down, and between the points of the table lies a chord in e^eps. The pair is its own mirror image.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.special import betainc, gammaln

from hush.accounting.losses.profile import ULP, Array, Profile

_SPREADS = 14.0  # standard deviations of B on both sides of its mean; beyond, 1e-43 remains
_PER_SPREAD = 8  # ranges of B in a standard deviation
_CHUNK = 1 << 18

MAX_LOCAL_EPSILON = 50.0
"""Beyond it there are no clones among 10^9 people: shuffling changes nothing."""


@dataclass(frozen=True)
class ShuffledProfile(Profile):
    """One epsilon_0-DP report among others, in a random order, from above.

    Attributes:
        epsilon: epsilon_0, at most `MAX_LOCAL_EPSILON`.
        others: n - 1, the number of other reports.
        clone_rate: g, the probability with which another report is a clone.
    """

    epsilon: float
    others: int
    clone_rate: float
    relative_error: float = 64 * ULP

    @property
    def max_loss(self) -> float:  # type: ignore[override]
        """The local epsilon: a shuffled report is never easier to tell than one with its sender."""
        return self.epsilon

    def delta(self, epsilon: Array) -> Array:
        """Evaluate the chords of the table."""
        points, values = self._table
        cell = np.clip(np.searchsorted(points, epsilon, side="right") - 1, 0, len(points) - 2)
        gap, distance = (points[1:] - points[:-1])[cell], np.maximum(epsilon - points[cell], 0.0)
        share = np.minimum(np.expm1(np.minimum(distance, gap)) / np.expm1(gap), 1.0)
        return np.asarray(values[cell] * (1 - share) + values[cell + 1] * share)

    def corners(self, limit: int) -> Array:
        """Return the first points of the table: in between, the curve is linear in e^epsilon."""
        return self._table[0][1 : limit + 1]

    @cached_property
    def _table(self) -> tuple[Array, Array]:
        return _table(self.epsilon, self.others, self.clone_rate)


@lru_cache(maxsize=256)
def _table(local_epsilon: float, others: int, clone_rate: float) -> tuple[Array, Array]:
    """Return the table: epsilons from 0 to the local one, and delta at each."""
    clones, weights, without = _clone_numbers(others, clone_rate)
    points = _points(local_epsilon, float(clones[len(clones) // 2]))
    rows = max(1, _CHUNK // len(clones))
    blocks = [points[start : start + rows, None] for start in range(0, len(points), rows)]
    values = np.concatenate([_given_clones(block, local_epsilon, clones) @ weights for block in blocks])
    values += without * -np.expm1(points - local_epsilon) / (1 + math.exp(-local_epsilon))
    # The curve falls and is convex; what rounding adds must not make it rise again. It ends at 0.
    values = np.append(np.maximum.accumulate(values[-2::-1])[::-1], 0.0)
    return points, np.minimum(values * (1 + 1e-12), -math.expm1(-local_epsilon) / (1 + math.exp(-local_epsilon)))


def _points(local_epsilon: float, typical_clones: float) -> Array:
    """Return epsilons from 0 to the local one, dense where delta falls by a factor of e."""
    loss_spread = -math.expm1(-local_epsilon) / math.sqrt(typical_clones + 1)
    near = np.arange(0.0, 15.0, 1 / 32) * loss_spread
    far = near[-1] * np.exp(np.arange(1, 1 + math.ceil(max(math.log(local_epsilon / near[-1]), 0.0) / 0.02)) * 0.02)
    points = np.concatenate([near, far])
    return np.append(points[points < local_epsilon * (1 - 1e-9)], local_epsilon)


def _clone_numbers(others: int, clone_rate: float) -> tuple[Array, Array, float]:
    """Return numbers of clones, the probability of the range that starts at each, and the probability of fewer."""
    mean, spread = others * clone_rate, math.sqrt(others * clone_rate * (1 - clone_rate))
    reach = _SPREADS * spread + 60.0  # with the margin that rare clones need
    first, last = max(math.floor(mean - reach), 0), min(math.ceil(mean + reach), others)
    step = max(math.floor(spread / _PER_SPREAD), 1)
    clones = np.arange(first, last + 1, step, dtype=float)
    # P(B >= b) and P(B < b), each accurate where it is small.
    above = np.where(clones > 0, betainc(np.maximum(clones, 1.0), others - clones + 1, clone_rate), 1.0)
    below = np.where(clones > 0, betainc(others - clones + 1, np.maximum(clones, 1.0), 1 - clone_rate), 0.0)
    rises, falls = np.append(np.diff(below), 1 - below[-1]), np.append(-np.diff(above), above[-1])
    # The smaller tail gives the more accurate difference; the margin covers the rounding of both tails.
    margin = 1e-11 * np.minimum(np.append(below[1:], 1.0), above)
    weights = np.where(below < 0.5, rises, falls) + margin
    return clones, np.asarray(weights), float(below[0]) * (1 + 1e-9)


def _given_clones(epsilon: Array, local_epsilon: float, clones: Array) -> Array:
    """Return delta at each epsilon, for each number of clones, rounded up."""
    # h >= (B + 1) (p e^eps - 1) / ((p - 1) (1 + e^eps)), without overflow.
    share = -np.expm1(-epsilon - local_epsilon) / (-math.expm1(-local_epsilon) * (1 + np.exp(-epsilon)))
    threshold = np.clip(np.ceil((clones + 1) * share - 1e-9), 1.0, clones + 1)
    rounding = 1e-11 * (1 + np.sqrt(clones) / 1000)
    mass = _half_binomial(threshold - 1, clones) * (1 + rounding)
    tail = np.where(threshold <= clones, betainc(threshold, np.maximum(clones - threshold + 1, 1.0), 0.5), 0.0)
    gap = -np.expm1(epsilon - local_epsilon) / (1 + math.exp(-local_epsilon))
    return np.asarray(np.maximum(gap * mass - np.expm1(epsilon) * tail * (1 - rounding), 0.0))


def _half_binomial(successes: Array, trials: Array) -> Array:
    """Return P(Binomial(trials, 1/2) = successes), to a relative error of about 1e-13 (Loader 2000)."""
    successes, trials = np.broadcast_arrays(successes, trials)
    inner = (successes > 0) & (successes < trials)
    low, total = np.where(inner, successes, 1.0), np.where(inner, trials, 2.0)
    high = total - low
    deviance = total / 2 * (_entropy(2 * low / total - 1) + _entropy(2 * high / total - 1))
    logs = _stirling(total) - _stirling(low) - _stirling(high) - deviance
    masses = np.exp(logs) * np.sqrt(total / (2 * math.pi * low * high))
    return np.asarray(np.where(inner, masses, np.exp2(-trials)))


def _entropy(excess: Array) -> Array:
    """Return (1 + u) ln(1 + u) - u."""
    return np.asarray((1 + excess) * np.log1p(excess) - excess)


def _stirling(number: Array) -> Array:
    """Return the logarithm of n! over Stirling's formula, sqrt(2 pi n) (n / e)^n."""
    small = np.minimum(number, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * math.log(2 * math.pi)
    inverse = 1 / np.maximum(number, 16.0)
    square = inverse * inverse
    series = inverse * (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188))))
    return np.asarray(np.where(number <= 16, exact, series))
