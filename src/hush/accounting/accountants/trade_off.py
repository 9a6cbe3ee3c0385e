"""The trade-off between an attacker's two errors (f-DP), from the curve of all pairs of epsilon and delta.

A single (epsilon, delta) uses only part of what an accountant knows. The whole curve gives a tighter bound on any
attack.
"""

from __future__ import annotations

import math
from typing import Protocol

from hush.guarantee import TradeOff

_POINTS = 40  # of the curve, to start from
_REFINEMENTS = 12
_NEAR = 50.0  # up to here at equal distances; beyond, where noise is next to none, at equal ratios
_FAR = 1e4  # where the curve does not end


class PrivacyCurve(Protocol):
    """The curve of (epsilon, delta) pairs that an accountant computes for its events."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon for a delta."""

    def delta(self, epsilon: float) -> float:
        """Return delta for an epsilon."""


def trade_off(curve: PrivacyCurve) -> TradeOff:
    """Return the trade-off curve of the pairs at a scan of epsilons."""
    pairs = ((epsilon, curve.delta(epsilon)) for epsilon in scan(curve))
    # A delta of 1 promises nothing.
    return TradeOff(tuple(pair for pair in pairs if pair[1] < 1) or ((math.inf, 0.0),))


def largest_tpr(curve: PrivacyCurve, fpr: float) -> float:
    """Return the tightest bound on an attack's true positive rate over all points of the curve.

    Every point bounds it, by ``e^epsilon fpr + delta`` and by ``1 - e^-epsilon (1 - delta - fpr)`` (Dong, Roth & Su
    2022, Proposition 2.4). Any epsilon gives a valid bound; the search only tightens it.
    """

    def rate(epsilon: float) -> float:
        delta = curve.delta(epsilon)
        steep = delta + (math.exp(min(epsilon, 700.0)) * fpr if fpr > 0 else 0.0)
        return min(1.0, steep if epsilon < 700 or fpr == 0 else 1.0, 1 - math.exp(-epsilon) * (1 - delta - fpr))

    # A coarse scan, then a local search with ever smaller steps.
    epsilons = scan(curve)
    rates = [rate(epsilon) for epsilon in epsilons]
    index = min(range(len(rates)), key=rates.__getitem__)
    best, value = epsilons[index], rates[index]
    step = epsilons[index + 1] - best if index + 1 < len(epsilons) else best - epsilons[index - 1]
    for _ in range(_REFINEMENTS):
        step /= 2
        for candidate in (max(best - step, 0.0), best + step):
            candidate_value = rate(candidate)
            if candidate_value < value:
                best, value = candidate, candidate_value
    return max(value, fpr)


def scan(curve: PrivacyCurve) -> list[float]:
    """Return epsilons from 0 to where next to nothing is left of delta."""
    top = max(curve.epsilon(1e-9), 1e-6)
    near = min(top, _NEAR)
    epsilons = [index * near / _POINTS for index in range(_POINTS + 1)]
    if top > _NEAR:
        ratio = min(top, _FAR if top == math.inf else top) / _NEAR
        epsilons += [_NEAR * ratio ** (index / _POINTS) for index in range(1, _POINTS + 1)]
    return epsilons
