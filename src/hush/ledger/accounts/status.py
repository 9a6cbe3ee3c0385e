"""How a budget stands, and what a charge would cost."""

from __future__ import annotations

from dataclasses import dataclass

from hush.accounting import Event
from hush.accounting.budget import DELTA_STEPS, Cap, Charge, Cost
from hush.errors import Unsupported


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How a budget stands.

    Attributes:
        block: Which block, or empty.
        cap: The limit.
        cost: What is spent or reserved, in the cap's own terms.
        epsilon: The same as an epsilon: the smallest cap that would have allowed it.
        left: The cap's epsilon less that. More fits than it says: costs grow slower than their number.
        used: Which part of the budget is used up; of many equal small charges, this grows evenly.
        retired: Whether the block takes no more charges.
    """

    block: str
    cap: Cap
    cost: Cost
    epsilon: float
    left: float
    used: float
    retired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePrice:
    """What a charge would cost, alone and on top of what is spent; nothing is charged.

    Attributes:
        alone: Its epsilon by itself, at the cap's delta.
        after: What would be spent with it, in the block where that is most.
        fits: Whether it would be allowed.
        largest_epsilon: The largest epsilon of a pure release that fits now.
        least_noise: The least noise multiplier of a Gaussian release that fits now.
    """

    alone: float
    after: float
    fits: bool
    largest_epsilon: float
    least_noise: float


def cheapest(cap: Cap, charge: Charge, stands: list[Status]) -> tuple[Cost, float | None]:
    """Return what an event costs by the filter, or as a claim if only that fits, and then at which delta."""
    try:
        cost, refused = cap.cost(charge.event), None
        if all_fit(cap, cost, stands):
            return cost, None
    except Unsupported as error:
        refused = error
    left = min(cap.limit.delta - status.cost.delta for status in stands) / DELTA_STEPS
    delta = charge.delta if charge.delta is not None and charge.delta <= left else left / 2
    claimed = _claimed(cap, charge.event, delta)
    if claimed is not None and (refused is not None or all_fit(cap, claimed, stands)):
        return claimed, delta
    if refused is not None:
        raise refused
    return cost, None


def all_fit(cap: Cap, cost: Cost, stands: list[Status]) -> bool:
    """Say whether every block has room for a cost."""
    return all(cap.fits(status.cost + cost) for status in stands)


def _claimed(cap: Cap, event: Event, delta: float) -> Cost | None:
    """Return what an event costs as a claim, or None where it promises nothing at this delta."""
    try:
        return cap.claimed_cost(event, delta=delta) if delta > 0 else None
    except Unsupported:
        return None
