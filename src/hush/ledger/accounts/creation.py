"""Creates budgets, and reads the terms that were stored with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from hush.accounting.budget import Cap
from hush.errors import InvalidArgument
from hush.guarantee import Unit
from hush.ledger.accounts.blocks import check_blocks, open_block
from hush.ledger.accounts.people import Person
from hush.ledger.accounts.refusals import checked_text
from hush.ledger.accounts.terms.boxes import kind_blocks
from hush.ledger.accounts.terms.cap import cap_terms
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.store import AlreadyThere, Store


def stored_terms(store: Store, name: str) -> dict[str, Any] | None:
    """Return the terms of a budget; None if there is no such budget."""
    with store.reading() as connection:
        row = connection.execute(sa.select(schema.terms).where(schema.terms.c.name == name)).one_or_none()
    return None if row is None else {**json.loads(row.details), "fingerprint": row.fingerprint}


def refuse_mixed(budgets: Sequence[dict[str, Any]], *, for_tests: bool, is_new: bool = False) -> None:
    """Refuse to open a real ledger for tests, or to add a budget of the other kind."""
    for terms in budgets:
        was_for_tests = terms.get("for_tests", False)
        if for_tests and not was_for_tests:
            raise InvalidArgument("url", "...", "a ledger for tests", "This one has budgets that protect people")
        if is_new and was_for_tests and not for_tests:
            raise InvalidArgument("url", "...", "a ledger for real data", "This one is permanently for tests")


def create_budget(
    store: Store,
    person: Person,
    name: str,
    cap: Cap,
    unit: Unit | str,
    fingerprint: str | Path | None,
    blocks: Sequence[str] | None,
    *,
    for_tests: bool,
) -> None:
    """Append the row of a new budget, and open its blocks. ``unit`` is what the owner calls the unit."""
    data = fingerprint_of(fingerprint)
    names = [""] if blocks is None else check_blocks(blocks, cap)
    terms = {**cap_terms(cap, unit), "in_blocks": blocks is not None}
    if for_tests:
        terms["for_tests"] = True
    unit_name, relation = cap.unit.name, cap.relation.value

    def write(connection: sa.Connection, _: Entry) -> None:
        others = connection.execute(sa.select(schema.terms.c.details)).scalars()
        refuse_mixed([json.loads(other) for other in others], for_tests=for_tests, is_new=True)
        values = {"name": name, "fingerprint": data, "unit": unit_name, "relation": relation}
        connection.execute(schema.terms.insert().values({**values, "details": json.dumps(terms)}))
        for block in [*names, *kind_blocks(cap.box)]:
            open_block(connection, name, block, cap, {})

    row = Entry(
        kind=EntryKind.BUDGET,
        budget=name,
        author=person.name,
        block="" if blocks is None else json.dumps(names),
        unit=unit_name,
        relation=relation,
        details=json.dumps({**terms, "fingerprint": data}),
    )
    try:
        store.append(row, write)
    except AlreadyThere:
        raise InvalidArgument(
            "name", name, "a new name: another process has just created it", "Open it again"
        ) from None


def fingerprint_of(data: str | Path | None) -> str | None:
    """Return the fingerprint of data: a text as it is, or a hash of a file's content."""
    if data is None:
        return data
    if isinstance(data, str):
        return checked_text("fingerprint", data, 500)
    try:
        with data.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except (OSError, AttributeError):
        raise InvalidArgument("fingerprint", str(data), "a text, or the path of a file that can be read") from None
