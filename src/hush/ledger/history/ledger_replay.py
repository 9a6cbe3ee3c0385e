"""Replay: read a ledger's rows from first to last, and rebuild what they describe.

The replay recomputes budgets, shares and charges from the rows alone. Anything impossible becomes a `Finding`: a broken
hash chain, a charge below its event's cost, a settlement that refunds too much, a cap that is exceeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hush.accounting import ComposedEvent, Event
from hush.accounting.budget import Cap, Cost
from hush.accounting.events import plain_event
from hush.errors import HushError
from hush.ledger.accounts.people import Role
from hush.ledger.accounts.status import priced
from hush.ledger.accounts.terms.boxes import ONE_RELEASE, block_limit, boxed_row_block, is_boxed, kind_blocks
from hush.ledger.accounts.terms.cap import cap_from
from hush.ledger.history.records import (
    PARTS,
    BlockRecord,
    BudgetRecord,
    Charged,
    Finding,
    Part,
    at_most,
    fits,
    larger,
    share_of,
)
from hush.ledger.storage.entry import FIRST, Entry, EntryKind, has_later_costs
from hush.ledger.storage.schema import LATER_COSTS

_CLOCK = 60_000_000
"""Microseconds by which the clocks of two machines may differ without a remark."""


class _Impossible(Exception):
    """The contents of a row are impossible."""


class LedgerReplay:
    """The state that the rows describe. Pass them to `add` in order, then call `finish`."""

    def __init__(self, known: LedgerReplay | None = None) -> None:
        """Start empty. ``known`` is an earlier replay whose computed costs are reused."""
        self.budgets: dict[str, BudgetRecord] = {}
        self.people: dict[str, str] = {}
        self.charges: dict[int, Charged] = {}
        self.rows: list[Entry] = []
        self.corrections: dict[int, list[str]] = {}
        self.restored: dict[int, bool] = {}
        self.set_back: list[int] = []
        self.findings: list[Finding] = []
        self._undercharged: dict[tuple[str, str], dict[int, str]] = {}
        self._costs: dict[tuple[Cap, str, float | None], tuple[Event, Cost]] = {} if known is None else known._costs
        self._last: Entry | None = None

    def add(self, row: Entry) -> None:
        """Read the next row."""
        self._check_chain(row)
        self.rows.append(row)
        self._last = row
        read = _READ.get(row.kind)
        try:
            if read is None:
                raise _Impossible("its kind is unknown")
            _check_costs(row)
            read(self, row)
        except Exception as error:  # a damaged row may raise anything; report it and continue
            reason = str(error) if isinstance(error, _Impossible) else f"it cannot be read ({type(error).__name__})"
            self._note(row, "row", reason)

    def finish(self) -> None:
        """Add findings for undercharged rows that no later row corrects."""
        undercharged: dict[int, str] = {}
        for (budget_name, name), rows in self._undercharged.items():
            block = self.budgets[budget_name].blocks[name]
            corrected_up_to = 0 if block.is_undercharged else block.corrected
            undercharged.update({row: what for row, what in rows.items() if row > corrected_up_to})
        self.findings += [Finding(row=row, about="cost", what=what) for row, what in sorted(undercharged.items())]
        for budget_name, budget in self.budgets.items():
            for name, block in budget.blocks.items():
                if not block.is_undercharged or self._undercharged.get((budget_name, name)):
                    continue
                if block.budget.required.within(block.budget.limit):
                    what = f"{budget_name} {name}".strip() + ": less is recorded as spent than the charges cost"
                    self.findings.append(Finding(row=None, about="cost", what=what))

    def cost(self, cap: Cap, text: str, details: dict[str, Any]) -> tuple[Event, Cost]:
        """Return an event, and its cost by this version's accountant."""
        key = (cap, text, details.get("first") or details.get("delta"))
        if key not in self._costs:
            event = Event.from_json(text)
            self._costs[key] = event, priced(cap, event, details)
        return self._costs[key]

    def _required(self, charge: Charged, budget: BudgetRecord, text: str) -> tuple[Event, Cost]:
        """Return an event, and what it costs in the blocks that it was charged to."""
        cap, details = budget.cap, json.loads(charge.row.details)
        event = Event.from_json(text)
        if not is_boxed(cap, charge.blocks):
            if details.get("first") and cap.proves_first(event, charge.spent):
                return event, charge.spent
            if text == charge.row.event:
                return self.cost(cap, text, details)
            whole, reserved = self.cost(cap, charge.row.event or "", details)
            return event, cap.part_cost(event, whole, reserved)
        if boxed_row_block(cap, event) != charge.row.block:
            raise _Impossible("it is charged to a kind of release that it does not match")
        return event, ONE_RELEASE

    # The hash chain

    def _check_chain(self, row: Entry) -> None:
        last_id, last_hash = (0, FIRST) if self._last is None else (self._last.id, self._last.hash)
        if row.id != last_id + 1:
            self._note(row, "chain", f"rows are missing between {last_id} and this one")
        if row.previous != last_hash:
            self._note(row, "chain", "it does not continue the hash chain: a row was edited, removed or inserted")
        if row.hash != row.computed_hash():
            self._note(row, "chain", "the row was edited: its hash does not match")
        if self._last is not None and _number(row.time) < _number(self._last.time) - _CLOCK:
            self.set_back.append(row.id)

    def _note(self, row: Entry, about: str, what: str) -> None:
        self.findings.append(Finding(row=row.id, about=about, what=what))

    # Row kinds

    def _budget(self, row: Entry) -> None:
        terms = json.loads(row.details)
        cap = cap_from(terms)
        if row.budget in self.budgets:
            raise _Impossible("the budget exists already")
        if (row.unit, row.relation) != (cap.unit.name, cap.relation.value):
            raise _Impossible("its unit or relation contradicts its terms")
        self._check_owner(row)
        if not cap.proves_terms():
            self._note(row, "cap", "its terms do not prove its guarantee")
        names = [*_names(row), *kind_blocks(cap.box)]
        blocks = {name: BlockRecord(budget=Part(limit=block_limit(cap, name))) for name in names}
        self.budgets[row.budget] = BudgetRecord(row=row, terms=terms, cap=cap, blocks=blocks)

    def _block(self, row: Entry) -> None:
        budget = self.budgets[row.budget]
        self._check_owner(row)
        (name,) = _names(row)
        if name in budget.blocks:
            raise _Impossible("the block exists already")
        millionths_of = {
            person: part.millionths for block in budget.blocks.values() for person, part in block.shares.items()
        }
        shares = {person: share_of(budget.cap.limit, millionths) for person, millionths in millionths_of.items()}
        expires = json.loads(row.details).get("expires")
        budget.blocks[name] = BlockRecord(budget=Part(limit=budget.cap.limit), shares=shares, expires=expires)

    def _retired(self, row: Entry) -> None:
        self._check_owner(row)
        for name in _names(row):
            self.budgets[row.budget].blocks[name].retired = True

    def _person(self, row: Entry) -> None:
        self._check_owner(row)
        details = json.loads(row.details)
        if details["name"] in self.people:
            raise _Impossible("the person was admitted before")
        self.people[details["name"]] = Role(details["role"]).value

    def _shared(self, row: Entry) -> None:
        self._check_owner(row)
        details, budget = json.loads(row.details), self.budgets[row.budget]
        for block in budget.blocks.values():
            before = block.shares.get(details["name"], Part(limit=Cost()))
            share = share_of(block.budget.limit, details["percent"] * 10_000)
            block.shares[details["name"]] = replace(share, spent=before.spent, required=before.required)
            if sum(part.millionths for part in block.shares.values()) > 1_000_000:
                self._note(row, "cap", "the shares add up to more than the budget")
                break

    def _charge(self, row: Entry) -> None:
        """Read a reservation, or a charge in one step."""
        if row.charge is not None:
            self._settle(row)
            return
        budget, names = self._budget_and_blocks(row)
        self._check_may_spend(row)
        if row.event is None or min(getattr(row.cost, part) for part in PARTS) < 0:
            raise _Impossible("a charge needs an event and a cost that is not negative")
        details = json.loads(row.details)
        delta, plan = details.get("delta"), details.get("part_of")
        charge = Charged(row=row, blocks=names, spent=row.cost, required=row.cost, part_of=plan)
        charge.delta = details.get("stated", delta)
        charge.claimed = delta is not None or bool(details.get("first")) or is_boxed(budget.cap, names)
        if details.get("first") and any(budget.blocks[name].budget.spent != Cost() for name in names):
            self._note(row, "cost", "it is charged as the first event but is not the first")
        if plan is None:
            self._analyse(row, charge, budget, row.event)
        else:
            self._check_part(row, charge, budget)
        if row.kind == EntryKind.RESERVED:  # voiding it would refund what was reserved
            charge.required = larger(charge.required, row.cost)
        self.charges[row.id] = charge
        self._spend(row, budget, charge, row.cost, charge.required)

    def _settle(self, row: Entry) -> None:
        charge = self.charges.get(row.charge or 0)
        if charge is None or charge.row.kind != EntryKind.RESERVED or row.kind == EntryKind.RESERVED:
            raise _Impossible("it settles a row that is not a reservation")
        if charge.settled is not None:
            raise _Impossible(f"its reservation was settled by row {charge.settled.id}")
        reserved = charge.row
        if _subject(row) != _subject(reserved):
            raise _Impossible("its budget, blocks, unit or relation is not that of its reservation")
        self._check_may_spend(row)
        if row.author != reserved.author and self.people.get(row.author) == Role.ANALYST:
            self._note(row, "row", "an analyst settles another person's reservation")
        if not (row.cost <= Cost() and -reserved.cost <= row.cost):
            self._note(row, "cost", "it refunds more than was reserved, or charges more")
        if row.kind == EntryKind.COMMITTED and row.event is None and row.cost != Cost():
            self._note(row, "cost", "it refunds a part without saying what was run")
        if row.event is not None and (charge.claimed or charge.part_of is not None):  # charged as a whole
            cap = self.budgets[row.budget].cap
            if not cap.covers(Event.from_json(reserved.event or ""), Event.from_json(row.event)):
                self._note(row, "cost", "it commits an event that its reservation does not cover")
        self._settled(row, charge)

    def _settled(self, row: Entry, charge: Charged) -> None:
        budget, before = self.budgets[row.budget], charge.required
        charge.settled, charge.spent = row, charge.spent + row.cost
        for rows in self._undercharged.values():
            rows.pop(charge.row.id, None)  # from now on, only what was run counts
        if row.kind == EntryKind.VOIDED:
            charge.event, charge.required = None, Cost()
            if any(part.part_of == charge.row.id and part.status != EntryKind.VOIDED for part in self.charges.values()):
                self._note(row, "cost", "it voids a plan of which a part was run")
        elif charge.part_of is not None:
            charge.required = charge.spent
        elif row.event is not None and not charge.claimed:  # a claim covers the whole event
            charge.required = charge.spent
            self._analyse(row, charge, budget, row.event)
        else:  # everything reserved was run
            charge.required = charge.spent
            self._analyse(charge.row, charge, budget, charge.row.event or "")
        self._spend(row, budget, charge, row.cost, charge.required + -before)
        was_first = row.kind == EntryKind.VOIDED and json.loads(charge.row.details).get("first")
        if was_first and any(budget.blocks[name].budget.spent != Cost() for name in charge.blocks):
            self._note(row, "cost", "it voids a first event after other charges")

    def _recomputed(self, row: Entry) -> None:
        budget, names = self._budget_and_blocks(row, charges=False)
        self._check_owner(row)
        if row.charge is not None or row.event is not None or len(names) != 1:
            raise _Impossible("a correction applies to exactly one block, and has no event")
        block = budget.blocks[names[0]]
        self.corrections[row.id] = names
        block.budget.spent += row.cost
        for name, change in json.loads(row.details).get("shares", {}).items():
            block.shares[name].spent += Cost(
                **dict(zip(PARTS, change, strict=False))
            )  # of an older version: without the later costs
        if block.is_undercharged:
            self._note(row, "cost", "after it, less is recorded as spent than the charges cost")
        else:  # it corrects all earlier rows
            block.corrected = row.id
            self._undercharged.pop((row.budget, names[0]), None)
        if not block.budget.required.within(block.budget.limit):
            self._note(row, "cap", "by this version's accountant, the releases exceed the cap")

    def _restored(self, row: Entry) -> None:
        self._check_owner(row)
        details = json.loads(row.details)
        if details["rows"] != row.id - 1:
            raise _Impossible("it does not follow the last row of the backup")
        self.restored[row.id] = bool(details["was_last"])

    # Checks

    def _budget_and_blocks(self, row: Entry, *, charges: bool = True) -> tuple[BudgetRecord, list[str]]:
        budget, names = self.budgets.get(row.budget), _names(row)
        if budget is None:
            raise _Impossible("its budget does not exist")
        if (row.unit, row.relation) != (budget.row.unit, budget.row.relation):
            raise _Impossible("its unit or relation is not that of the budget")
        for name in names:
            block = budget.blocks.get(name)
            if block is None or len(set(names)) != len(names):
                raise _Impossible("its blocks are not distinct blocks of the budget")
            if charges and (block.retired or (block.expires is not None and block.expires <= row.time)):
                self._note(row, "row", "it charges a block that accepts no more charges")
        return budget, names

    def _check_part(self, row: Entry, charge: Charged, budget: BudgetRecord) -> None:
        """Check that a free charge is an unused part of an open plan, on the plan's blocks."""
        plan = self.charges.get(charge.part_of or 0)
        if plan is None or not isinstance(plan.event, ComposedEvent) or plan.row.budget != row.budget:
            raise _Impossible("it belongs to no plan")
        if plan.settled is not None:
            self._note(row, "cost", "it belongs to a plan that was closed")
        if not set(charge.blocks) <= set(plan.blocks):
            self._note(row, "cost", "it reads blocks that its plan was not charged to")
        charge.event = Event.from_json(row.event or "")
        event = plain_event(charge.event, budget.cap.relation, budget.cap.unit)[0]
        planned = [plain_event(part, budget.cap.relation, budget.cap.unit)[0] for part in plan.event.events]
        plan.parts[event] = plan.parts.get(event, 0) + 1
        if plan.parts[event] > planned.count(event):
            self._note(row, "cost", "its plan does not contain this event, or not as often")

    def _analyse(self, row: Entry, charge: Charged, budget: BudgetRecord, text: str) -> None:
        """Compare a charge with the cost of its event by this version's accountant."""
        try:
            charge.event, required = self._required(charge, budget, text)
        except HushError as error:
            charge.refused = str(error)
            self._note(row, "cost", "this version of hush cannot account for its event")
            return
        charge.refused, charge.required = "", required
        if not at_most(required, charge.spent):
            epsilons = budget.cap.spent_epsilon(charge.spent), budget.cap.spent_epsilon(required)
            what = f"it is charged epsilon {epsilons[0]:.4g}, but its event costs {epsilons[1]:.4g}"
            for name in charge.blocks:
                self._undercharged.setdefault((row.budget, name), {})[charge.row.id] = what

    def _spend(self, row: Entry, budget: BudgetRecord, charge: Charged, change: Cost, required: Cost) -> None:
        for name in charge.blocks:
            block = budget.blocks[name]
            share = block.shares.get(charge.row.author)
            for part in (block.budget, *([] if share is None else [share])):
                part.spent, part.required = part.spent + change, part.required + required
            if share is None and self.people.get(charge.row.author) == Role.ANALYST:
                self._note(row, "row", "its author is an analyst without a share")
            if not fits(block.budget):
                self._note(row, "cap", "it exceeds the cap")
            elif share is not None and not fits(share):
                self._note(row, "cap", "it exceeds its author's share")

    def _check_owner(self, row: Entry) -> None:
        if self.people.get(row.author, Role.OWNER) != Role.OWNER:
            self._note(row, "row", "its author is not an owner")

    def _check_may_spend(self, row: Entry) -> None:
        if self.people.get(row.author) == Role.AUDITOR:
            self._note(row, "row", "its author is an auditor, who may only read")


_READ: dict[str, Callable[[LedgerReplay, Entry], None]] = {
    EntryKind.BUDGET: LedgerReplay._budget,
    EntryKind.BLOCK: LedgerReplay._block,
    EntryKind.RETIRED: LedgerReplay._retired,
    EntryKind.PERSON: LedgerReplay._person,
    EntryKind.SHARE: LedgerReplay._shared,
    EntryKind.RESERVED: LedgerReplay._charge,
    EntryKind.COMMITTED: LedgerReplay._charge,
    EntryKind.VOIDED: LedgerReplay._settle,
    EntryKind.RECOMPUTED: LedgerReplay._recomputed,
    EntryKind.RESTORED: LedgerReplay._restored,
}


def _subject(row: Entry) -> tuple[str, str, str, str]:
    return row.budget, row.block, row.unit, row.relation


def _names(row: Entry) -> list[str]:
    names = json.loads(row.block) if row.block else [""]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
        raise _Impossible("its blocks are not a list of names")
    return names


def _check_costs(row: Entry) -> None:
    expected = PARTS if has_later_costs(row) else [part for part in PARTS if part not in LATER_COSTS]
    if not all(type(getattr(row, name)) is int for name in (*expected, "time")):
        raise _Impossible("its costs or its time are not integers")


def _number(value: Any) -> float:
    return value if isinstance(value, int) else float("nan")
