"""Prepaid plans: a fixed list of releases, reserved before the first of them.

Because the list is fixed in advance, it costs what its composed privacy loss distribution says. That is less than a
privacy filter charges for adaptively chosen releases.
"""

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
from hush.ledger.accounts.charging import append_row
from hush.ledger.accounts.earlier_charges import hashed_question, stored_details
from hush.ledger.accounts.reservation import Reserved
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.store import AlreadyThere

if TYPE_CHECKING:
    from hush.ledger.accounts.ledger_budget import LedgerBudget


class WholePlan:
    """A fixed list of releases that was reserved as a whole. It is a budget for exactly these releases.

    `LedgerBudget.plan` returns one. Pass it as ``budget=``. You can run each of its events once.

    Guarantee:
        All parts together are (epsilon, delta)-differentially private, with the epsilon that their composed privacy
        loss distribution has at the plan's delta; the budget counts the plan as one such claim.

    Assumes:
        The list does not depend on its own releases (checked here: it is fixed when it is reserved).

    References:
        Koskela, Jalko & Honkela 2020 (composition of privacy loss distributions, for parameters fixed in advance).

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> from hush.accounting import GaussianEvent
    >>> people = ledger.budget("people", epsilon=3, delta=1e-6, unit="person")
    >>> plan = people.plan([GaussianEvent(8.0)] * 20, delta=5e-8, purpose="twenty means")
    >>> people.spent < 3
    True
    >>> plan.close()
    >>> people.spent
    0.0
    """

    def __init__(self, budget: LedgerBudget, reserved: Reserved, events: tuple[Event, ...]) -> None:
        """Wrap the reservation. `LedgerBudget.plan` calls this."""
        self._budget, self._reserved, self.events = budget, reserved, events

    @property
    def id(self) -> int:
        """The row number of the reservation."""
        return self._reserved.id

    def reserve(self, charge: Charge) -> Reserved:
        """Return a part of the plan that has not been run. It costs nothing more."""
        check_instance("charge", charge, Charge)
        before = self._budget.answered(charge)
        if before is not None:
            return before
        for index, event in enumerate(self.events):
            if not self._same(event, charge.event):
                continue
            try:
                return self._take(charge, index)
            except AlreadyThere:
                continue  # this one was run before; the plan may have another one like it
        raise InvalidArgument(
            "event", charge.event, "an event of the plan that was not run yet", "A plan cannot be extended"
        )

    def close(self) -> None:
        """Close the plan. Parts that were not run are not refunded: skipping them may depend on earlier results."""
        if self._reserved.was_begun():
            self._reserved.commit()
        else:
            self._reserved.void()

    def _same(self, first: Event, second: Event) -> bool:
        cap = self._budget.cap
        return plain_event(first, cap.relation, cap.unit)[0] == plain_event(second, cap.relation, cap.unit)[0]

    def _take(self, charge: Charge, index: int) -> Reserved:
        self._budget.refuse_other_parts(charge, self._reserved.row.block)
        self._budget.refuse_predictable(charge.event.to_json())
        named = replace(charge, request=f"plan {self.id} part {index}")
        details = json.dumps({**stored_details(charge), "delta": None, "part_of": self.id})
        row = self._budget.row(
            EntryKind.RESERVED,
            named,
            Cost(),
            question=hashed_question(self._budget, charge),
            details=details,
            block=self._reserved.row.block,  # the blocks that the plan was charged to
        )
        return Reserved(self._budget, self._budget.store.append(row, self._refuse_closed), is_part=True)

    def _refuse_closed(self, connection: sa.Connection, _: Entry) -> None:
        """Raise, inside the transaction, if the plan was closed."""
        closed = sa.select(schema.entries.c.id).where(schema.entries.c.charge == self.id).limit(1)
        if connection.execute(closed).first() is not None:
            raise InvalidArgument("plan", self.id, "an open plan", "This one was closed")


def reserve_whole(budget: LedgerBudget, events: Sequence[Event], delta: float, purpose: str) -> WholePlan:
    """Reserve a plan. See `LedgerBudget.plan`."""
    check_positive("delta", check_delta("delta", delta))
    if not isinstance(events, (list, tuple)) or not events:
        raise InvalidArgument("events", events, "a list of at least one event")
    for event in events:
        check_instance("events", event, Event)
    parts = tuple(events)
    together = ComposedEvent(parts)
    cost = budget.cap.claimed_cost(together, delta=delta)
    details = json.dumps({"sealed": False, "delta": delta, "is_plan": True})
    charge = Charge(event=together, purpose=purpose, delta=delta)
    written = append_row(budget, budget.row(EntryKind.RESERVED, charge, cost, details=details), cost)
    return WholePlan(budget, Reserved(budget, written), parts)
