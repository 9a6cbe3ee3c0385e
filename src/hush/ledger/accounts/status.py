"""The state of a budget, and the price of a charge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hush.accounting import Event
from hush.accounting.budget import DELTA_STEPS, Cap, Charge, Cost
from hush.errors import Unsupported
from hush.ledger.accounts.terms.standard_query import standard_query
from hush.ledger.storage.entry import COSTS

_NEARLY_ALL = 0.8  # of a budget: from here on, sharing delta between rules costs more than it is good for


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a budget, or of one block of it.

    Attributes:
        block: The name of the block; empty if the budget has none.
        cap: The limit.
        cost: The amount spent or reserved, in the units of the cap's privacy filter.
        epsilon: The epsilon of all of it, as the privacy filter proves it: the least cap that would have admitted it.
        left: How many standard queries still fit, of the 100 that the whole budget pays for.
        standard_query: The noise of a standard query, in words.
        retired: Whether the block accepts no more charges.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> (status,) = ledger.budget("people", epsilon=2, unit="person").status()
    >>> status.epsilon, status.left, status.standard_query, status.retired
    (0.0, 100, 'Laplace noise for epsilon 0.02', False)
    """

    block: str
    cap: Cap
    cost: Cost
    epsilon: float
    left: int
    standard_query: str
    retired: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ChargePrice:
    """The price of a charge, on its own and on top of earlier charges. Nothing is charged.

    Attributes:
        alone: The epsilon of the charge on its own, at the cap's delta.
        after: The epsilon spent after the charge, in the block where it is largest.
        fits: Whether the budget admits the charge.
        largest_epsilon: The largest pure epsilon that fits now.
        least_noise: The smallest noise multiplier of a Gaussian release that fits now.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> from hush.accounting import LaplaceEvent
    >>> price = ledger.budget("people", epsilon=2, unit="person").price(LaplaceEvent(4.0))
    >>> price.alone, price.fits
    (0.25, True)
    """

    alone: float
    after: float
    fits: bool
    largest_epsilon: float
    least_noise: float


def stored_status(cap: Cap, row: Any, now: int) -> Status:
    """Return the state of a block as the database has it, ``now`` in microseconds since 1970."""
    cost = Cost(**{name: getattr(row, name) for name in COSTS})
    query = standard_query(cap)
    return Status(
        block=row.block,
        cap=cap,
        cost=cost,
        epsilon=cap.spent_epsilon(cost),
        left=query.left(cost),
        standard_query=query.words,
        retired=bool(row.retired) or (row.expires is not None and row.expires <= now),
    )


def cheapest(cap: Cap, charge: Charge, statuses: list[Status]) -> tuple[Cost, dict[str, Any]]:
    """Return the cost of a charge, and how it is priced, as a row stores it: see `priced`.

    The privacy filter prices the event first. If that does not fit, or takes nearly all, it is charged all of delta if
    nothing was charged before (``first``). If it still does not fit, or that leaves nothing, it is charged as one
    (epsilon, delta) claim at a ``delta``.
    """
    try:
        cost, refused = cap.cost(charge.event), None
        fits = all_fit(cap, cost, statuses)
    except Unsupported as error:
        cost, refused, fits = Cost(), error, False
    if fits and not takes_nearly_all(cap, cost):
        return cost, {"delta": None}
    first = None if any(status.cost != Cost() for status in statuses) else _first(cap, charge.event)
    if first is not None and first.gaussian < cap.limit.gaussian:
        return first, {"delta": None, "first": True}
    if fits:
        return cost, {"delta": None}
    left = min(cap.limit.delta - status.cost.delta for status in statuses) / DELTA_STEPS
    delta = charge.delta if charge.delta is not None and charge.delta <= left else left / 2
    claimed = _claimed(cap, charge.event, delta)
    if claimed is not None and all_fit(cap, claimed, statuses):
        return claimed, {"delta": delta}
    if first is not None:  # nothing is left beside it, so this comes last
        return first, {"delta": None, "first": True}
    if refused is None:
        return cost, {"delta": None}
    if claimed is None:
        raise refused
    return claimed, {"delta": delta}


def all_fit(cap: Cap, cost: Cost, statuses: list[Status]) -> bool:
    """Return whether the cost fits into every block."""
    return all(cap.fits(status.cost + cost) for status in statuses)


def takes_nearly_all(cap: Cap, cost: Cost) -> bool:
    """Return whether more is left if an event without an epsilon comes first and is charged all of delta."""
    return cost.unbounded > 0 and cap.used(cost) > _NEARLY_ALL


def priced(cap: Cap, event: Event, details: dict[str, Any]) -> Cost:
    """Return the cost of an event as a row's details say that it is priced."""
    if details.get("first"):
        return cap.first_cost(event)
    delta = details.get("delta")
    return cap.cost(event) if delta is None else cap.claimed_cost(event, delta=delta)


def _first(cap: Cap, event: Event) -> Cost | None:
    try:
        return cap.first_cost(event)
    except Unsupported:
        return None


def _claimed(cap: Cap, event: Event, delta: float) -> Cost | None:
    """Return the cost of an event as a claim at ``delta``, or None where it has no epsilon there."""
    try:
        return cap.claimed_cost(event, delta=delta) if delta > 0 else None
    except Unsupported:
        return None
