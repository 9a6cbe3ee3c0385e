"""How a budget stands, and what a charge would cost."""

from __future__ import annotations

from dataclasses import dataclass

from hush.accounting.budget import Cap, Cost


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
class Price:
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
