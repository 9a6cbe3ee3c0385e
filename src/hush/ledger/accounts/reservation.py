"""Reservations: a part of the budget that is set aside before a release."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hush.accounting import Event
from hush.accounting.budget import Cost
from hush.accounting.receipts import Receipt
from hush.errors import InvalidArgument
from hush.ledger.accounts.lease import Lease, idle_seconds, stored_states
from hush.ledger.accounts.people import may_serve
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import COSTS, Entry, EntryKind, cost_columns, parsed_details
from hush.ledger.storage.store import AlreadyThere, DoesNotFit, Effect

if TYPE_CHECKING:
    from hush.ledger.accounts.ledger_budget import LedgerBudget


class Reserved:
    """A reserved part of a budget. It counts as spent until it is voided.

    `LedgerBudget.reserve` returns one. Call `commit` after the release, or `void` if nothing was released.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> from hush.accounting import LaplaceEvent
    >>> from hush.accounting.budget import Charge
    >>> people = ledger.budget("people", epsilon=2, unit="person")
    >>> reserved = people.reserve(Charge(event=LaplaceEvent(2.0), purpose="a count"))
    >>> people.spent
    0.5
    >>> reserved.void()
    >>> people.spent
    0.0
    """

    def __init__(
        self,
        budget: LedgerBudget,
        row: Entry,
        answer: str | None = None,
        *,
        resumed: bool = False,
        is_part: bool = False,
    ) -> None:
        """Wrap the reserving row. A part of a plan costs nothing extra."""
        self._budget, self.row, self._answer, self._resumed = budget, row, answer, resumed
        self._is_part, self._was_answered = is_part, answer is not None
        self._lease: Lease | None = None

    @property
    def id(self) -> int:
        """The row number of the reservation."""
        return self.row.id

    @property
    def event(self) -> Event:
        """The reserved event."""
        return Event.from_json(self.row.event or "")

    @property
    def answer(self) -> str | None:
        """The stored answer, if the same question was answered before."""
        return self._answer

    @property
    def resumed(self) -> bool:
        """Whether an interrupted run continues with this reservation, from its saved state."""
        return self._resumed

    def hold(self, states: int) -> None:
        """Keep other processes from using this reservation, and record how many states the run has stored.

        Call it before the run starts and whenever it has stored a state, before anything of that state is published.
        It raises if another process holds the reservation, or has stored more states than this one.
        """
        if self._lease is None:
            self._lease = Lease(self._budget.store, self.row.id, states)
        else:
            self._lease.note(states)

    def release(self, *, wait: bool = True) -> None:
        """Let other processes continue with this reservation. It stays pending. ``wait``: return when it is done."""
        if self._lease is not None:
            self._lease.release(wait=wait)

    def held_for(self) -> float | None:
        """Return how many seconds ago the process that holds this was alive; None if there is no such process."""
        with self._budget.store.reading() as connection:
            return idle_seconds(self._budget.store, connection, self.row.id)

    def receipt(self, epsilon: float, delta: float) -> Receipt:
        """Return the receipt of this charge. A release that was paid for before costs nothing."""
        return self._budget.receipt(
            self.row, *((0.0, 0.0) if self._was_answered or self._is_part else (epsilon, delta))
        )

    def commit(self, event: Event | None = None, *, answer: str | None = None) -> str | None:
        """Record that the release happened.

        Args:
            event: The event that was run, if it is less than the reserved one. The difference is refunded. What was
                charged as a whole (a claim, a release out of a box, a part of a plan) refunds nothing, and covers
                the reserved event or parts of it only.
            answer: The released answer, to return when the same question is asked again.
        """
        change = Cost()
        details = parsed_details(self.row.details)
        claimed = details.get("delta") is not None or details.get("first") or details.get("boxed")
        self._budget.refuse_predictable(None if event is None else event.to_json())
        if event is not None and (self._is_part or details.get("part_of") or claimed):
            if not self._budget.cap.covers(self.event, event):
                raise InvalidArgument("event", event, "the reserved event, or parts of it")
        elif event is not None:
            cost = self._budget.cap.part_cost(event, self.event, self.row.cost)
            if not cost <= self.row.cost:
                raise InvalidArgument("event", event, "at most what was reserved")
            change = cost + -self.row.cost
        return self._settle(EntryKind.COMMITTED, change, event, answer, self._check_lease)

    def was_begun(self) -> bool:
        """Return whether this is a plan of which some part was run. Parts have rows of their own."""
        if not self._is_plan:
            return False
        part = schema.entries.c.request.like(f"plan {self.id} part %")
        return bool(self._budget.store.rows(schema.entries.c.budget == self._budget.name, part))

    def void(self, *, force: bool = False) -> None:
        """Record that nothing was released. The whole reservation is refunded.

        Args:
            force: Also if a process is working on it, which then cannot publish anything, or if the run has stored
                states, and so may have published metrics.
        """
        if self.was_begun():
            raise self._begun()

        def check(connection: sa.Connection, row: Entry) -> None:
            self._check_lease(connection, row)
            self._refuse_begun(connection, row)
            self._refuse_first(connection, row)
            if self._lease is None and not force:
                self._refuse_run(connection)

        self._settle(EntryKind.VOIDED, -self.row.cost, None, None, check)

    @property
    def _is_plan(self) -> bool:
        return "is_plan" in parsed_details(self.row.details)

    def is_open(self) -> bool:
        """Return whether the reservation is neither committed nor voided."""
        return not self._budget.store.rows(schema.entries.c.charge == self.row.id)

    def _refuse_begun(self, connection: sa.Connection, _: Entry) -> None:
        """Raise, inside the transaction, if a part of the plan was run."""
        if not self._is_plan:
            return
        part = schema.entries.c.request.like(f"plan {self.id} part %")
        taken = sa.select(schema.entries.c.id).where(schema.entries.c.budget == self._budget.name, part).limit(1)
        if connection.execute(taken).first() is not None:
            raise self._begun()

    def _refuse_first(self, connection: sa.Connection, _: Entry) -> None:
        """Raise, inside the transaction, if a first event would be refunded that other charges followed."""
        if not parsed_details(self.row.details).get("first"):
            return
        if any(cost != Cost() for cost in _spent(connection, self.row)):
            raise InvalidArgument(
                "reservation",
                self.id,
                "one that was charged all of delta, or the only one so far",
                "Other charges followed, and their answers may have influenced the decision not to run it",
                "Commit it: it stays charged",
            )

    def _check_lease(self, connection: sa.Connection, _: Entry) -> None:
        """Raise, inside the transaction, if this process held the reservation and another one has taken over."""
        if self._lease is not None:
            self._lease.check(connection)

    def _refuse_run(self, connection: sa.Connection) -> None:
        """Raise, inside the transaction, if a process works with the reservation, or has stored a state."""
        seconds = idle_seconds(self._budget.store, connection, self.row.id)
        if seconds is not None:
            raise InvalidArgument(
                "reservation",
                self.id,
                "one that no process is working on",
                f"Its process was active {seconds:.0f} seconds ago",
                "Stop it first, or pass --force (force=True): the process can then publish nothing more",
            )
        if stored_states(connection, self.row.id):
            raise InvalidArgument(
                "reservation",
                self.id,
                "one of which nothing was released",
                "The release was begun and may have revealed something, if only by how it failed",
                "Resume the run, commit the reservation, or pass --force (force=True) if no one has seen its results",
            )

    def _begun(self) -> InvalidArgument:
        return InvalidArgument("reservation", self.id, "a plan of which no part was run", "Parts of this one were")

    def _settle(
        self, kind: EntryKind, change: Cost, event: Event | None, answer: str | None, check: Effect | None = None
    ) -> str | None:
        if self._answer is not None:
            raise InvalidArgument("reservation", self.id, "a pending reservation", "This question was answered before")
        row = replace(
            self.row,
            id=0,
            kind=kind,
            charge=self.row.id,
            event=None if event is None else event.to_json(),
            request=None,
            answer=answer,
            details="{}",
            author=self._budget.person.name,
            **cost_columns(change),
        )
        try:
            self._budget.store.append(row, check)
        except AlreadyThere:
            self._was_answered = True
            return self._settled_by_another(kind)
        self.release()
        self._answer = answer
        return answer

    def _settled_by_another(self, kind: EntryKind) -> str | None:
        (row,) = self._budget.store.lasting_rows(schema.entries.c.charge == self.row.id)
        if kind is EntryKind.COMMITTED and row.kind == EntryKind.COMMITTED and row.answer is not None:
            return row.answer  # two callers asked the same question: both get the answer that was charged once
        raise InvalidArgument("reservation", self.id, "a pending reservation", f"It was {row.kind} before")


def check_before_commit(connection: sa.Connection, written: Entry) -> None:
    """Raise, inside the transaction, if the same question was charged since, or something before a first event."""
    check_asked_once(connection, written)
    if not parsed_details(written.details).get("first"):
        return
    if any(cost != written.cost for cost in _spent(connection, written)):
        raise DoesNotFit("something was charged before")


def _spent(connection: sa.Connection, row: Entry) -> list[Cost]:
    """Return what is spent of each block that a row charges."""
    table, blocks = schema.budgets, json.loads(row.block) if row.block else [""]
    query = sa.select(*(table.c[name] for name in COSTS)).where(table.c.budget == row.budget, table.c.block.in_(blocks))
    return [Cost(**dict(zip(COSTS, costs, strict=True))) for costs in connection.execute(query)]


def check_asked_once(connection: sa.Connection, written: Entry) -> None:
    """Raise, inside the transaction, if the same question was charged since the caller looked for it."""
    if written.question is None:
        return
    rows, later = schema.entries, schema.entries.alias()
    earlier = (
        sa.select(rows.c.details, rows.c.author, rows.c.event, later.c.kind, later.c.answer)
        .outerjoin(later, later.c.charge == rows.c.id)
        .where(rows.c.question == written.question, rows.c.budget == written.budget)
        .where(rows.c.kind == EntryKind.RESERVED, rows.c.id < written.id)
    )
    details = parsed_details(written.details)
    if details.get("asked_again"):
        return
    for row in connection.execute(earlier):
        earlier_details = parsed_details(row.details)
        if row.event != written.event or earlier_details.get("data") != details.get("data"):
            continue
        same_author = row.author == written.author
        both_sealed = details["sealed"] and earlier_details.get("sealed") is True
        can_continue = row.kind is None and same_author and both_sealed
        was_answered = row.kind == EntryKind.COMMITTED and row.answer is not None
        if can_continue or (was_answered and may_serve(connection, row.author, written.author)):
            raise AlreadyThere("the question was asked before")
