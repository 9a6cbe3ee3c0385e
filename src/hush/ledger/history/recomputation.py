"""Recompute: price old charges with this version's accountant, and correct the budgets."""

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
from hush.ledger.history.ledger_replay import LedgerReplay
from hush.ledger.history.records import PARTS, BlockRecord, BudgetRecord, Part
from hush.ledger.history.verification import damage, read, read_within
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.errors import LedgerDamaged
from hush.ledger.storage.postgres import PostgresStore
from hush.ledger.storage.store import Store
from hush.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputedBlock:
    """The change that recomputing made to one block.

    Attributes:
        block: The name of the block; empty if the budget has none.
        before: The epsilon spent before.
        after: The epsilon spent now.
        change: The change in the units of the cap's privacy filter.
        exceeds: Whether, by this version's accountant, the releases exceed the cap. The block then counts as used up,
            and is retired.
        composition: The composed cost of the charges, four ways.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> _ = ledger.budget("people", epsilon=2, unit="person")
    >>> (block,) = ledger.recompute("people").blocks
    >>> block.before, block.after, block.exceeds
    (0.0, 0.0, False)
    """

    block: str
    before: float
    after: float
    change: Cost
    exceeds: bool
    composition: Composition


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """The result of `Ledger.recompute`.

    Attributes:
        budget: The name of the budget.
        blocks: Its blocks; one, if it has no blocks.
        refused: Rows whose events this version cannot account for. They keep their old cost.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> _ = ledger.budget("people", epsilon=2, unit="person")
    >>> ledger.recompute("people").refused
    ()
    """

    budget: str
    blocks: tuple[RecomputedBlock, ...]
    refused: tuple[int, ...]


def recompute(store: Store, person: Person, name: str) -> Recomputed:
    """Price all charges again, with the order, shares and box that were fixed when the budget was created.

    A settled charge then costs what its event costs by this version's accountant, whether that is less than before or
    more. A pending reservation keeps at least what was reserved, because that is what voiding it would refund. For each
    block that changes, a row with the change is appended and the budget corrected, all in one transaction. A block
    whose releases exceed the cap is retired: a later refund must not make room for new charges.

    Guarantee:
        The cap holds as before: its order, shares and box were fixed before the first release.

    Assumes:
        Events describe what was run (the caller's duty). The ledger is intact (checked here, as by `verify`).

    References:
        `hush.accounting.budget.Cap`.
    """
    person.require(Role.OWNER)
    known, _ = read(store)  # compute the costs before the transaction, which then only looks them up
    with store.writing() as connection:
        connection.execute(sa.select(schema.head).with_for_update())
        replay, tables = read_within(connection, LedgerReplay(known))
        findings = damage(replay, tables)
        if findings:
            raise LedgerDamaged(f"The ledger is damaged. Nothing was changed. Run `hush ledger verify`. {findings[0]}")
        budget = replay.budgets.get(name)
        if budget is None:
            raise InvalidArgument("name", name, "a budget of this ledger")
        changes = {block_name: _change(block.budget) for block_name, block in budget.blocks.items()}
        for block_name, block in budget.blocks.items():
            _write(store, connection, person, budget, block_name, block)
    return _result(replay, budget, changes)


def _result(replay: LedgerReplay, budget: BudgetRecord, changes: dict[str, Cost]) -> Recomputed:
    charges = [charge for charge in replay.charges.values() if charge.row.budget == budget.row.budget]
    blocks = []
    for name, block in budget.data_blocks.items():
        after = block.budget.spent + changes[name]
        blocks.append(
            RecomputedBlock(
                block=name,
                before=budget.cap.spent_epsilon(block.budget.spent),
                after=budget.cap.spent_epsilon(after),
                change=changes[name],
                exceeds=not block.budget.required.within(block.budget.limit),
                composition=composition(budget.cap, after, [c for c in charges if name in c.blocks]),
            )
        )
    refused = tuple(charge.row.id for charge in charges if charge.refused)
    return Recomputed(budget=budget.row.budget, blocks=tuple(blocks), refused=refused)


def _write(
    store: Store, connection: sa.Connection, person: Person, budget: BudgetRecord, name: str, block: BlockRecord
) -> None:
    change, shares = _change(block.budget), dict(_changed_shares(block))
    subject = {"budget": budget.row.budget, "block": json.dumps([name]) if name else ""}
    values: dict[str, Any] = {
        **subject,
        "unit": budget.row.unit,
        "relation": budget.row.relation,
        "author": person.name,
    }
    if change != Cost() or shares:
        share_changes = {name: [getattr(cost, part) for part in PARTS] for name, cost in shares.items()}
        details = json.dumps({"hush": __version__, "shares": share_changes})
        store._append(connection, Entry(kind=EntryKind.RECOMPUTED, **values, details=details, **asdict(change)))
        if not isinstance(store, PostgresStore):  # in PostgreSQL, a trigger corrects the budget
            _correct(connection, schema.budgets, change, budget=budget.row.budget, block=name)
            for analyst, cost in shares.items():
                _correct(connection, schema.shares, cost, budget=budget.row.budget, block=name, name=analyst)
    if not block.budget.required.within(block.budget.limit) and not block.retired:
        store._append(connection, Entry(kind=EntryKind.RETIRED, **values))
        table = schema.budgets
        key = (table.c.budget == budget.row.budget, table.c.block == name)
        connection.execute(table.update().where(*key).values(retired=True))


def _correct(connection: sa.Connection, table: sa.Table, change: Cost, **key: str) -> None:
    values = {part: table.c[part] + getattr(change, part) for part in PARTS}
    conditions = [table.c[column] == value for column, value in key.items()]
    connection.execute(table.update().where(*conditions).values(values))


def _change(part: Part) -> Cost:
    return part.capped() + -part.spent


def _changed_shares(block: BlockRecord) -> Iterator[tuple[str, Cost]]:
    for analyst, part in block.shares.items():
        if _change(part) != Cost():
            yield analyst, _change(part)
