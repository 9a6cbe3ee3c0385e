"""A part of a budget that is set aside."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hush.accounting import Event
from hush.accounting.budget import Cost
from hush.errors import InvalidArgument
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.store import AlreadyThere, Effect

if TYPE_CHECKING:
    from hush.ledger.accounts.dataset import Dataset


class Reserved:
    """A part of a budget that is set aside: `Dataset.reserve` makes one. It counts until it is voided."""

    def __init__(
        self, dataset: Dataset, row: Entry, answer: str | None = None, *, resumed: bool = False, is_part: bool = False
    ) -> None:
        """Take the row that reserves; a part of a plan costs nothing by itself."""
        self._dataset, self.row, self._answer, self._resumed = dataset, row, answer, resumed
        self._is_part = is_part

    @property
    def id(self) -> int:
        """The number of its row in the ledger."""
        return self.row.id

    @property
    def answer(self) -> str | None:
        """What the same question was answered before, if it was."""
        return self._answer

    @property
    def resumed(self) -> bool:
        """Whether an interrupted run goes on with it: then it must go on from what it had."""
        return self._resumed

    def commit(self, event: Event | None = None, *, answer: str | None = None) -> str | None:
        """Say that it was run, or only the part that ``event`` describes; what that saves is given back."""
        change = Cost()
        claimed = json.loads(self.row.details).get("delta") is not None
        if event is not None and not self._is_part and not claimed:  # a claim is about all of it
            cost = self._dataset.cost(event)
            if not cost <= self.row.cost:
                raise InvalidArgument("event", event, "a part of what was reserved")
            change = cost + -self.row.cost
        return self._settle(EntryKind.COMMITTED, change, event, answer)

    def was_begun(self) -> bool:
        """Say whether it is a plan of which a part was taken: parts are rows of their own."""
        part = schema.entries.c.request.like(f"plan {self.id} part %")
        return bool(self._dataset.store.rows(schema.entries.c.dataset == self._dataset.name, part))

    def void(self) -> None:
        """Say that nothing was released; all of it is given back."""
        if self.was_begun():
            raise self._begun()
        self._settle(EntryKind.VOIDED, -self.row.cost, None, None, self._refuse_begun)

    def is_open(self) -> bool:
        """Say whether it still counts, and nobody has settled it."""
        return not self._dataset.store.rows(schema.entries.c.charge == self.row.id)

    def _refuse_begun(self, connection: sa.Connection, _: Entry) -> None:
        """Refuse, within the transaction, to give back a plan of which a part was taken."""
        part = schema.entries.c.request.like(f"plan {self.id} part %")
        taken = sa.select(schema.entries.c.id).where(schema.entries.c.dataset == self._dataset.name, part).limit(1)
        if connection.execute(taken).first() is not None:
            raise self._begun()

    def _begun(self) -> InvalidArgument:
        return InvalidArgument("reservation", self.id, "one of which nothing was run", "Parts of the plan were")

    def _settle(
        self, kind: EntryKind, change: Cost, event: Event | None, answer: str | None, check: Effect | None = None
    ) -> str | None:
        if self._answer is not None:
            raise InvalidArgument("reservation", self.id, "one that is open", "This question was answered before")
        row = replace(
            self.row,
            id=0,
            kind=kind,
            charge=self.row.id,
            event=None if event is None else event.to_json(),
            request=None,
            answer=answer,
            details="{}",
            author=self._dataset.person.name,
            renyi=change.renyi,
            pure=change.pure,
            unbounded=change.unbounded,
            delta=change.delta,
        )
        try:
            self._dataset.store.append(row, check)
        except AlreadyThere:
            return self._settled_by_another(kind)
        self._answer = answer
        return answer

    def _settled_by_another(self, kind: EntryKind) -> str | None:
        (row,) = self._dataset.store.lasting_rows(schema.entries.c.charge == self.row.id)
        if kind is EntryKind.COMMITTED and row.kind == EntryKind.COMMITTED and row.answer is not None:
            return row.answer  # two asked the same: both get the one answer that was paid for
        raise InvalidArgument("reservation", self.id, "one that is open", f"It was {row.kind} before")


def asked_once(connection: sa.Connection, written: Entry) -> None:
    """Take a row back if somebody has asked the same question since it was looked for: they go on with one charge."""
    if written.question is None:
        return
    rows, later = schema.entries, schema.entries.alias()
    earlier = (
        sa.select(rows.c.details, rows.c.author, rows.c.event, later.c.kind, later.c.answer)
        .outerjoin(later, later.c.charge == rows.c.id)
        .where(rows.c.question == written.question, rows.c.dataset == written.dataset)
        .where(rows.c.kind == EntryKind.RESERVED, rows.c.id < written.id)
    )
    sealed = json.loads(written.details)["sealed"]
    for row in connection.execute(earlier):
        if row.event != written.event:
            continue
        mine = row.author == written.author
        can_go_on = row.kind is None and mine and sealed and json.loads(row.details)["sealed"]
        if can_go_on or (row.kind == EntryKind.COMMITTED and row.answer is not None):
            raise AlreadyThere("it was asked already")
