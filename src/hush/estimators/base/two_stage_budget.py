"""Splitting a budget between a small first release and a second one that depends on it.

k-means and forests first release a noisy overview (a count, a mean), and then choose from it how to spend the rest: how
many iterations, how deep the trees.
"""

from __future__ import annotations

from dataclasses import dataclass

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event
from hush.numerics import round_down

_DELTA_MARGIN = 1 - 1e-9  # an accountant that rounds its composition up must still stay below delta


@dataclass(frozen=True, slots=True)
class TwoStageBudget:
    """The budgets of two releases, where the outcome of the first decides how the second is made.

    For every outcome of the first release, the second is (``second``, ``delta``)-differentially private. By adaptive
    composition (Dwork & Roth 2014, Theorem B.1) both together satisfy (first + second, delta). You may not claim a
    finer privacy loss distribution for the second release, because the mechanism itself varies with the first outcome.

    Attributes:
        first: Epsilon of the first release; its delta is 0.
        second: Epsilon of the second release.
        delta: Delta of the second release.
    """

    first: float
    second: float
    delta: float

    @staticmethod
    def split(epsilon: float, delta: float, share: float) -> TwoStageBudget:
        """Give a share of epsilon to the first release, and the rest with delta to the second."""
        return TwoStageBudget(epsilon * share, round_down(epsilon * (1 - share)), delta * _DELTA_MARGIN)

    @property
    def event(self) -> Event:
        """The cost of both releases, for accountants."""
        return ComposedEvent((ApproximateDPEvent(self.first), ApproximateDPEvent(self.second, self.delta)))
