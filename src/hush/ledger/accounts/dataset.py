"""A data set's budget: what statistics, training and sweeps charge."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hush.accounting import Event, events
from hush.accounting.budget import Cap, Charge, Cost
from hush.errors import InvalidArgument, Unsupported, check_count, check_instance, check_positive
from hush.guarantee import Guarantee
from hush.ledger.accounts.blocks import check_block, microseconds, open_block, refuse_nested, set_share
from hush.ledger.accounts.people import Person, Role
from hush.ledger.accounts.prepaid import WholePlan, reserve_whole
from hush.ledger.accounts.reserved import Reserved, asked_once
from hush.ledger.accounts.run_budget import RunBudget
from hush.ledger.accounts.status import ChargePrice, Status, all_fit, cheapest
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.errors import LedgerDamaged, NotAllowed, OverBudget
from hush.ledger.storage.store import AlreadyThere, DoesNotFit, Store

if TYPE_CHECKING:
    from hush.sql import QueryAnswer, Table


class Dataset:
    """A budget for everything that is released from some data, and the data's table, if it was given.

    `Ledger.dataset` makes one. It is an `accounting.Budget`: pass it as ``budget=`` to whatever charges.

    Guarantee:
        All releases that are charged to it, together, are (epsilon, delta)-differentially private, whatever is asked
        next in view of earlier answers; per block, if the data are in blocks.

    Assumes:
        Every release from these data is charged here (the caller's duty). Events describe what is run (the duty of what
        charges; checked for hush's own). Under blocks, each unit's rows are in one block (the caller's duty).

    References:
        `hush.accounting.budget.Cap`.
    """

    def __init__(
        self,
        store: Store,
        person: Person,
        name: str,
        cap: Cap,
        *,
        in_blocks: bool,
        blocks: tuple[str, ...] | None = None,
        table: Table | None = None,
        block_column: str | None = None,
    ) -> None:
        """Take what the ledger says of it; ``blocks`` are those that releases are from, if not from all."""
        self.store, self.person, self.name, self.cap = store, person, name, cap
        self._in_blocks, self._blocks, self._table, self._block_column = in_blocks, blocks, table, block_column

    # Spending

    def reserve(self, charge: Charge) -> Reserved:
        """Set aside what a charge costs, or raise `OverBudget` and change nothing.

        A question that was answered before is returned with its answer; one that is reserved and sealed goes on.
        """
        check_instance("charge", charge, Charge)
        _refuse_taken_names(charge.request)
        self._refuse_other_parts(charge, self._written_blocks())
        asked = self.hashed(charge)
        before = self._before(asked, charge)
        if before is not None:
            return before
        try:
            return Reserved(
                self, self._charged(EntryKind.RESERVED, charge, question=asked, details={"sealed": charge.sealed})
            )
        except AlreadyThere:
            again = self._before(asked, charge)
            if again is None:
                raise LedgerDamaged("A request is there and cannot be found.") from None
            return again

    def plan(self, events: Sequence[Event], *, delta: float, purpose: str) -> WholePlan:
        """Reserve a list of releases whole, before the first: its privacy loss distribution is then what it costs.

        That is less than what a filter adds up for choices made on the way. The plan is charged as one claim at
        ``delta``, which comes out of the cap's ``claims_delta``.

        Args:
            events: What will be run, such as ``people.price(...).event`` and ``plan.event()`` of a training plan.
            delta: At which delta the plan is stated.
            purpose: What for.
        """
        return reserve_whole(self, events, delta, purpose)

    def answered(self, charge: Charge) -> Reserved | None:
        """Return what the same question, or request, has reserved before, if it can be gone on with."""
        return self._before(self.hashed(charge), charge)

    def charge(self, event: Event, *, purpose: str, request: str | None = None) -> Entry:
        """Charge an event at once, in one step: for what will be released in any case. Returns the ledger's row."""
        asked = Charge(event=event, purpose=purpose, request=request)
        _refuse_taken_names(request)
        try:
            return self._charged(EntryKind.COMMITTED, asked, details={})
        except AlreadyThere:
            (row,) = self.store.lasting_rows(schema.entries.c.dataset == self.name, schema.entries.c.request == request)
            self._refuse_other(row, asked)
            if row.kind != EntryKind.COMMITTED:
                raise InvalidArgument("request", request, "a new one", "It was used for a reservation") from None
            return row

    def price(self, event: Event, *, delta: float | None = None) -> ChargePrice:
        """Return what a charge would cost; nothing is charged."""
        stands = self._charged_blocks()
        cost, _ = cheapest(self.cap, Charge(event=event, purpose="a price", delta=delta), stands)
        worst = max(stands, key=lambda status: self.cap.spent_epsilon(status.cost + cost))
        return ChargePrice(
            alone=self.cap.alone(event, cost),
            after=self.cap.spent_epsilon(worst.cost + cost),
            fits=all_fit(self.cap, cost, stands) and not any(status.retired for status in stands),
            largest_epsilon=min(self.cap.largest_epsilon(status.cost) for status in stands),
            least_noise=max(self.cap.least_noise(status.cost) for status in stands),
        )

    def cost(self, event: Event, claimed_at: float | None = None) -> Cost:
        """Return what an event costs under the cap, by the filter or as a claim at a delta."""
        return self.cap.cost(event) if claimed_at is None else self.cap.claimed_cost(event, delta=claimed_at)

    def sql(self, text: str, **arguments: Any) -> QueryAnswer:
        """Ask the data set's table: as `Table.sql`, charged here. The same question again costs nothing.

        Of data in blocks, only rows of this budget's blocks are looked at; without `at`, of those not retired.
        """
        table = self.table
        if not self._in_blocks:
            return table.sql(text, budget=self, **arguments)
        if self._block_column is None:
            raise InvalidArgument("block_column", None, "the column that says in which block a row is")
        own = self.at(*json.loads(self._written_blocks()))
        return table.only(self._block_column, own._blocks or ()).sql(text, budget=own, **arguments)

    @property
    def table(self) -> Table:
        """The table that was given with the data set."""
        if self._table is None:
            raise InvalidArgument("table", None, "a table", "Pass table=hush.table(...) to ledger.dataset")
        return self._table

    # How it stands

    def status(self) -> list[Status]:
        """Return how the budget of each block stands; of data that are not in blocks, one."""
        with self.store.reading() as connection:
            now = max(connection.execute(sa.select(schema.head.c.time)).scalar_one(), time.time_ns() // 1000)
            query = sa.select(schema.budgets).where(schema.budgets.c.dataset == self.name)
            if self._blocks is not None:
                query = query.where(schema.budgets.c.block.in_(self._blocks))
            rows = connection.execute(query.order_by(schema.budgets.c.block)).all()
        return [self._status(row, now) for row in rows]

    def _charged_blocks(self) -> list[Status]:
        """Return how those blocks stand that a charge would be for: without `at`, those that are not retired."""
        stands = self.status()
        return [status for status in stands if self._blocks is not None or not status.retired] or stands

    def _status(self, row: Any, now: int) -> Status:
        cost = Cost(renyi=row.renyi, pure=row.pure, unbounded=row.unbounded, delta=row.delta)
        epsilon = self.cap.spent_epsilon(cost)
        return Status(
            block=row.block,
            cap=self.cap,
            cost=cost,
            epsilon=epsilon,
            left=max(self.cap.epsilon - epsilon, 0.0),
            used=self.cap.used(cost),
            retired=bool(row.retired) or (row.expires is not None and row.expires <= now),
        )

    @property
    def spent(self) -> float:
        """What is spent or reserved, as an epsilon; of blocks, the most."""
        return max((status.epsilon for status in self.status()), default=0.0)

    @property
    def left(self) -> float:
        """What is left of the cap's epsilon; of blocks, the least."""
        return min((status.left for status in self.status()), default=self.cap.epsilon)

    def guarantee(self) -> Guarantee:
        """Return what holds for all releases together, however the rest is spent."""
        stated = self.cap.guarantee()
        if not self._in_blocks:
            return stated
        return replace(stated, assumptions=(*stated.assumptions, "each unit's rows are all in one block"))

    def entries(self) -> list[Entry]:
        """Return the data set's rows."""
        return self.store.rows(schema.entries.c.dataset == self.name)

    def pending(self) -> list[Reserved]:
        """Return what is reserved and neither committed nor voided: running, or left by a crash. It counts."""
        settled = sa.select(schema.entries.c.charge).where(schema.entries.c.charge.is_not(None))
        rows = self.store.rows(
            schema.entries.c.dataset == self.name,
            schema.entries.c.kind == EntryKind.RESERVED,
            schema.entries.c.id.not_in(settled),
        )
        return [Reserved(self, row) for row in rows]

    # Blocks

    def at(self, *blocks: str) -> Dataset:
        """Return the same budget for releases from these blocks only: others are not charged, and not to be looked at.

        >>> patients.at("2026-10", "2026-11").charge(event, purpose="autumn")  # doctest: +SKIP
        """
        known = {status.block for status in self._from(None).status()}
        for block in blocks:
            if block not in known or not block:
                raise InvalidArgument("blocks", block, "a block of the data set", f"It has {', '.join(sorted(known))}")
        if not blocks or len(set(blocks)) != len(blocks):
            raise InvalidArgument("blocks", blocks, "one block or more, each once")
        return self._from(tuple(sorted(blocks)))

    def add_block(self, name: str, *, expires: datetime | None = None) -> None:
        """Begin a block, with a budget of its own: a new month of a growing table.

        Args:
            name: What it is called.
            expires: From when on it takes no more charges.
        """
        self.person.require(Role.OWNER)
        if not self._in_blocks:
            raise InvalidArgument(
                "name", name, "nothing: these data are not in blocks", "Say blocks=[...] when created"
            )
        refuse_nested([*(status.block for status in self._from(None).status()), check_block(name)])
        details = {"expires": None if expires is None else microseconds(expires)}
        row = self.row(EntryKind.BLOCK, None, Cost(), block=json.dumps([name]), details=json.dumps(details))
        try:
            self.store.append(row, lambda connection, _: open_block(connection, self.name, name, self.cap, details))
        except AlreadyThere:
            raise InvalidArgument("name", name, "a name that no block of the data set has") from None

    def retire(self, *blocks: str) -> None:
        """End blocks: they take no more charges. What was released from them stays charged to them."""
        self.person.require(Role.OWNER)
        own = self.at(*blocks)
        table = schema.budgets

        def close(connection: sa.Connection, _: Entry) -> None:
            connection.execute(
                table.update().where(table.c.dataset == self.name, table.c.block.in_(blocks)).values(retired=True)
            )

        self.store.append(own.row(EntryKind.RETIRED, None, Cost()), close)

    def retire_spent(self, *, least_epsilon: float) -> list[str]:
        """End all blocks from which no release of ``least_epsilon`` fits any more; return their names."""
        check_positive("least_epsilon", least_epsilon)
        cost = self.cost(events.ApproximateDPEvent(least_epsilon))
        spent = [
            status.block
            for status in self.status()
            if status.block and not status.retired and not self.cap.fits(status.cost + cost)
        ]
        if spent:
            self.retire(*spent)
        return spent

    def _from(self, blocks: tuple[str, ...] | None) -> Dataset:
        return Dataset(
            self.store,
            self.person,
            self.name,
            self.cap,
            in_blocks=self._in_blocks,
            blocks=blocks,
            table=self._table,
            block_column=self._block_column,
        )

    # Sharing

    def share(self, name: str, *, percent: int) -> None:
        """Let an analyst spend up to so many percent of each block's budget; all shares together are at most 100."""
        self.person.require(Role.OWNER)
        if not check_count("percent", percent) <= 100:
            raise InvalidArgument("percent", percent, "an integer from 1 to 100")
        details = json.dumps({"name": name, "percent": percent})
        row = self.row(EntryKind.SHARE, None, Cost(), details=details)
        self.store.append(row, lambda connection, _: set_share(connection, self.name, name, percent, self.cap))

    # Rows

    def row(self, kind: EntryKind, charge: Charge | None, cost: Cost, **more: Any) -> Entry:
        """Return a row about this data set that is not written yet."""
        given: dict[str, Any] = {
            "block": self._written_blocks(),
            "unit": str(self.cap.unit),
            "relation": self.cap.relation.value,
            **asdict(cost),
        }
        if charge is not None:
            given.update(event=charge.event.to_json(), purpose=_purpose(charge.purpose), request=charge.request)
        return Entry(**{**given, "kind": kind, "dataset": self.name, "author": self.person.name, **more})

    def _written_blocks(self) -> str:
        if not self._in_blocks:
            return ""
        if self._blocks is not None:
            return json.dumps(list(self._blocks))
        names = [status.block for status in self.status() if not status.retired]
        if not names:
            raise InvalidArgument("blocks", None, "a block that takes charges", "All are retired or have expired")
        return json.dumps(names)

    def _charged(self, kind: EntryKind, charge: Charge, *, details: dict[str, Any], **more: Any) -> Entry:
        """Write a charge: by the filter if it fits so, else as a claim, reserved whole, if it fits so."""
        try:
            cost = self.cap.cost(charge.event)
            row = self.row(
                kind, charge, cost, details=json.dumps({**details, "delta": None, "stated": charge.delta}), **more
            )
            self.person.require(Role.OWNER, Role.ANALYST)
            return self.store.append(row, asked_once)
        except (DoesNotFit, Unsupported):
            cost, delta = cheapest(self.cap, charge, self._charged_blocks())
        row = self.row(kind, charge, cost, details=json.dumps({**details, "delta": delta}), **more)
        return self.append_row(row, cost)

    def append_row(self, row: Entry, cost: Cost) -> Entry:
        """Write a row that charges, or say why it does not fit."""
        self.person.require(Role.OWNER, Role.ANALYST)
        try:
            return self.store.append(row, asked_once)
        except DoesNotFit:
            raise self._over(row, cost) from None

    def _over(self, row: Entry, cost: Cost) -> OverBudget:
        stands = self.status()
        worst = max(stands, key=lambda status: status.epsilon)
        return OverBudget(
            f"{self.name}: the charge does not fit into its budget (epsilon = {self.cap.epsilon:.4g}, "
            f"delta = {self.cap.delta:.3g} per {self.cap.unit})",
            asked=self.cap.alone(Event.from_json(row.event or ""), cost),
            spent=worst.epsilon,
            used=worst.used,
            left=worst.left,
            largest_epsilon=min(self.cap.largest_epsilon(status.cost) for status in stands),
            least_noise=max(self.cap.least_noise(status.cost) for status in stands),
        )

    def hashed(self, charge: Charge) -> str | None:
        """Return what is stored of a question."""
        if not charge.question:
            return None
        asked = json.dumps([self.name, self._written_blocks(), charge.question])
        return hashlib.sha256(asked.encode()).hexdigest()

    def _before(self, asked: str | None, charge: Charge) -> Reserved | None:
        """Return an earlier reservation of the same question or request, with its answer if there is one."""
        for condition in (
            None if charge.request is None else schema.entries.c.request == charge.request,
            None if asked is None else schema.entries.c.question == asked,
        ):
            if condition is None:
                continue
            rows = self.store.lasting_rows(schema.entries.c.dataset == self.name, condition)
            found = self._resumed(rows, charge)
            if found is not None:
                return found
        return None

    def _resumed(self, rows: Sequence[Entry], charge: Charge) -> Reserved | None:
        for row in rows:
            if row.kind != EntryKind.RESERVED:
                continue
            requested = row.request is not None and row.request == charge.request
            if requested:
                self._refuse_other(row, charge)
            elif row.event != charge.event.to_json():
                continue  # the same words about something else
            settled = self.store.lasting_rows(schema.entries.c.charge == row.id)
            if not settled:
                if json.loads(row.details)["sealed"] and charge.sealed and row.author == self.person.name:
                    return Reserved(self, row)
                if requested and charge.resumes:
                    return self._own(row)
                if requested:
                    raise InvalidArgument(
                        "request", charge.request, "one that is not pending", "Settle it first: `hush ledger pending`"
                    )
            elif settled[0].kind == EntryKind.COMMITTED and settled[0].answer is not None:
                return Reserved(self, row, settled[0].answer)
            elif requested:
                raise InvalidArgument("request", charge.request, "a new one", f"This one was {settled[0].kind}")
        return None

    def _refuse_other(self, row: Entry, charge: Charge) -> None:
        same = row.event == charge.event.to_json() and row.block == self._written_blocks()
        if not same:
            raise InvalidArgument(
                "request", charge.request, "a new key for a new charge", "It was used for another one"
            )

    def _refuse_other_parts(self, charge: Charge, blocks: str) -> None:
        """Refuse a release that looks at other blocks than those that are charged, as far as that can be known."""
        if not self._in_blocks or charge.parts is None:
            return
        if sorted(charge.parts) != sorted(json.loads(blocks)):
            raise InvalidArgument(
                "budget",
                self.name,
                "one for the blocks that are looked at",
                "Ask through the data set, with table= and block_column=, or narrow the table with only(...)",
            )

    def _own(self, row: Entry) -> Reserved:
        if row.author != self.person.name and self.person.role is not Role.OWNER:
            raise NotAllowed("The run was begun by somebody else.")
        return Reserved(self, row, resumed=True)

    def for_run(self, name: str) -> RunBudget:
        """Return this budget for one run, which can be interrupted and resumed, and is paid for once."""
        return RunBudget(self, name)


def _purpose(text: str) -> str:
    if not str(text).strip() or not text.isprintable() or len(text) > 500:
        raise InvalidArgument("purpose", text, "a few words on one line")
    return text


def _refuse_taken_names(request: str | None) -> None:
    if request is not None and request.startswith("plan "):
        raise InvalidArgument("request", request, "a key that does not begin with 'plan '", "Parts of plans have these")
