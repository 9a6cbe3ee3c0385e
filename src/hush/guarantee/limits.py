"""The limits that an (epsilon, delta) pair puts on an attacker, as functions of the two numbers.

All functions accept any epsilon in [0, inf] and any delta in [0, 1). Nothing overflows. An infinite epsilon gives the
limit that holds without any guarantee, such as a true positive rate of 1.
"""

from __future__ import annotations

import math
import sys
from fractions import Fraction

_LARGEST_EXPONENT = 709.0  # exp() of more overflows

# Group privacy's delta takes a handful of float operations, whose errors stay far below this factor. Multiplying by it
# keeps the result an upper bound.
_ROUNDING = 1 + 1e-12

_MARGIN = 1e-12  # above the rounding errors of a probability
_MOST_UNITS = 10**12


def odds_factor(epsilon: float) -> float:
    """Return e^epsilon, or infinity where a float cannot hold it."""
    return math.exp(epsilon) if epsilon <= _LARGEST_EXPONENT else math.inf


def max_tpr(epsilon: float, delta: float, fpr: float) -> float:
    """Return the largest true positive rate of any test whose false positive rate is ``fpr``.

    The trade-off curve of (epsilon, delta) differential privacy has two lines:
    min(e^eps fpr + delta, 1 - e^-eps (1 - delta - fpr)) (Wasserman & Zhou 2010; Kairouz, Oh & Viswanath 2015).
    """
    if epsilon == math.inf:
        return 1.0
    # Skipping the product at fpr = 0 avoids inf * 0 = NaN at large epsilon.
    from_false_positives = delta + (odds_factor(epsilon) * fpr if fpr > 0 else 0.0)
    from_true_negatives = 1 - math.exp(-epsilon) * (1 - delta - fpr)
    return max(fpr, min(from_false_positives, from_true_negatives, 1.0))  # guessing at random reaches fpr


def posterior(epsilon: float, prior: float) -> float:
    """Return the probability whose odds are e^epsilon times those of ``prior``."""
    if prior == 0:
        return 0.0
    # Bayes' rule with the fraction divided by e^epsilon, which could overflow.
    belief = prior / (prior + (1 - prior) * math.exp(-epsilon))
    return min(max(belief, prior), 1.0)


def advantage(epsilon: float, delta: float) -> float:
    """Return the largest TPR - FPR of any test: (e^eps - 1 + 2 delta) / (e^eps + 1)."""
    # tanh(eps / 2) is (e^eps - 1) / (e^eps + 1) without the overflow.
    return min(math.tanh(epsilon / 2) + 2 * delta / (odds_factor(epsilon) + 1), 1.0)


def poisoned(epsilon: float, delta: float, probability: float, size: int) -> tuple[float, float]:
    """Return bounds on what a probability can become if ``size`` units change, rounded outwards.

    Group privacy gives p' <= e^(k eps) p + delta_k for the event and for its complement (Ma, Zhu & Hsu 2019).
    """
    group = group_epsilon(epsilon, size), group_delta(epsilon, delta, size)
    if not group[1] < 1:
        return 0.0, 1.0
    high, complement = max_tpr(*group, probability), max_tpr(*group, 1 - probability)
    return max(1 - complement - _MARGIN, 0.0), min(high + _MARGIN, 1.0)


def most_poisons(epsilon: float, delta: float, lower: float, upper: float) -> int:
    """Return the largest number of changed units that leaves one probability above another, at most 10^12."""
    low, high = -1, 0  # low is certain, and high is not once the first loop is done
    while high <= _MOST_UNITS and _stays_above(epsilon, delta, lower, upper, high):
        low, high = high, 2 * high + 1
    high = min(high, _MOST_UNITS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _stays_above(epsilon, delta, lower, upper, middle) else (low, middle)
    return max(low, 0)


def _stays_above(epsilon: float, delta: float, lower: float, upper: float, size: int) -> bool:
    if size == 0:
        return lower > upper
    return poisoned(epsilon, delta, lower, size)[0] > poisoned(epsilon, delta, upper, size)[1]


def group_epsilon(epsilon: float, size: int) -> float:
    """Return size * epsilon, rounded up to a float."""
    if epsilon == math.inf:
        return epsilon
    exact = Fraction(epsilon) * size
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def group_delta(epsilon: float, delta: float, size: int) -> float:
    """Return delta * (e^(size eps) - 1) / (e^eps - 1), rounded up; a result of 1 or more promises nothing."""
    if delta == 0 or size == 1 or epsilon == math.inf:
        return delta
    return delta * _ROUNDING * _geometric_sum(epsilon, size)


def largest_group(epsilon: float, delta: float) -> int:
    """Return the largest group size whose delta stays below 1 (delta must be positive and epsilon finite)."""
    low, high = 1, 2  # the answer is in [low, high) once the first loop is done
    while group_delta(epsilon, delta, high) < 1:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if group_delta(epsilon, delta, middle) < 1 else (low, middle)
    return low


def _geometric_sum(epsilon: float, size: int) -> float:
    """Return 1 + e^eps + ... + e^((size - 1) eps)."""
    exponent = group_epsilon(epsilon, size)
    if epsilon == 0:
        return float(size) if size.bit_length() <= sys.float_info.max_exp - 1 else math.inf
    if exponent <= _LARGEST_EXPONENT:
        return math.expm1(exponent) / math.expm1(epsilon)
    # e^(size eps) overflows, but the sum, which is below e^((size - 1) eps) / (1 - e^-eps), may not.
    return odds_factor(group_epsilon(epsilon, size - 1)) / -math.expm1(-epsilon)
