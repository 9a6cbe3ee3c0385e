"""A small first release, from which it follows how the rest of the budget is spent."""

from __future__ import annotations

from dataclasses import dataclass

from hush.accounting import ApproximateDPEvent, ComposedEvent, Event
from hush.numerics import down

_ROOM = 1 - 1e-9  # what an accountant's composition may round up is still below delta


@dataclass(frozen=True, slots=True)
class TwoParts:
    """The costs of two releases, of which the first decides how the second is made.

    Whatever the first one says, the second is (``left``, ``delta``)-differentially private; so, by composition, both
    together are what was asked for (Dwork & Roth 2014, Theorem B.1), and no finer law of the second may be claimed.

    Attributes:
        first: The epsilon of the first; its delta is 0.
        left: The epsilon of the second.
        delta: Of the second.
    """

    first: float
    left: float
    delta: float

    @staticmethod
    def of(epsilon: float, delta: float, share: float) -> TwoParts:
        """Give a share of epsilon to the first."""
        return TwoParts(epsilon * share, down(epsilon * (1 - share)), delta * _ROOM)

    @property
    def event(self) -> Event:
        """What both cost, for accountants."""
        return ComposedEvent((ApproximateDPEvent(self.first), ApproximateDPEvent(self.left, self.delta)))
