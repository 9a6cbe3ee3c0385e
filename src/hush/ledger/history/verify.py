"""Whether a ledger is what it was: its rows, and the tables that follow from them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from hush.ledger.history.records import PARTS, BlockRecord, Finding, Part
from hush.ledger.history.replay import LedgerReplay
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import FIRST, Entry
from hush.ledger.storage.errors import LedgerUnavailable
from hush.ledger.storage.store import Store

Tables = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What `Ledger.verify` found.

    Attributes:
        rows: How many rows were read.
        head: The hash of the last one. Keep it elsewhere: with it, a later check finds rows that were removed from the
            end, or a ledger that was written anew from the start.
        head_was_given: Whether this check had such a hash to compare with.
        findings: What is wrong; nothing, if the ledger is what it was.
        notes: What is not wrong, and worth knowing.
    """

    rows: int
    head: str
    head_was_given: bool
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.findings

    def __str__(self) -> str:
        """Return it for people."""
        if self.ok:
            return f"{self.rows} rows, and nothing is wrong. Head: {self.head}"
        return "\n".join(map(str, self.findings))


def verify(store: Store, head: str | None = None) -> Verification:
    """Return what is wrong with a ledger; a damaged one raises nothing.

    Guarantee:
        Finds every row that was edited, removed, inserted or moved, unless all hashes from there on were written anew;
        and that, too, if ``head`` is the hash of a row that came later. Whoever wrote them: charges below what their
        events cost, settlements beyond what was reserved, sums above a cap or a share, tables that say something else
        than the rows.

    Assumes:
        Events describe what was run (the caller's duty). Tokens are in no row, as hashes neither: who holds one is not
        checked (the caller's duty).

    References:
        Haber & Stornetta 1991 (chains of hashes); `hush.accounting.budget.Cap` for what events cost.
    """
    try:
        replay, tables = read(store)
    except LedgerUnavailable as error:
        finding = Finding(row=None, about="table", what=f"The tables cannot be read. {error}")
        return Verification(rows=0, head=FIRST, head_was_given=head is not None, findings=(finding,))
    return verified(replay, tables, head)


def verified(replay: LedgerReplay, tables: Tables, head: str | None = None) -> Verification:
    """Return what is wrong with what was read."""
    found = [*replay.findings, *_check_tables(replay, tables)]
    if head is not None and head not in {FIRST, *(row.hash for row in replay.rows)}:
        what = "No row has the hash that was kept: rows were removed from the end, or written anew."
        found.append(Finding(row=None, about="chain", what=what))
    return Verification(
        rows=len(replay.rows),
        head=replay.rows[-1].hash if replay.rows else FIRST,
        head_was_given=head is not None,
        findings=tuple(found),
        notes=tuple(_notes(replay)),
    )


_TABLES = (schema.head, schema.datasets, schema.budgets, schema.people, schema.shares)


def read(store: Store) -> tuple[LedgerReplay, Tables]:
    """Return what one moment's rows say, and the tables beside them."""
    with store.reading() as connection:
        return read_within(connection)


def read_within(connection: sa.Connection, replay: LedgerReplay | None = None) -> tuple[LedgerReplay, Tables]:
    """Return the same within a transaction."""
    replay = LedgerReplay() if replay is None else replay
    for row in connection.execute(sa.select(schema.entries).order_by(schema.entries.c.id)):
        replay.add(Entry(**row._mapping))
    replay.finish()
    tables = {table.name: _all(connection, table) for table in _TABLES}
    return replay, tables


def damage(replay: LedgerReplay, tables: Tables) -> list[Finding]:
    """Return what is wrong besides costs and caps."""
    found = [*replay.findings, *_check_tables(replay, tables)]
    return [finding for finding in found if finding.about not in ("cost", "cap")]


def _all(connection: sa.Connection, table: sa.Table) -> list[dict[str, Any]]:
    return [dict(row._mapping) for row in connection.execute(sa.select(table))]


def _check_tables(replay: LedgerReplay, tables: Tables) -> Iterator[Finding]:
    last = replay.rows[-1] if replay.rows else Entry(kind="", hash=FIRST)
    end = [{"place": 1, "id": last.id, "hash": last.hash, "time": last.time}]
    yield from _differences(schema.head, ("place",), end, tables)
    yield from _differences(schema.datasets, ("name",), _expected_datasets(replay), tables)
    yield from _differences(schema.budgets, ("dataset", "block"), _expected_budgets(replay), tables)
    people = [{"name": name, "role": role} for name, role in replay.people.items()]
    yield from _differences(schema.people, ("name",), people, tables)
    yield from _differences(schema.shares, ("dataset", "block", "name"), _expected_shares(replay), tables)


def _expected_datasets(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, budget in replay.datasets.items():
        terms = dict(budget.terms)
        fingerprint = terms.pop("fingerprint", None)
        unit = {"unit": budget.row.unit, "relation": budget.row.relation}
        yield {"name": name, "fingerprint": fingerprint, **unit, "details": terms}


def _expected_budgets(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, block_name, block in _blocks(replay):
        ends = {"retired": block.retired, "expires": block.expires}
        yield {"dataset": name, "block": block_name, **_sums(block.whole), **ends}


def _expected_shares(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, block_name, block in _blocks(replay):
        for person, part in block.shares.items():
            own = {"name": person, "millionths": part.millionths}
            yield {"dataset": name, "block": block_name, **own, **_sums(part)}


def _blocks(replay: LedgerReplay) -> Iterator[tuple[str, str, BlockRecord]]:
    for name, budget in replay.datasets.items():
        for block_name, block in budget.blocks.items():
            yield name, block_name, block


def _sums(part: Part) -> dict[str, int]:
    spent = {name: getattr(part.spent, name) for name in PARTS}
    most = {f"most_{name}": getattr(part.limit, name) for name in ("renyi", "pure", "delta")}
    return spent | most


def _differences(
    table: sa.Table, keys: tuple[str, ...], expected: Iterable[Mapping[str, Any]], tables: Tables
) -> Iterator[Finding]:
    there = {tuple(row[key] for key in keys): row for row in tables[table.name]}
    for row in expected:
        key = tuple(row[name] for name in keys)
        found = there.pop(key, None)
        if found is None:
            yield _wrong(table, key, "a row is missing that the ledger's rows tell of")
            continue
        for column, value in row.items():
            if not _same(found[column], value):
                yield _wrong(table, key, f"{column} is not what the ledger's rows say")
    for key in there:
        yield _wrong(table, key, "the ledger's rows tell of no such row")


def _same(stored: Any, value: Any) -> bool:
    if isinstance(value, dict):
        try:
            return bool(json.loads(stored) == value)
        except (TypeError, ValueError):
            return False
    return bool(stored == value)


def _wrong(table: sa.Table, key: tuple[Any, ...], what: str) -> Finding:
    place = ", ".join(str(part) for part in key if part not in ("", 1))
    return Finding(row=None, about="table", what=f"Table {table.name}{f' ({place})' if place else ''}: {what}.")


def _notes(replay: LedgerReplay) -> Iterator[str]:
    for name, budget in replay.datasets.items():
        if any(block.tightens for block in budget.blocks.values()):
            yield f"{name}: by this version's accountant, less is spent. See hush ledger recompute."
    pending = sum(charge.status == "reserved" for charge in replay.charges.values())
    if pending:
        yield f"{pending} reserved and not settled; they count. See hush ledger pending."
