"""Whole curves instead of one point: epsilon against delta, and the trade-off of an attacker's errors (f-DP)."""

from __future__ import annotations

import math
from collections.abc import Iterable

from hush.accounting.accountants.accountant import Accountant
from hush.errors import InvalidArgument, check_fraction, check_instance


def epsilon_curve(accountant: Accountant, deltas: Iterable[float]) -> list[tuple[float, float]]:
    """Return (delta, epsilon) for each delta."""
    check_instance("accountant", accountant, Accountant)
    return [(delta, accountant.epsilon(delta)) for delta in _each("deltas", deltas)]


def delta_curve(accountant: Accountant, epsilons: Iterable[float]) -> list[tuple[float, float]]:
    """Return (epsilon, delta) for each epsilon."""
    check_instance("accountant", accountant, Accountant)
    return [(epsilon, accountant.delta(epsilon)) for epsilon in _each("epsilons", epsilons)]


def max_true_positive_rate(accountant: Accountant, false_positive_rate: float, *, num_points: int = 40) -> float:
    """Return the most that any membership attack can achieve: its true positive rate at a false positive rate.

    This is one minus the trade-off function of f-DP. Every point of the (epsilon, delta) curve bounds it, by
    ``e^epsilon fpr + delta`` and by ``1 - e^-epsilon (1 - delta - fpr)``; the smallest bound over the curve is
    tight for the events' dominating pairs. Much smaller than what a single (epsilon, delta) promises.

    Guarantee:
        An upper bound wherever the accountant's are (any epsilon gives one; the search only makes it small).

    Assumes:
        The attacker's false positive rate is that of a single record (the caller's duty).

    References:
        Dong, Roth & Su 2022, Proposition 2.4; Wasserman & Zhou 2010.
    """
    check_instance("accountant", accountant, Accountant)
    check_fraction("false_positive_rate", false_positive_rate)

    def rate(epsilon: float) -> float:
        delta = accountant.delta(epsilon)
        steep = _exp(epsilon) * false_positive_rate + delta
        return min(1.0, steep, 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate))

    top = max(accountant.epsilon(1e-9), 1e-6)
    step = min((top if math.isfinite(top) else 50.0), 50.0) / num_points
    best, value = min(((index * step, rate(index * step)) for index in range(num_points + 1)), key=lambda pair: pair[1])
    for _ in range(12):
        step /= 2
        for candidate in (max(best - step, 0.0), best + step):
            found = rate(candidate)
            if found < value:
                best, value = candidate, found
    return max(value, false_positive_rate)


def _each(name: str, values: Iterable[float]) -> Iterable[float]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgument(name, values, "a sequence of numbers")
    return values


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
