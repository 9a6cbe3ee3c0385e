"""Finds earlier charges: for a question that was answered before, or a request that was made before.

A charge may name a question, whose stored answer can be returned again at no cost, and a request, an idempotency key
that is charged once. A run that is resumed finds its own reservation by its request.

An answer is returned again only if it was computed from the same data: each row stores what identified its data. Rows
of older versions do not, so their answers count as answers about other data.

Events are compared without the assumptions that qualify them. Assumptions are sentences for people, which a later
version of hush may word differently; the cost follows from the rest of the event.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hush.accounting import Event
from hush.accounting.budget import Charge, Repeat, StoredAnswer
from hush.errors import InvalidArgument
from hush.ledger.accounts.people import Role, may_serve
from hush.ledger.accounts.reservation import Reserved
from hush.ledger.accounts.terms.boxes import boxed_row_block
from hush.ledger.storage import schema as schema
from hush.ledger.storage.entry import Entry, EntryKind, parsed_details
from hush.ledger.storage.errors import NotAllowed
from hush.strict_json import take_format

if TYPE_CHECKING:
    from hush.ledger.accounts.ledger_budget import LedgerBudget


def hashed_question(budget: LedgerBudget, charge: Charge) -> str | None:
    """Return the hash of a question, as it is stored; None if the charge has none."""
    return _hashed(budget, charge.question) if charge.question else None


def _hashed(budget: LedgerBudget, question: str) -> str:
    """Return the hash of a question to a budget and its blocks."""
    return hashlib.sha256(json.dumps([budget.name, budget.block_list(), question]).encode()).hexdigest()


def earlier_reservation(budget: LedgerBudget, charge: Charge) -> Reserved | None:
    """Return an earlier reservation of the same question or request, with its answer if there is one."""
    question = None if charge.repeat is Repeat.CHARGED else hashed_question(budget, charge)
    for condition in (
        None if charge.request is None else schema.entries.c.request == charge.request,
        None if question is None else schema.entries.c.question == question,
    ):
        if condition is None:
            continue
        rows = budget.store.lasting_rows(schema.entries.c.budget == budget.name, condition)
        reserved = _continued(budget, rows, charge)
        if reserved is not None:
            return reserved
    return None


def stored_answers(budget: LedgerBudget, question: str, data: str) -> list[StoredAnswer]:
    """Return the stored answers to a question about the same data, whatever they were charged, the last one first.

    Rows of people whose answers are not served to others are left out, and rows whose event cannot be read.
    """
    columns = schema.entries.c
    rows = budget.store.lasting_rows(columns.budget == budget.name, columns.question == _hashed(budget, question))
    answers = []
    for row in reversed(rows):
        if row.kind != EntryKind.RESERVED or stored_data(row) != data or not _may_serve(budget, row):
            continue
        settled = budget.store.lasting_rows(schema.entries.c.charge == row.id)
        if not settled or settled[0].kind != EntryKind.COMMITTED or settled[0].answer is None:
            continue
        try:
            answers.append(StoredAnswer(Event.from_json(row.event or ""), settled[0].answer))
        except (InvalidArgument, RecursionError):  # somebody has written a row without hush
            continue
    return answers


def refuse_other_charge(budget: LedgerBudget, row: Entry, charge: Charge) -> None:
    """Refuse a request whose key was used for another event or for other blocks."""
    of_these_blocks = row.block in (budget.block_list(), boxed_row_block(budget.cap, charge.event))
    if not (same_event(row.event, charge.event.to_json()) and of_these_blocks):
        raise InvalidArgument(
            "request", charge.request, "a new key for a new charge", "This one was used for another charge"
        )


def same_event(stored: str | None, asked: str) -> bool:
    """Return whether two events, as JSON, are the same except for the sentences that they assume.

    >>> from hush.accounting import GaussianEvent
    >>> from hush.accounting.events import QualifiedEvent
    >>> from hush.guarantee import Relation, Unit
    >>> before = QualifiedEvent(GaussianEvent(2.0), Relation.ADD_OR_REMOVE, Unit.user(), ("the counts are public",))
    >>> after = QualifiedEvent(GaussianEvent(2.0), Relation.ADD_OR_REMOVE, Unit.user(), ("all counts are public",))
    >>> same_event(before.to_json(), after.to_json()), same_event(before.to_json(), GaussianEvent(2.0).to_json())
    (True, False)
    """
    if stored is None or stored == asked:
        return stored == asked
    try:
        return bool(_terms(_content(stored)) == _terms(_content(asked)))
    except (ValueError, RecursionError):  # somebody has written a row without hush
        return False


def _content(event: str) -> Any:
    """Return what an event's JSON holds, with its format as today's version writes it."""
    content = json.loads(event)
    return {"format": take_format(content), **content} if isinstance(content, dict) else content


def _terms(content: Any) -> Any:
    """Return the content of an event's JSON, without the assumptions of qualified events."""
    if isinstance(content, list):
        return [_terms(part) for part in content]
    if not isinstance(content, dict):
        return content
    qualified = content.get("kind") == "qualified"
    return {name: _terms(value) for name, value in content.items() if not (qualified and name == "assumptions")}


def _continued(budget: LedgerBudget, rows: Sequence[Entry], charge: Charge) -> Reserved | None:
    """Return the last reservation among the rows that the charge may continue with, or whose answer it may have."""
    others = []  # of the same question, about other data
    for row in reversed(rows):
        if row.kind != EntryKind.RESERVED:
            continue
        requested = row.request is not None and row.request == charge.request
        if requested:
            refuse_other_charge(budget, row, charge)
        elif not same_event(row.event, charge.event.to_json()):
            continue  # the same question, with different noise
        settled = budget.store.lasting_rows(schema.entries.c.charge == row.id)
        can_continue = not settled and parsed_details(row.details).get("sealed") is True and charge.sealed
        can_continue = can_continue and row.author == budget.person.name
        has_answer = bool(settled) and settled[0].kind == EntryKind.COMMITTED and settled[0].answer is not None
        if (can_continue or has_answer) and stored_data(row) != charge.data:
            if _may_serve(budget, row):  # what else an analyst has written refuses nobody's question
                others.append(row)
            continue
        if not settled:
            if can_continue:
                return Reserved(budget, row)
            if requested and charge.resumes:
                return _resumed(budget, row)
            if requested:
                raise InvalidArgument(
                    "request",
                    charge.request,
                    "a request that is not pending",
                    "Settle it first: see `hush ledger pending`",
                )
        elif has_answer:
            if _may_serve(budget, row):
                return Reserved(budget, row, settled[0].answer)
            if requested:
                raise InvalidArgument("request", charge.request, "a new key", "Another person used this one")
        elif requested:
            raise InvalidArgument("request", charge.request, "a new key", f"This request was {settled[0].kind}")
    if others and charge.repeat is Repeat.REFUSED_ON_OTHER_DATA:
        raise _other_data(others[0], charge)
    return None


def stored_details(charge: Charge) -> dict[str, Any]:
    """Return the further details of a charge that a row stores, besides its event, purpose and keys."""
    details: dict[str, Any] = {"sealed": charge.sealed}
    if charge.data:
        details["data"] = charge.data
    if charge.folder:
        details["folder"] = charge.folder
    if charge.repeat is Repeat.CHARGED:
        details["asked_again"] = True
    return details


def stored_data(row: Entry) -> str:
    """Return the identity of the data of a row's release; empty if the row does not state it."""
    return str(parsed_details(row.details).get("data", ""))


def _other_data(row: Entry, charge: Charge) -> InvalidArgument:
    """Return the refusal of a question that was asked before, about other data."""
    asked = f"{datetime.fromtimestamp(row.time / 1e6, UTC):%Y-%m-%d %H:%M} UTC"
    before = _described(stored_data(row)) or "the ledger does not say which data it read"
    return InvalidArgument(
        "data",
        "other data",
        f"the data that the question read when it was asked before, at {asked}",
        f"Then: {before}",
        f"Now: {_described(charge.data)}",
        "The earlier answer may be wrong for these data. To ask and pay again, pass --new-data (new_data=True)",
    )


def _described(data: str) -> str:
    """Describe where data are and when they were changed. Their versions identify them, but mean nothing to people."""
    try:
        tables = json.loads(data).values()
        return "; ".join(
            f"{table['where']}{', changed ' + table['changed'] if 'changed' in table else ''}" for table in tables
        )
    except (ValueError, AttributeError, KeyError, TypeError):  # a caller's own text
        return data


def _may_serve(budget: LedgerBudget, row: Entry) -> bool:
    """Return whether the answer to a charge may be given to the person who asks now."""
    with budget.store.reading() as connection:
        return may_serve(connection, row.author, budget.person.name)


def _resumed(budget: LedgerBudget, row: Entry) -> Reserved:
    """Return the reservation of an interrupted run, to the person who started it or to the owner."""
    if row.author != budget.person.name and budget.person.role is not Role.OWNER:
        raise NotAllowed("The run was started by another person.")
    return Reserved(budget, row, resumed=True)
