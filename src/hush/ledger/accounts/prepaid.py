"""Plans that are reserved whole before any of their output is seen, and cost what their loss distribution says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hush.accounting import ComposedEvent, Event
from hush.accounting.budget import Charge, Cost
from hush.accounting.events import plain_event
from hush.errors import InvalidArgument, check_delta, check_instance, check_positive
from hush.ledger.accounts.reserved import Reserved
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.store import AlreadyThere

if TYPE_CHECKING:
    from hush.ledger.accounts.dataset import Dataset


class WholePlan:
    """A list of releases that was fixed and paid for before the first of them; itself a budget, for just these.

    `Dataset.plan` makes one. Pass it as ``budget=``; each of its events can be run once.

    Guarantee:
        All parts together are (epsilon, delta)-differentially private, with the epsilon that their composed privacy
        loss distribution has at the plan's delta; the data set's budget counts the plan as one such claim.

    Assumes:
        The list does not depend on anything that was released from it (checked here: it is fixed when reserved).

    References:
        Koskela, Jalko & Honkela 2020 (composition of privacy loss distributions, for parameters fixed in advance).
    """

    def __init__(self, dataset: Dataset, reserved: Reserved, events: tuple[Event, ...]) -> None:
        """Take what was reserved."""
        self._dataset, self._reserved, self.events = dataset, reserved, events

    @property
    def id(self) -> int:
        """The number of its row in the ledger."""
        return self._reserved.id

    def reserve(self, charge: Charge) -> Reserved:
        """Take a part that was not run yet; nothing more is charged for it."""
        check_instance("charge", charge, Charge)
        before = self._dataset.answered(charge)
        if before is not None:
            return before
        for place, event in enumerate(self.events):
            if not self._is(event, charge.event):
                continue
            try:
                return self._taken(charge, place)
            except AlreadyThere:
                continue  # that one was run; there may be another of its kind
        raise InvalidArgument("event", charge.event, "a part of the plan that was not run yet", "The plan is fixed")

    def close(self) -> None:
        """End the plan. What was not run stays paid for: that it was left out may be because of what was seen."""
        if self._reserved.was_begun():
            self._reserved.commit()
        else:
            self._reserved.void()

    def _is(self, one: Event, other: Event) -> bool:
        cap = self._dataset.cap
        return plain_event(one, cap.relation, cap.unit)[0] == plain_event(other, cap.relation, cap.unit)[0]

    def _taken(self, charge: Charge, place: int) -> Reserved:
        self._dataset._refuse_other_parts(charge, self._reserved.row.block)
        named = replace(charge, request=f"plan {self.id} part {place}")
        details = json.dumps({"sealed": charge.sealed, "delta": None, "part_of": self.id})
        asked, blocks = self._dataset.hashed(charge), self._reserved.row.block  # those that the plan has paid for
        row = self._dataset.row(EntryKind.RESERVED, named, Cost(), question=asked, details=details, block=blocks)
        return Reserved(self._dataset, self._dataset.store.append(row, self._refuse_closed), is_part=True)

    def _refuse_closed(self, connection: sa.Connection, _: Entry) -> None:
        """Refuse a part, within the transaction, of a plan that was closed."""
        closed = sa.select(schema.entries.c.id).where(schema.entries.c.charge == self.id).limit(1)
        if connection.execute(closed).first() is not None:
            raise InvalidArgument("plan", self.id, "one that is open", "It was closed")


def reserve_whole(dataset: Dataset, events: Sequence[Event], delta: float, purpose: str) -> WholePlan:
    """Reserve a plan; `Dataset.plan` says more."""
    check_positive("delta", check_delta("delta", delta))
    parts = tuple(events)
    if not parts:
        raise InvalidArgument("events", parts, "at least one event")
    together = ComposedEvent(parts)
    cost = dataset.cap.claimed_cost(together, delta=delta)
    details = json.dumps({"sealed": False, "delta": delta, "is_plan": True})
    charge = Charge(event=together, purpose=purpose, delta=delta)
    written = dataset.append_row(dataset.row(EntryKind.RESERVED, charge, cost, details=details), cost)
    return WholePlan(dataset, Reserved(dataset, written), parts)
