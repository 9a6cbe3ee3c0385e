"""Verification: check the hash chain, replay the rows, and compare the derived tables."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hush.ledger.history.anchors import check_anchors
from hush.ledger.history.ledger_replay import LedgerReplay
from hush.ledger.history.records import PARTS, BlockRecord, Finding, Part
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import FIRST, Entry
from hush.ledger.storage.errors import LedgerUnavailable
from hush.ledger.storage.store import Store

Tables = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of `Ledger.verify`.

    Attributes:
        rows: The number of rows.
        head: The hash of the last row. Store it elsewhere: with it, a later check detects rows that were removed from
            the end, and a ledger that was rewritten from the start.
        head_was_given: Whether this check compared the ledger with such a hash.
        place: Where the ledger is: a ``file`` or a ``database``.
        anchors: How many anchors this check compared with the ledger and confirmed.
        findings: The problems; empty if the ledger is intact.
        notes: Remarks that are not problems.

    >>> import tempfile
    >>> from hush import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db")
    >>> _ = ledger.budget("people", epsilon=2, unit="person")
    >>> result = ledger.verify()
    >>> result.ok, result.rows
    (True, 1)
    """

    rows: int
    head: str
    head_was_given: bool
    place: str = "file"
    anchors: int = 0
    findings: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the ledger is intact."""
        return not self.findings

    def __str__(self) -> str:
        """Return the result as text."""
        if self.ok:
            return f"{counted(self.rows, 'row')}, {self.scope()}. Head: {self.head}"
        return "\n".join(map(str, self.findings))

    def scope(self) -> str:
        """Describe the scope of a check without problems."""
        if self.anchors:
            return f"no problems, also compared with {counted(self.anchors, 'anchor')}"
        if self.head_was_given:
            return "no problems, also compared with the given head"
        return (
            f"no problems inside this {self.place}, which cannot show whether it is an older copy, or was written anew"
        )


def counted(number: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "anchor"), counted(2000, "anchor")
    ('1 anchor', '2,000 anchors')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def verify(
    store: Store, head: str | None = None, *, anchors: Path | None = None, public_key: str | None = None
) -> Verification:
    """Verify a ledger. Damage raises no error; the result lists it as findings.

    Guarantee:
        Detects every row that was edited, removed, inserted or moved, unless all later hashes were rewritten. If
        ``head`` is the hash of a later row, or an anchor is of one, it detects that, too. It also detects charges below
        their events' costs, settlements beyond what was reserved, sums above a cap or a share, and tables that
        contradict the rows.

    Assumes:
        Events describe what was run (the caller's duty). The hashes of tokens are not in the rows, so a replaced token
        is not detected (the caller's duty).

    References:
        Haber & Stornetta 1991 (hash chains); `hush.accounting.budget.Cap` for the costs of events.
    """
    try:
        replay, tables = read(store)
    except LedgerUnavailable as error:
        finding = Finding(row=None, about="table", what=f"The tables cannot be read. {error}")
        return Verification(rows=0, head=FIRST, head_was_given=head is not None, findings=(finding,))
    place = "file" if store.url.get_backend_name() == "sqlite" else "database"
    result = replace(verified(replay, tables, head), place=place)
    if anchors is None:
        return result
    check = check_anchors(replay.rows, anchors, public_key or "")
    return replace(
        result,
        anchors=check.confirmed,
        findings=(*result.findings, *check.findings),
        notes=(*result.notes, *check.notes),
    )


def verified(replay: LedgerReplay, tables: Tables, head: str | None = None) -> Verification:
    """Return the verification of a replayed ledger."""
    findings = [*replay.findings, *_check_tables(replay, tables)]
    if head is not None and head not in {FIRST, *(row.hash for row in replay.rows)}:
        what = "No row has the given head: rows were removed from the end, or rewritten."
        findings.append(Finding(row=None, about="chain", what=what))
    return Verification(
        rows=len(replay.rows),
        head=replay.rows[-1].hash if replay.rows else FIRST,
        head_was_given=head is not None,
        findings=tuple(findings),
        notes=tuple(_notes(replay)),
    )


_TABLES = (schema.head, schema.terms, schema.budgets, schema.people, schema.shares)


def read(store: Store) -> tuple[LedgerReplay, Tables]:
    """Replay a consistent snapshot; return it with the derived tables."""
    with store.reading() as connection:
        return read_within(connection)


def read_within(connection: sa.Connection, replay: LedgerReplay | None = None) -> tuple[LedgerReplay, Tables]:
    """Do the same inside the caller's transaction."""
    replay = LedgerReplay() if replay is None else replay
    for row in connection.execute(sa.select(schema.entries).order_by(schema.entries.c.id)):
        replay.add(Entry(**schema.named(schema.entries, row)))
    replay.finish()
    tables = {table.name: _all(connection, table) for table in _TABLES}
    return replay, tables


def damage(replay: LedgerReplay, tables: Tables) -> list[Finding]:
    """Return the findings that are not about costs and caps."""
    findings = [*replay.findings, *_check_tables(replay, tables)]
    return [finding for finding in findings if finding.about not in ("cost", "cap")]


def _all(connection: sa.Connection, table: sa.Table) -> list[dict[str, Any]]:
    return [schema.named(table, row) for row in connection.execute(sa.select(table))]


def _check_tables(replay: LedgerReplay, tables: Tables) -> Iterator[Finding]:
    last = replay.rows[-1] if replay.rows else Entry(kind="", hash=FIRST)
    end = [{"place": 1, "id": last.id, "hash": last.hash, "time": last.time}]
    yield from _differences(schema.head, ("place",), end, tables)
    yield from _differences(schema.terms, ("name",), _expected_terms(replay), tables)
    yield from _differences(schema.budgets, ("budget", "block"), _expected_budgets(replay), tables)
    people = [{"name": name, "role": role} for name, role in replay.people.items()]
    yield from _differences(schema.people, ("name",), people, tables)
    yield from _differences(schema.shares, ("budget", "block", "name"), _expected_shares(replay), tables)


def _expected_terms(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, budget in replay.budgets.items():
        terms = dict(budget.terms)
        fingerprint = terms.pop("fingerprint", None)
        unit = {"unit": budget.row.unit, "relation": budget.row.relation}
        yield {"name": name, "fingerprint": fingerprint, **unit, "details": terms}


def _expected_budgets(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, block_name, block in _blocks(replay):
        ends = {"retired": block.retired, "expires": block.expires}
        yield {"budget": name, "block": block_name, **_sums(block.budget), **ends}


def _expected_shares(replay: LedgerReplay) -> Iterator[dict[str, Any]]:
    for name, block_name, block in _blocks(replay):
        for person, part in block.shares.items():
            share = {"name": person, "millionths": part.millionths}
            yield {"budget": name, "block": block_name, **share, **_sums(part)}


def _blocks(replay: LedgerReplay) -> Iterator[tuple[str, str, BlockRecord]]:
    for name, budget in replay.budgets.items():
        for block_name, block in budget.blocks.items():
            yield name, block_name, block


def _sums(part: Part) -> dict[str, int]:
    spent = {name: getattr(part.spent, name) for name in PARTS}
    limits = {f"most_{name}": getattr(part.limit, name) for name in schema.LIMITS}
    return spent | limits


def _differences(
    table: sa.Table, keys: tuple[str, ...], expected: Iterable[Mapping[str, Any]], tables: Tables
) -> Iterator[Finding]:
    stored = {tuple(row[key] for key in keys): row for row in tables[table.name]}
    for row in expected:
        key = tuple(row[name] for name in keys)
        actual = stored.pop(key, None)
        if actual is None:
            yield _table_finding(table, key, "a row is missing that the ledger's rows imply")
            continue
        for column, value in row.items():
            if not _same(actual[column], value):
                yield _table_finding(table, key, f"{column} contradicts the ledger's rows")
    for key in stored:
        yield _table_finding(table, key, "the ledger's rows do not imply this row")


def _same(stored: Any, value: Any) -> bool:
    if isinstance(value, dict):
        try:
            return bool(json.loads(stored) == value)
        except (TypeError, ValueError):
            return False
    return bool(stored == value)


def _table_finding(table: sa.Table, key: tuple[Any, ...], what: str) -> Finding:
    label = ", ".join(str(part) for part in key if part not in ("", 1))
    return Finding(row=None, about="table", what=f"Table {table.name}{f' ({label})' if label else ''}: {what}.")


def _notes(replay: LedgerReplay) -> Iterator[str]:
    for name, budget in replay.budgets.items():
        if any(block.is_overcharged for block in budget.blocks.values()):
            yield f"{name}: this version's accountant charges less. Run hush ledger recompute to refund the difference."
    for number in replay.set_back[:3]:
        yield f"Row {number} is earlier than the row before: one of the two clocks was wrong."
    for row, was_last in replay.restored.items():
        doubt = "" if was_last else ". Nothing shows that no charges were made after the backup: they would be missing"
        yield f"Row {row}: the ledger was restored from a backup{doubt}."
    pending = sum(charge.status == "reserved" for charge in replay.charges.values())
    if pending:
        count = (
            "1 pending reservation, which counts" if pending == 1 else f"{pending} pending reservations, which count"
        )
        yield f"{count} as spent. See hush ledger pending."
