"""Curves instead of single points: epsilon against delta, and the trade-off between an attacker's errors (f-DP).

One (epsilon, delta) pair says less than an accountant knows. The curve of all pairs bounds what any attack can achieve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from hush.accounting.accountants.accountant import Accountant
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.accounting.losses.profile import Array
from hush.errors import InvalidArgument, check_fraction, check_instance


def epsilon_curve(accountant: Accountant, deltas: Iterable[float]) -> list[tuple[float, float]]:
    """Return the pairs (delta, epsilon) for these deltas.

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> accountant = PldAccountant().compose(GaussianEvent(4.0))
    >>> [(delta, round(epsilon, 2)) for delta, epsilon in epsilon_curve(accountant, [1e-6, 1e-3])]
    [(1e-06, 1.06), (0.001, 0.59)]
    """
    check_instance("accountant", accountant, Accountant)
    return [(delta, accountant.epsilon(delta)) for delta in _check_sequence("deltas", deltas)]


def delta_curve(accountant: Accountant, epsilons: Iterable[float]) -> list[tuple[float, float]]:
    """Return the pairs (epsilon, delta) for these epsilons."""
    check_instance("accountant", accountant, Accountant)
    return [(epsilon, accountant.delta(epsilon)) for epsilon in _check_sequence("epsilons", epsilons)]


def gaussian_delta(epsilons: Array, mu: float) -> Array:
    """Return delta at each epsilon >= 0 for Gaussian noise, exactly up to rounding (Balle & Wang 2018, Theorem 8).

    Args:
        epsilons: An array of epsilons.
        mu: The sensitivity divided by the noise's standard deviation.
    """
    return GaussianProfile(mu).delta(epsilons)


def max_true_positive_rate(accountant: Accountant, false_positive_rate: float, *, num_points: int = 40) -> float:
    """Return the largest true positive rate that any membership attack has at a false positive rate.

    This is one minus the trade-off function of f-DP. Every point of the (epsilon, delta) curve bounds it, by
    ``e^epsilon fpr + delta`` and by ``1 - e^-epsilon (1 - delta - fpr)``. The smallest bound over the curve is tight
    for the events' dominating pairs, and much smaller than the bound of a single (epsilon, delta).

    >>> from hush.accounting import GaussianEvent, PldAccountant
    >>> round(max_true_positive_rate(PldAccountant().compose(GaussianEvent(1.0)), 0.01), 3)
    0.092

    Args:
        accountant: An accountant that has seen the events.
        false_positive_rate: The attacker's false positive rate, in [0, 1].
        num_points: The number of points of the curve to start from.

    Guarantee:
        An upper bound if the accountant's are. Any epsilon gives one; the search only makes it small.

    Assumes:
        The attacker decides about a single record (the caller's duty).

    References:
        Dong, Roth & Su 2022, Proposition 2.4; Wasserman & Zhou 2010.
    """
    check_instance("accountant", accountant, Accountant)
    check_fraction("false_positive_rate", false_positive_rate)

    def rate(epsilon: float) -> float:
        delta = accountant.delta(epsilon)
        steep = _exp(epsilon) * false_positive_rate + delta
        return min(1.0, steep, 1 - math.exp(-epsilon) * (1 - delta - false_positive_rate))

    # A coarse scan over [0, epsilon(1e-9)], then a local search with ever smaller steps.
    top = max(accountant.epsilon(1e-9), 1e-6)
    step = min((top if math.isfinite(top) else 50.0), 50.0) / num_points
    best, value = min(((index * step, rate(index * step)) for index in range(num_points + 1)), key=lambda pair: pair[1])
    for _ in range(12):
        step /= 2
        for candidate in (max(best - step, 0.0), best + step):
            candidate_value = rate(candidate)
            if candidate_value < value:
                best, value = candidate, candidate_value
    return max(value, false_positive_rate)


def _check_sequence(name: str, values: Iterable[float]) -> Iterable[float]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise InvalidArgument(name, values, "a sequence of numbers")
    return values


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf
