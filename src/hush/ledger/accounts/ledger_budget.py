"""A budget of a ledger: `LedgerBudget` is what you pass as ``budget=``.

A charge goes through these steps. `reserve` looks for an earlier answer to the same question. It prices the event by
the cap's privacy filter, or as a claim if only a claim fits. It appends a row, which the database checks against the
cap. The caller then runs the release and commits the reservation.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from hush.accounting import Event, events
from hush.accounting.budget import LOSS_STEPS, Cap, Charge, Cost, StoredAnswer
from hush.accounting.receipts import Receipt
from hush.errors import InvalidArgument, check_count, check_instance, check_positive
from hush.guarantee import Guarantee
from hush.ledger.accounts.blocks import (
    check_block,
    check_charged,
    guarantee_in_blocks,
    microseconds,
    open_block,
    refuse_nested,
    set_share,
)
from hush.ledger.accounts.charging import append_charge
from hush.ledger.accounts.earlier_charges import (
    earlier_reservation,
    hashed_question,
    refuse_other_charge,
    stored_answers,
    stored_details,
)
from hush.ledger.accounts.people import Person, Role
from hush.ledger.accounts.refusals import check_request, checked_purpose, refuse_predictable
from hush.ledger.accounts.reservation import Reserved
from hush.ledger.accounts.run_budget import RunBudget
from hush.ledger.accounts.status import ChargePrice, Status, all_fit, cheapest, stored_status
from hush.ledger.accounts.terms.boxes import kind_blocks
from hush.ledger.accounts.whole_plan import WholePlan, reserve_whole
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind, cost_columns
from hush.ledger.storage.errors import LedgerDamaged
from hush.ledger.storage.store import AlreadyThere, Store
from hush.randomness import TEST_RANDOMNESS

if TYPE_CHECKING:
    from hush.sql import QueryAnswer, Table


class LedgerBudget:
    """The budget for all releases from one dataset.

    `Ledger.budget` returns one. It is an `accounting.Budget`: pass it as ``budget=`` to statistics, SQL, estimators or
    training.

    Guarantee:
        All releases charged to it are together (epsilon, delta)-differentially private, even if each is chosen after
        seeing earlier answers (fully adaptive composition). With blocks, this holds for each block, and so for each
        unit, since no unit is in two blocks.

    Assumes:
        Every release from the data is charged here (the caller's duty). Events describe what is run (the duty of the
        code that charges; tested for hush's own). With blocks, each unit's rows are in one block (checked here: rows as
        units, or windows that no block cuts; queries read the rows of the charged blocks only). Releases that are not
        queries read the rows of these blocks and no others (the caller's duty).

    References:
        `hush.accounting.budget.Cap`.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> people = ledger.budget("people", epsilon=2, delta=1e-6, unit="person")
    >>> from hush import statistics
    >>> answer = statistics.count([1, 2, 3], units=["ann", "ann", "bob"], epsilon=0.5, budget=people)
    >>> people.spent, people.left
    (0.5, ...)
    """

    def __init__(
        self,
        store: Store,
        person: Person,
        name: str,
        cap: Cap,
        *,
        unit_name: str,
        in_blocks: bool,
        for_tests: bool = False,
        blocks: tuple[str, ...] | None = None,
        table: Table | None = None,
        block_column: str | None = None,
    ) -> None:
        """Wrap what the ledger stores.

        ``unit_name`` is what the owner calls the unit. ``blocks`` restricts the budget to some of its blocks.
        ``for_tests`` says whether it is one of a `TestLedger`.
        """
        self.for_tests = for_tests
        self.store, self.person, self.name, self.cap, self.unit_name = store, person, name, cap, unit_name
        self._in_blocks, self._blocks, self._table, self._block_column = in_blocks, blocks, table, block_column

    # Spending

    def reserve(self, charge: Charge) -> Reserved:
        """Reserve the cost of a charge, or raise `OverBudget` and change nothing.

        If the same question was answered before, the reservation carries that answer and costs nothing. A sealed
        reservation that was not settled is continued.
        """
        check_instance("charge", charge, Charge)
        check_request(charge.request)
        self.refuse_other_parts(charge, self.block_list())
        question = hashed_question(self, charge)
        before = earlier_reservation(self, charge)
        if before is not None:
            return before
        details = stored_details(charge)
        try:
            return Reserved(self, append_charge(self, EntryKind.RESERVED, charge, question=question, details=details))
        except AlreadyThere:
            earlier = earlier_reservation(self, charge)
            if earlier is None:
                raise LedgerDamaged("A request exists and cannot be read. Run `hush ledger verify`.") from None
            return earlier

    def plan(self, events: Sequence[Event], *, delta: float, purpose: str) -> WholePlan:
        """Reserve a fixed list of releases before the first of them.

        The list costs what its composed privacy loss distribution says, which is less than a privacy filter charges for
        adaptively chosen releases. It is charged as one claim at ``delta``, taken from the cap's ``claims_delta``.

        Args:
            events: The events of the releases, such as ``people.price(...).event`` or a training plan's ``event()``.
            delta: The delta at which the plan's epsilon is claimed.
            purpose: The purpose of the plan.
        """
        return reserve_whole(self, events, delta, purpose)

    def answered(self, charge: Charge) -> Reserved | None:
        """Return the earlier reservation of the same question or request, if it can be continued."""
        return earlier_reservation(self, charge)

    def answers(self, question: str, data: str) -> list[StoredAnswer]:
        """Return the stored answers to a question about the same data, whatever their noise is, the last one first."""
        return stored_answers(self, question, data)

    def charge(self, event: Event, *, purpose: str, request: str | None = None) -> Entry:
        """Charge an event in one step, for a release that happens in any case. Return the ledger's row."""
        charge = Charge(event=event, purpose=purpose, request=request)
        check_request(request)
        try:
            return append_charge(self, EntryKind.COMMITTED, charge, details={})
        except AlreadyThere:
            (row,) = self.store.lasting_rows(schema.entries.c.budget == self.name, schema.entries.c.request == request)
            refuse_other_charge(self, row, charge)
            if row.kind != EntryKind.COMMITTED:
                raise InvalidArgument("request", request, "a new key", "This one was used for a reservation") from None
            return row

    def price(self, event: Event, *, delta: float | None = None) -> ChargePrice:
        """Return the price of an event. Nothing is charged."""
        statuses = self.charged_blocks()
        index = None if self.cap.box is None else self.cap.box.kind_of(event, self.cap.relation, self.cap.unit)
        if index is not None and self.box_left[index]:
            cost = Cost()  # the box is paid
        else:
            cost, _ = cheapest(self.cap, Charge(event=event, purpose="a price", delta=delta), statuses)
        worst = max(statuses, key=lambda status: self.cap.spent_epsilon(status.cost + cost))
        return ChargePrice(
            alone=self.cap.alone(event, cost),
            after=self.cap.spent_epsilon(worst.cost + cost),
            fits=all_fit(self.cap, cost, statuses) and not any(status.retired for status in statuses),
            largest_epsilon=min(self.cap.largest_epsilon(status.cost) for status in statuses),
            least_noise=max(self.cap.least_noise(status.cost) for status in statuses),
        )

    def cost(self, event: Event) -> Cost:
        """Return the cost of an event by the cap's privacy filter."""
        return self.cap.cost(event)

    def sql(self, text: str, **arguments: Any) -> QueryAnswer:
        """Query the table, as `Table.sql` does, and charge it here. A repeated question costs nothing.

        With blocks, the query reads only this budget's blocks: those given to `at`, or all that are not retired.
        """
        table = self.table
        if not self._in_blocks:
            return table.sql(text, budget=self, **arguments)
        if self._block_column is None:
            raise InvalidArgument("block_column", None, "the column that holds each row's block")
        budget = self.at(*json.loads(self.block_list()))
        return table.only(self._block_column, budget._blocks or ()).sql(text, budget=budget, **arguments)

    @property
    def table(self) -> Table:
        """The table that was passed to `Ledger.budget`."""
        if self._table is None:
            raise InvalidArgument("table", None, "a table", "Pass table=hush.table(...) to ledger.budget")
        return self._table

    # State

    def status(self) -> list[Status]:
        """Return the state of each block's budget; a budget without blocks has one."""
        with self.store.reading() as connection:
            now = self.store.now(connection)
            query = sa.select(schema.budgets).where(schema.budgets.c.budget == self.name)
            if self._blocks is not None:
                query = query.where(schema.budgets.c.block.in_(self._blocks))
            rows = connection.execute(query.order_by(schema.budgets.c.block)).all()
        kinds = kind_blocks(self.cap.box)
        return [stored_status(self.cap, row, now) for row in rows if row.block not in kinds]

    @property
    def box_left(self) -> tuple[int, ...]:
        """How many releases of each kind are left in the box that was declared with the budget."""
        kinds, table = kind_blocks(self.cap.box), schema.budgets
        with self.store.reading() as connection:
            query = sa.select(table.c.block, table.c.most_renyi - table.c.renyi).where(table.c.budget == self.name)
            left = {row[0]: row[1] // LOSS_STEPS for row in connection.execute(query)}
        return tuple(left[block] for block in kinds)

    def charged_blocks(self) -> list[Status]:
        """Return the state of the blocks that a charge applies to: those given to `at`, or all that are not retired."""
        statuses = self.status()
        return [status for status in statuses if self._blocks is not None or not status.retired] or statuses

    @property
    def spent(self) -> float:
        """The epsilon of everything that was charged so far, as the budget proves it; with blocks, the largest."""
        return max((status.epsilon for status in self.status()), default=0.0)

    @property
    def left(self) -> int:
        """How many standard queries are left, of the 100 that the budget pays for; with blocks, the smallest number.

        `Status.standard_query` says what a standard query is.
        """
        return min(status.left for status in self.status())

    def state(self) -> str:
        """Return the amounts spent and left, in words."""
        return self.receipt(Entry(kind=""), 0.0, 0.0).state

    def receipt(self, row: Entry, epsilon: float, delta: float) -> Receipt:
        """Return the receipt of a row."""
        statuses = self.charged_blocks()
        return Receipt(
            budget=self.name,
            row=row.id,
            hash=row.hash,
            epsilon=epsilon,
            delta=delta,
            so_far=max(status.epsilon for status in statuses),
            cap=self.cap.epsilon,
            left=min(status.left for status in statuses),
            standard_query=statuses[0].standard_query,
        )

    def guarantee(self) -> Guarantee:
        """Return the guarantee of all releases together, which holds however the rest of the budget is spent."""
        stated = self.cap.guarantee()
        if self.for_tests:
            stated = replace(stated, assumptions=(*stated.assumptions, TEST_RANDOMNESS))
        if not self._in_blocks:
            return stated
        return guarantee_in_blocks(stated, [status.block for status in self._from(None).status()])

    def entries(self) -> list[Entry]:
        """Return the budget's rows."""
        return self.store.rows(schema.entries.c.budget == self.name)

    def pending(self) -> list[Reserved]:
        """Return pending reservations: of running releases, or left by a crash. They count as spent."""
        settled = sa.select(schema.entries.c.charge).where(schema.entries.c.charge.is_not(None))
        rows = self.store.rows(
            schema.entries.c.budget == self.name,
            schema.entries.c.kind == EntryKind.RESERVED,
            schema.entries.c.id.not_in(settled),
        )
        return [Reserved(self, row) for row in rows]

    # Blocks

    def at(self, *blocks: str) -> LedgerBudget:
        """Return this budget, restricted to releases from some blocks.

        Other blocks are not charged and must not be read.

        >>> patients.at("2026-10", "2026-11").charge(event, purpose="autumn")  # doctest: +SKIP
        """
        known = {status.block for status in self._from(None).status()}
        for block in blocks:
            if block not in known or not block:
                raise InvalidArgument("blocks", block, "a block of the budget", f"It has {', '.join(sorted(known))}")
        if not blocks or len(set(blocks)) != len(blocks):
            raise InvalidArgument("blocks", blocks, "at least one block, without repeats")
        return self._from(tuple(sorted(blocks)))

    def add_block(self, name: str, *, expires: datetime | None = None) -> None:
        """Add a block with its own budget, such as a new month of a growing table.

        Args:
            name: The name of the block.
            expires: When the block stops accepting charges.
        """
        self.person.require(Role.OWNER)
        if not self._in_blocks:
            raise InvalidArgument(
                "name", name, "no name: the budget has no blocks", "Pass blocks=[...] when you create it"
            )
        refuse_nested([*(status.block for status in self._from(None).status()), check_block(name)])
        check_charged([name], self.cap.unit)
        details = {"expires": None if expires is None else microseconds(expires)}
        row = self.row(EntryKind.BLOCK, None, Cost(), block=json.dumps([name]), details=json.dumps(details))
        try:
            self.store.append(row, lambda connection, _: open_block(connection, self.name, name, self.cap, details))
        except AlreadyThere:
            raise InvalidArgument("name", name, "a new name: the budget has this block") from None

    def retire(self, *blocks: str) -> None:
        """Retire blocks: they accept no more charges. What was charged to them stays charged."""
        self.person.require(Role.OWNER)
        retired = self.at(*blocks)
        table = schema.budgets

        def close(connection: sa.Connection, _: Entry) -> None:
            connection.execute(
                table.update().where(table.c.budget == self.name, table.c.block.in_(blocks)).values(retired=True)
            )

        self.store.append(retired.row(EntryKind.RETIRED, None, Cost()), close)

    def retire_spent(self, *, least_epsilon: float) -> list[str]:
        """Retire all blocks into which a charge of ``least_epsilon`` no longer fits. Return their names."""
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

    def __getstate__(self) -> dict[str, Any]:
        """Let another process open the same budget, as scikit-learn's ``n_jobs`` needs: a copy is not a second budget.

        A table stays behind: it may be a connection of this process.
        """
        return {**vars(self), "_table": None}

    def _from(self, blocks: tuple[str, ...] | None) -> LedgerBudget:
        return LedgerBudget(
            self.store,
            self.person,
            self.name,
            self.cap,
            unit_name=self.unit_name,
            in_blocks=self._in_blocks,
            for_tests=self.for_tests,
            blocks=blocks,
            table=self._table,
            block_column=self._block_column,
        )

    # Sharing

    def share(self, name: str, *, percent: int) -> None:
        """Let an analyst spend up to ``percent`` of each block's budget. All shares add up to at most 100."""
        self.person.require(Role.OWNER)
        if not check_count("percent", percent) <= 100:
            raise InvalidArgument("percent", percent, "an integer from 1 to 100")
        details = json.dumps({"name": name, "percent": percent})
        row = self.row(EntryKind.SHARE, None, Cost(), details=details)
        self.store.append(row, lambda connection, _: set_share(connection, self.name, name, percent, self.cap))

    # Rows

    def row(self, kind: EntryKind, charge: Charge | None, cost: Cost, **more: Any) -> Entry:
        """Return a row for this budget, not yet written."""
        values: dict[str, Any] = {
            "block": self.block_list(),
            "unit": self.cap.unit.name,
            "relation": self.cap.relation.value,
            **cost_columns(cost),
        }
        if charge is not None:
            values.update(event=charge.event.to_json(), purpose=checked_purpose(charge.purpose), request=charge.request)
        return Entry(**{**values, "kind": kind, "budget": self.name, "author": self.person.name, **more})

    def block_list(self) -> str:
        """Return the names of the blocks that a charge applies to, as a row stores them; empty without blocks."""
        if not self._in_blocks:
            return ""
        if self._blocks is not None:
            return json.dumps(list(self._blocks))
        names = [status.block for status in self.status() if not status.retired]
        if not names:
            raise InvalidArgument("blocks", None, "a block that accepts charges", "All are retired or expired")
        return json.dumps(names)

    def refuse_predictable(self, event: str | None) -> None:
        """Refuse an event, as JSON, of a release whose noise is predictable, unless the budget is for tests."""
        if not self.for_tests:
            refuse_predictable(event)

    def refuse_other_parts(self, charge: Charge, blocks: str) -> None:
        """Refuse a release that reads other blocks than it charges, if the charge states which it reads."""
        if not self._in_blocks or charge.parts is None:
            return
        if sorted(charge.parts) != sorted(json.loads(blocks)):
            raise InvalidArgument(
                "budget",
                self.name,
                "a budget for the blocks that are read",
                "Query through the budget, with table= and block_column=, or restrict the table with only(...)",
            )

    def for_run(self, name: str) -> RunBudget:
        """Return this budget for one run. The run can be interrupted and resumed, and is charged once."""
        return RunBudget(self, name)
