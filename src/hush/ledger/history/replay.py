"""A ledger's rows, read from the first to the last: what they say, and what cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hush.accounting import ComposedEvent, Event
from hush.accounting.budget import Cap, Cost
from hush.accounting.events import plain_event
from hush.errors import HushError
from hush.ledger.accounts.cap import cap_from
from hush.ledger.accounts.people import Role
from hush.ledger.history.records import (
    PARTS,
    BlockRecord,
    Charged,
    DatasetRecord,
    Finding,
    Part,
    fits,
    larger,
    no_more,
    share_of,
)
from hush.ledger.storage.entry import FIRST, Entry, EntryKind


class _Wrong(Exception):
    """A row says what cannot be."""


class LedgerReplay:
    """Everything that follows from the rows; feed them to `add`, and call `finish`."""

    def __init__(self, known: LedgerReplay | None = None) -> None:
        """Begin with nothing but the costs that another one has computed."""
        self.datasets: dict[str, DatasetRecord] = {}
        self.people: dict[str, str] = {}
        self.charges: dict[int, Charged] = {}
        self.rows: list[Entry] = []
        self.corrections: dict[int, list[str]] = {}
        self.findings: list[Finding] = []
        self._short: dict[tuple[str, str], dict[int, str]] = {}
        self._costs: dict[tuple[Cap, str, float | None], tuple[Event, Cost]] = {} if known is None else known._costs
        self._last: Entry | None = None

    def add(self, row: Entry) -> None:
        """Read the next row."""
        self._check_place(row)
        self.rows.append(row)
        self._last = row
        read = _READ.get(row.kind)
        try:
            if read is None:
                raise _Wrong("its kind is unknown")
            _check_costs(row)
            read(self, row)
        except Exception as error:  # whatever a damaged row raises is a finding, and no reason to stop
            why = str(error) if isinstance(error, _Wrong) else f"it cannot be read ({type(error).__name__})"
            self._note(row, "row", why)

    def finish(self) -> None:
        """Tell of charges that are too small, and were not made good by a later row."""
        short: dict[int, str] = {}
        for (dataset, name), rows in self._short.items():
            block = self.datasets[dataset].blocks[name]
            made_good = 0 if block.lacks else block.corrected
            short.update({row: what for row, what in rows.items() if row > made_good})
        self.findings += [Finding(row=row, about="cost", what=what) for row, what in sorted(short.items())]
        for dataset, budget in self.datasets.items():
            for name, block in budget.blocks.items():
                if block.lacks and not self._short.get((dataset, name)) and budget.cap.fits(block.whole.least):
                    what = f"{dataset} {name}".strip() + ": less is counted as spent than the charges cost"
                    self.findings.append(Finding(row=None, about="cost", what=what))

    def cost(self, cap: Cap, text: str, details: dict[str, Any]) -> tuple[Event, Cost]:
        """Return what an event costs by this version's accountant."""
        delta = details.get("delta")
        key = (cap, text, delta)
        if key not in self._costs:
            event = Event.from_json(text)
            self._costs[key] = event, cap.cost(event) if delta is None else cap.claimed_cost(event, delta=delta)
        return self._costs[key]

    # The chain

    def _check_place(self, row: Entry) -> None:
        above, hash_above = (0, FIRST) if self._last is None else (self._last.id, self._last.hash)
        if row.id != above + 1:
            self._note(row, "chain", f"rows are missing between {above} and this one")
        if row.previous != hash_above:
            self._note(row, "chain", "it does not follow from the row above: something was edited, removed or inserted")
        if row.hash != row.computed_hash():
            self._note(row, "chain", "it was edited: its hash is not that of what it says")
        if self._last is not None and not _number(row.time) >= _number(self._last.time):
            self._note(row, "chain", "it is older than the row above")

    def _note(self, row: Entry, about: str, what: str) -> None:
        self.findings.append(Finding(row=row.id, about=about, what=what))

    # What rows say

    def _dataset(self, row: Entry) -> None:
        terms = json.loads(row.details)
        cap = cap_from(terms)
        if row.dataset in self.datasets:
            raise _Wrong("the data set was there already")
        if (row.unit, row.relation) != (str(cap.unit), cap.relation.value):
            raise _Wrong("unit and relation are not those of its terms")
        self._check_owner(row)
        blocks = {name: BlockRecord(whole=Part(limit=cap.limit)) for name in _names(row)}
        self.datasets[row.dataset] = DatasetRecord(row=row, terms=terms, cap=cap, blocks=blocks)

    def _block(self, row: Entry) -> None:
        budget = self.datasets[row.dataset]
        self._check_owner(row)
        (name,) = _names(row)
        if name in budget.blocks:
            raise _Wrong("the block was there already")
        known = {person: part.millionths for block in budget.blocks.values() for person, part in block.shares.items()}
        shares = {person: share_of(budget.cap, millionths) for person, millionths in known.items()}
        expires = json.loads(row.details).get("expires")
        budget.blocks[name] = BlockRecord(whole=Part(limit=budget.cap.limit), shares=shares, expires=expires)

    def _retired(self, row: Entry) -> None:
        self._check_owner(row)
        for name in _names(row):
            self.datasets[row.dataset].blocks[name].retired = True

    def _person(self, row: Entry) -> None:
        self._check_owner(row)
        details = json.loads(row.details)
        if details["name"] in self.people:
            raise _Wrong("the person was admitted before")
        self.people[details["name"]] = Role(details["role"]).value

    def _shared(self, row: Entry) -> None:
        self._check_owner(row)
        details, budget = json.loads(row.details), self.datasets[row.dataset]
        for block in budget.blocks.values():
            before = block.shares.get(details["name"], Part(limit=Cost()))
            now = share_of(budget.cap, details["percent"] * 10_000)
            block.shares[details["name"]] = replace(now, spent=before.spent, least=before.least)
            if sum(part.millionths for part in block.shares.values()) > 1_000_000:
                self._note(row, "cap", "all shares together are more than the budget")
                break

    def _charge(self, row: Entry) -> None:
        """A reservation, or a charge at once."""
        if row.charge is not None:
            self._settle(row)
            return
        budget, names = self._place(row)
        self._check_may_spend(row)
        if row.event is None or min(getattr(row, part) for part in PARTS) < 0:
            raise _Wrong("a charge has an event, and costs at least nothing")
        details = json.loads(row.details)
        delta, plan = details.get("delta"), details.get("part_of")
        charge = Charged(row=row, blocks=names, spent=row.cost, least=row.cost, part_of=plan)
        charge.delta, charge.claimed = details.get("stated", delta), delta is not None
        if plan is None:
            self._analyse(row, charge, budget, row.event)
        else:
            self._check_part(row, charge, budget)
        if row.kind == EntryKind.RESERVED:  # it may still be voided, which gives back what was reserved
            charge.least = larger(charge.least, row.cost)
        self.charges[row.id] = charge
        self._spend(row, budget, charge, row.cost, charge.least)

    def _settle(self, row: Entry) -> None:
        charge = self.charges.get(row.charge or 0)
        if charge is None or charge.row.kind != EntryKind.RESERVED or row.kind == EntryKind.RESERVED:
            raise _Wrong("it settles something that was not reserved")
        if charge.settled is not None:
            raise _Wrong(f"what it settles was settled by row {charge.settled.id}")
        own = charge.row
        if (row.dataset, row.block, row.unit, row.relation) != (own.dataset, own.block, own.unit, own.relation):
            raise _Wrong("it is about other data than what it settles")
        self._check_may_spend(row)
        if row.author != own.author and self.people.get(row.author) == Role.ANALYST:
            self._note(row, "row", "it settles what somebody else reserved")
        if not (row.cost <= Cost() and -own.cost <= row.cost):
            self._note(row, "cost", "it gives back more than was reserved, or charges more")
        if row.kind == EntryKind.COMMITTED and row.event is None and row.cost != Cost():
            self._note(row, "cost", "it gives something back, and does not say what was run")
        self._settled(row, charge)

    def _settled(self, row: Entry, charge: Charged) -> None:
        budget, before = self.datasets[row.dataset], charge.least
        charge.settled, charge.spent = row, charge.spent + row.cost
        for rows in self._short.values():
            rows.pop(charge.row.id, None)  # what a reservation lacked is told, if at all, of what was run
        if row.kind == EntryKind.VOIDED:
            charge.event, charge.least = None, Cost()
            if any(part.part_of == charge.row.id and part.status != EntryKind.VOIDED for part in self.charges.values()):
                self._note(row, "cost", "it voids a plan of which a part was run")
        elif charge.part_of is not None:
            charge.least = charge.spent
        elif row.event is not None and not charge.claimed:  # a claim is about all of it
            charge.least = charge.spent
            self._analyse(row, charge, budget, row.event)
        else:  # all of it was run
            charge.least = charge.spent
            self._analyse(charge.row, charge, budget, charge.row.event or "")
        self._spend(row, budget, charge, row.cost, charge.least + -before)

    def _recomputed(self, row: Entry) -> None:
        budget, names = self._place(row, charges=False)
        self._check_owner(row)
        if row.charge is not None or row.event is not None or len(names) != 1:
            raise _Wrong("a correction is of one block, and of nothing else")
        block = budget.blocks[names[0]]
        self.corrections[row.id] = names
        block.whole.spent += row.cost
        for name, change in json.loads(row.details).get("shares", {}).items():
            block.shares[name].spent += Cost(**dict(zip(PARTS, change, strict=True)))
        if block.lacks:
            self._note(row, "cost", "it says that less is spent than the charges cost")
        else:  # whatever was too small is made good
            block.corrected = row.id
            self._short.pop((row.dataset, names[0]), None)
        if not budget.cap.fits(block.whole.least):
            self._note(row, "cap", "what was released exceeds the cap, by this version's accountant")

    # Checks

    def _place(self, row: Entry, *, charges: bool = True) -> tuple[DatasetRecord, list[str]]:
        budget, names = self.datasets.get(row.dataset), _names(row)
        if budget is None:
            raise _Wrong("its data set was never created")
        if (row.unit, row.relation) != (budget.row.unit, budget.row.relation):
            raise _Wrong("its unit or relation is not that of the data set")
        for name in names:
            block = budget.blocks.get(name)
            if block is None or len(set(names)) != len(names):
                raise _Wrong("its blocks are not those of the data set, each once")
            if charges and (block.retired or (block.expires is not None and block.expires <= row.time)):
                self._note(row, "row", "it charges a block that takes no more charges")
        return budget, names

    def _check_part(self, row: Entry, charge: Charged, budget: DatasetRecord) -> None:
        """A part of a plan costs nothing more: if it is one, was not run before, and from no other blocks."""
        plan = self.charges.get(charge.part_of or 0)
        if plan is None or not isinstance(plan.event, ComposedEvent) or plan.row.dataset != row.dataset:
            raise _Wrong("it is a part of no plan")
        if plan.settled is not None:
            self._note(row, "cost", "it is a part of a plan that was closed")
        if not set(charge.blocks) <= set(plan.blocks):
            self._note(row, "cost", "it is from blocks that its plan was not charged to")
        charge.event = Event.from_json(row.event or "")
        asked = plain_event(charge.event, budget.cap.relation, budget.cap.unit)[0]
        own = [plain_event(event, budget.cap.relation, budget.cap.unit)[0] for event in plan.event.events]
        number = own.count(asked)
        plan.parts[asked] = plan.parts.get(asked, 0) + 1
        if plan.parts[asked] > number:
            self._note(row, "cost", "its plan has no such part, or not so often")

    def _analyse(self, row: Entry, charge: Charged, budget: DatasetRecord, text: str) -> None:
        """Compare what a charge costs with what its event costs by this version's accountant."""
        details = json.loads(charge.row.details)
        try:
            charge.event, least = self.cost(budget.cap, text, details)
        except HushError as error:
            charge.refused = str(error)
            self._note(row, "cost", "this version of hush cannot account for its event")
            return
        charge.refused, charge.least = "", least
        if not no_more(least, charge.spent):
            lacks = budget.cap.spent_epsilon(least), budget.cap.spent_epsilon(charge.spent)
            what = f"it is charged less than its event costs (epsilon {lacks[1]:.4g} instead of {lacks[0]:.4g})"
            for name in charge.blocks:
                self._short.setdefault((row.dataset, name), {})[charge.row.id] = what

    def _spend(self, row: Entry, budget: DatasetRecord, charge: Charged, change: Cost, least: Cost) -> None:
        for name in charge.blocks:
            block = budget.blocks[name]
            own = block.shares.get(charge.row.author)
            for part in (block.whole, *([] if own is None else [own])):
                part.spent, part.least = part.spent + change, part.least + least
            if own is None and self.people.get(charge.row.author) == Role.ANALYST:
                self._note(row, "row", "an analyst without a share spends")
            if not fits(block.whole):
                self._note(row, "cap", "with it, more is spent than the cap allows")
            elif own is not None and not fits(own):
                self._note(row, "cap", "with it, somebody has spent more than their share")

    def _check_owner(self, row: Entry) -> None:
        if self.people.get(row.author, Role.OWNER) != Role.OWNER:
            self._note(row, "row", "only an owner may do this")

    def _check_may_spend(self, row: Entry) -> None:
        if self.people.get(row.author) == Role.AUDITOR:
            self._note(row, "row", "an auditor only reads")


_READ: dict[str, Callable[[LedgerReplay, Entry], None]] = {
    EntryKind.DATASET: LedgerReplay._dataset,
    EntryKind.BLOCK: LedgerReplay._block,
    EntryKind.RETIRED: LedgerReplay._retired,
    EntryKind.PERSON: LedgerReplay._person,
    EntryKind.SHARE: LedgerReplay._shared,
    EntryKind.RESERVED: LedgerReplay._charge,
    EntryKind.COMMITTED: LedgerReplay._charge,
    EntryKind.VOIDED: LedgerReplay._settle,
    EntryKind.RECOMPUTED: LedgerReplay._recomputed,
}


def _names(row: Entry) -> list[str]:
    names = json.loads(row.block) if row.block else [""]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or not names:
        raise _Wrong("its blocks are no list of names")
    return names


def _check_costs(row: Entry) -> None:
    if not all(type(getattr(row, name)) is int for name in (*PARTS, "time")):
        raise _Wrong("its costs or its time are no whole numbers")


def _number(value: Any) -> float:
    return value if isinstance(value, int) else float("nan")
