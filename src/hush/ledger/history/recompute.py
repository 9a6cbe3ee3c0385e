"""Old charges anew, by this version's accountant: a better one tightens old ledgers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from hush.accounting.budget import Cost
from hush.errors import InvalidArgument
from hush.ledger.accounts.people import Person, Role
from hush.ledger.history.composition import Composition, composition
from hush.ledger.history.records import PARTS, BlockRecord, DatasetRecord, Part
from hush.ledger.history.replay import LedgerReplay
from hush.ledger.history.verify import damage, read, read_within
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.errors import LedgerDamaged
from hush.ledger.storage.postgres import PostgresStore
from hush.ledger.storage.store import Store
from hush.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedBlock:
    """What recomputing changed in one block.

    Attributes:
        block: Which, or empty.
        before: What was spent, as an epsilon.
        after: What is spent now.
        change: The same in the cap's own terms: what was added to the budget.
        exceeds: Whether, by this version's accountant, more was released than the cap allows. The block then counts as
            used up, and is retired.
        composition: What the charges cost together, in four ways.
    """

    block: str
    before: float
    after: float
    change: Cost
    exceeds: bool
    composition: Composition


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """What `Ledger.recompute` did.

    Attributes:
        dataset: Whose budget it is.
        blocks: Each of its blocks; of data that are not in blocks, one.
        refused: Rows whose events this version cannot account for: they keep what they were charged.
    """

    dataset: str
    blocks: tuple[RecomputedBlock, ...]
    refused: tuple[int, ...]


def recompute(store: Store, person: Person, dataset: str) -> Recomputed:
    """Charge all that counts anew, at the order and share that were fixed when the budget was created.

    What was settled costs what its event costs by this version's accountant, be it less or more. What is reserved
    keeps at least what was reserved, as that is what voiding it would give back. For each block that changes, a row
    with the change is added, and the budget corrected, in one transaction. A block from which more was released than
    the cap allows is retired: what a void gives back must not make room for more.

    Guarantee:
        The cap holds as before: order and share are those that were fixed before anything was released.

    Assumes:
        Events describe what was run (the caller's duty). The ledger is intact (checked here, as by `verify`).

    References:
        `hush.accounting.budget.Cap`.
    """
    person.require(Role.OWNER)
    known, _ = read(store)  # outside of the transaction: what takes long is then known within
    with store.writing() as connection:
        connection.execute(sa.select(schema.head).with_for_update())
        replay, tables = read_within(connection, LedgerReplay(known))
        wrong = damage(replay, tables)
        if wrong:
            raise LedgerDamaged(f"Nothing was changed: the ledger is damaged, see `hush ledger verify`. {wrong[0]}")
        budget = replay.datasets.get(dataset)
        if budget is None:
            raise InvalidArgument("dataset", dataset, "a data set of this ledger")
        changes = {name: _change(block.whole) for name, block in budget.blocks.items()}
        for name, block in budget.blocks.items():
            _write(store, connection, person, budget, name, block)
    return _told(replay, budget, changes)


def _told(replay: LedgerReplay, budget: DatasetRecord, changes: dict[str, Cost]) -> Recomputed:
    charges = [charge for charge in replay.charges.values() if charge.row.dataset == budget.row.dataset]
    blocks = []
    for name, block in budget.blocks.items():
        after = block.whole.spent + changes[name]
        blocks.append(
            RecomputedBlock(
                block=name,
                before=budget.cap.spent_epsilon(block.whole.spent),
                after=budget.cap.spent_epsilon(after),
                change=changes[name],
                exceeds=not budget.cap.fits(block.whole.least),
                composition=composition(budget.cap, after, [c for c in charges if name in c.blocks]),
            )
        )
    refused = tuple(charge.row.id for charge in charges if charge.refused)
    return Recomputed(dataset=budget.row.dataset, blocks=tuple(blocks), refused=refused)


def _write(
    store: Store, connection: sa.Connection, person: Person, budget: DatasetRecord, name: str, block: BlockRecord
) -> None:
    change, shares = _change(block.whole), dict(_changed_shares(block))
    where = {"dataset": budget.row.dataset, "block": json.dumps([name]) if name else ""}
    about: dict[str, Any] = {**where, "unit": budget.row.unit, "relation": budget.row.relation, "author": person.name}
    if change != Cost() or shares:
        told = {who: [getattr(cost, part) for part in PARTS] for who, cost in shares.items()}
        details = json.dumps({"hush": __version__, "shares": told})
        store._append(connection, Entry(kind=EntryKind.RECOMPUTED, **about, details=details, **asdict(change)))
        if not isinstance(store, PostgresStore):  # there, a trigger corrects the budget
            _correct(connection, schema.budgets, change, dataset=budget.row.dataset, block=name)
            for who, cost in shares.items():
                _correct(connection, schema.shares, cost, dataset=budget.row.dataset, block=name, name=who)
    if not budget.cap.fits(block.whole.least) and not block.retired:
        store._append(connection, Entry(kind=EntryKind.RETIRED, **about))
        table = schema.budgets
        own = (table.c.dataset == budget.row.dataset, table.c.block == name)
        connection.execute(table.update().where(*own).values(retired=True))


def _correct(connection: sa.Connection, table: sa.Table, change: Cost, **where: str) -> None:
    values = {part: table.c[part] + getattr(change, part) for part in PARTS}
    conditions = [table.c[column] == value for column, value in where.items()]
    connection.execute(table.update().where(*conditions).values(values))


def _change(part: Part) -> Cost:
    return part.capped() + -part.spent


def _changed_shares(block: BlockRecord) -> Iterator[tuple[str, Cost]]:
    for who, part in block.shares.items():
        if _change(part) != Cost():
            yield who, _change(part)
