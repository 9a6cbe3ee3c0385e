"""The trade-off between an attacker's two errors (f-DP), from the curve of all pairs of epsilon and delta.

A single (epsilon, delta) uses only part of what an accountant knows. The whole curve gives a tighter bound on any
attack.
"""

from __future__ import annotations

import math
from typing import Protocol

_POINTS = 40  # of the curve, to start from
_REFINEMENTS = 12


class PrivacyCurve(Protocol):
    """The curve of (epsilon, delta) pairs that an accountant computes for its events."""

    def epsilon(self, delta: float) -> float:
        """Return epsilon for a delta."""

    def delta(self, epsilon: float) -> float:
        """Return delta for an epsilon."""


def largest_tpr(curve: PrivacyCurve, fpr: float) -> float:
    """Return the tightest bound on an attack's true positive rate over all points of the curve.

    Every point bounds it, by ``e^epsilon fpr + delta`` and by ``1 - e^-epsilon (1 - delta - fpr)`` (Dong, Roth & Su
    2022, Proposition 2.4). Any epsilon gives a valid bound; the search only tightens it.
    """

    def rate(epsilon: float) -> float:
        delta = curve.delta(epsilon)
        steep = (math.exp(epsilon) if epsilon < 700 else math.inf) * fpr + delta
        return min(1.0, steep, 1 - math.exp(-epsilon) * (1 - delta - fpr))

    # A coarse scan over [0, epsilon(1e-9)], then a local search with ever smaller steps.
    top = max(curve.epsilon(1e-9), 1e-6)
    step = min((top if math.isfinite(top) else 50.0), 50.0) / _POINTS
    best, value = min(((index * step, rate(index * step)) for index in range(_POINTS + 1)), key=lambda pair: pair[1])
    for _ in range(_REFINEMENTS):
        step /= 2
        for candidate in (max(best - step, 0.0), best + step):
            candidate_value = rate(candidate)
            if candidate_value < value:
                best, value = candidate, candidate_value
    return max(value, fpr)
