"""The cost of a release: six integers, which a database adds exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hush.accounting.filters import exactly
from hush.errors import Unsupported

LOSS_STEPS = 10**12
"""The number of steps in an epsilon, or in a Renyi divergence, of 1."""

DELTA_STEPS = 10**18
"""The number of steps in a delta of 1."""

MAX_STEPS = 10**17
"""The most steps of one charge: ten such charges still fit into 64 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The cost of an event under a cap, in steps. Costs add up, event by event.

    >>> Cost(renyi=3, pure=2) + Cost(renyi=1, unbounded=1)
    Cost(renyi=4, pure=2, unbounded=1, delta=0, gaussian=0, smoothed=0)

    Attributes:
        renyi: The Renyi divergence at the cap's order, not counting outcomes that ``delta`` covers.
        pure: The sum of the epsilons of events that have one at delta = 0.
        unbounded: The number of events that have none, such as a Gaussian.
        delta: The sum of the deltas of claims. A claim may fail completely with probability delta.
        gaussian: The price in units of Gaussian noise, mu^2.
        smoothed: The number of events that are no Gaussians. In a limit: the largest ``gaussian`` if there are any.
    """

    renyi: int = 0
    pure: int = 0
    unbounded: int = 0
    delta: int = 0
    gaussian: int = 0
    smoothed: int = 0

    def __add__(self, other: Cost) -> Cost:
        """Return the sum of two costs."""
        return Cost(
            renyi=self.renyi + other.renyi,
            pure=self.pure + other.pure,
            unbounded=self.unbounded + other.unbounded,
            delta=self.delta + other.delta,
            gaussian=self.gaussian + other.gaussian,
            smoothed=self.smoothed + other.smoothed,
        )

    def __neg__(self) -> Cost:
        """Return the negative cost, as a refund."""
        return self.times(-1)

    def __le__(self, other: Cost) -> bool:
        """Return whether no component exceeds the other's."""
        return (
            self.renyi <= other.renyi
            and self.pure <= other.pure
            and self.unbounded <= other.unbounded
            and self.delta <= other.delta
            and self.gaussian <= other.gaussian
            and self.smoothed <= other.smoothed
        )

    def times(self, number: int) -> Cost:
        """Return the cost of a number of events like this one."""
        return Cost(
            renyi=number * self.renyi,
            pure=number * self.pure,
            unbounded=number * self.unbounded,
            delta=number * self.delta,
            gaussian=number * self.gaussian,
            smoothed=number * self.smoothed,
        )

    def within(self, limit: Cost) -> bool:
        """Return whether a total fits into a limit. The ledger's databases have the same condition as a constraint."""
        by_epsilons = self.unbounded == 0 and self.pure <= limit.pure
        by_gaussian = self.gaussian <= (limit.gaussian if self.smoothed == 0 else limit.smoothed)
        return self.delta <= limit.delta and (self.renyi <= limit.renyi or by_epsilons or by_gaussian)


def in_steps(number: float, per_unit: int) -> int:
    """Return a loss in steps, rounded up."""
    steps = math.ceil(exactly(number) * per_unit) if number < math.inf else MAX_STEPS + 1
    if not 0 <= steps <= MAX_STEPS:
        raise Unsupported("the event costs more than any budget has", "Use more noise")
    return steps
