"""The trade-off between an attacker's two errors, as an object: which pairs of rates no test can beat."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.errors import InvalidArgument, check_count, check_delta, check_epsilon, check_fraction, check_instance
from hush.guarantee import limits


@dataclass(frozen=True, slots=True)
class TradeOff:
    """What any membership test can reach, from one or more pairs of epsilon and delta that hold together.

    `Guarantee.tradeoff` has one pair; an accountant's `tradeoff` has many, and is tighter. Draw it with
    `hush.report.trade_off_plot`.

    >>> curve = TradeOff(((0.0, 0.1), (1.0, 0.01)))
    >>> [round(curve.max_tpr(fpr), 3) for fpr in (0.01, 0.5)]
    [0.037, 0.6]
    >>> round(curve.min_fnr(0.01), 3)
    0.963

    Attributes:
        pairs: Epsilons and deltas. Each of them holds for the same release.

    Guarantee:
        No test exceeds `max_tpr`, if each pair is an upper bound.

    Assumes:
        The pairs hold for the same release (the caller's duty).

    References:
        Dong, Roth & Su 2022, Proposition 2.4: one pair is a curve of two lines, and their maximum over all pairs is the
        trade-off function.
    """

    pairs: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        check_instance("pairs", self.pairs, tuple)
        if not self.pairs:
            raise InvalidArgument("pairs", self.pairs, "at least one pair of epsilon and delta")
        for epsilon, delta in self.pairs:
            if epsilon != math.inf:
                check_epsilon("pairs", epsilon)
            check_delta("pairs", delta)

    def max_tpr(self, fpr: float) -> float:
        """Return the largest true positive rate of any test with this false positive rate."""
        rate = check_fraction("fpr", fpr)
        return min(limits.max_tpr(epsilon, delta, rate) for epsilon, delta in self.pairs)

    def min_fnr(self, fpr: float) -> float:
        """Return the smallest false negative rate of any such test: the trade-off function."""
        return 1 - self.max_tpr(fpr)

    def points(self, num_points: int = 101) -> list[tuple[float, float]]:
        """Return false positive rates from 0 to 1, at equal distances, with their largest true positive rates."""
        last = check_count("num_points", num_points, minimum=2) - 1
        return [(index / last, self.max_tpr(index / last)) for index in range(num_points)]
