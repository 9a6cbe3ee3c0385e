"""Appends the row of a charge: from the box, priced by the privacy filter, as the first one, or as a claim.

A row is priced before it is appended. The database then checks it against the cap.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hush.accounting import Event
from hush.accounting.budget import Charge, Cost
from hush.errors import Unsupported
from hush.ledger.accounts.blocks import check_charged
from hush.ledger.accounts.people import Role
from hush.ledger.accounts.reservation import check_asked_once, check_before_commit
from hush.ledger.accounts.status import cheapest, takes_nearly_all
from hush.ledger.accounts.terms.boxes import ONE_RELEASE, boxed_row_block, is_boxed
from hush.ledger.storage.entry import Entry, EntryKind
from hush.ledger.storage.errors import OverBudget
from hush.ledger.storage.store import DoesNotFit

if TYPE_CHECKING:
    from hush.ledger.accounts.ledger_budget import LedgerBudget


def append_charge(
    budget: LedgerBudget, kind: EntryKind, charge: Charge, *, details: dict[str, Any], **more: Any
) -> Entry:
    """Append a charge at its lowest price, or raise `OverBudget`. ``more`` are further columns of the row."""
    cap, terms = budget.cap, {**details, "delta": None, "stated": charge.delta}
    boxed = boxed_row_block(cap, charge.event)
    if boxed is not None:
        row_details = json.dumps({**terms, "boxed": True})
        row = budget.row(kind, charge, ONE_RELEASE, details=row_details, **{**more, "block": boxed})
        _check_charge(budget, row)
        try:
            return budget.store.append(row, check_asked_once)
        except DoesNotFit:
            pass  # all of the kind are used: the charge goes on top of the box
    try:
        cost = cap.cost(charge.event)
        if takes_nearly_all(cap, cost):
            raise DoesNotFit("it may be the first")
        row = budget.row(kind, charge, cost, details=json.dumps(terms), **more)
        _check_charge(budget, row)
        return budget.store.append(row, check_asked_once)
    except (DoesNotFit, Unsupported):
        cost, terms_of_price = cheapest(cap, charge, budget.charged_blocks())
    row = budget.row(kind, charge, cost, details=json.dumps({**details, **terms_of_price}), **more)
    return append_row(budget, row, cost)


def append_row(budget: LedgerBudget, row: Entry, cost: Cost) -> Entry:
    """Append a row that charges, or raise `OverBudget`."""
    _check_charge(budget, row)
    try:
        return budget.store.append(row, check_before_commit)
    except DoesNotFit:
        raise _over_budget(budget, row, cost) from None


def _check_charge(budget: LedgerBudget, row: Entry) -> None:
    """Refuse a charge by a person who may not spend, to blocks that share units, or with predictable noise."""
    budget.person.require(Role.OWNER, Role.ANALYST)
    if row.block:
        blocks = json.loads(row.block)
        if not is_boxed(budget.cap, blocks):
            check_charged(blocks, budget.cap.unit)
    budget.refuse_predictable(row.event)


def _over_budget(budget: LedgerBudget, row: Entry, cost: Cost) -> OverBudget:
    cap, statuses = budget.cap, budget.status()
    worst = max(statuses, key=lambda status: status.epsilon)
    return OverBudget(
        f"{budget.name}: the charge exceeds the budget (epsilon = {cap.epsilon:.4g}, "
        f"delta = {cap.delta:.3g} per {cap.unit})",
        asked=cap.alone(Event.from_json(row.event or ""), cost),
        spent=worst.epsilon,
        left=min(status.left for status in statuses),
        largest_epsilon=min(cap.largest_epsilon(status.cost) for status in statuses),
        least_noise=max(cap.least_noise(status.cost) for status in statuses),
    )
