"""One row of a ledger, and the hash chain that links the rows.

A ledger is an append-only table. Each row stores the hash of the row before it. Editing, removing or reordering a row
breaks the chain, which `Ledger.verify` reports.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

from hush.accounting.budget import Cost
from hush.ledger.storage.schema import LATER_COSTS

FIRST = "0" * 64
"""The hash that the first row stores as its predecessor's."""


class EntryKind(StrEnum):
    """The kinds of rows, as they are stored.

    >>> EntryKind("reserved") is EntryKind.RESERVED
    True
    """

    BUDGET = "dataset"  # the word of the first version
    BLOCK = "block"
    RETIRED = "retired"
    PERSON = "person"
    SHARE = "share"
    RESERVED = "reserved"
    COMMITTED = "committed"
    VOIDED = "voided"
    RECOMPUTED = "recomputed"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One row of a ledger. Rows are appended and never changed.

    Attributes:
        id: The row number: 1, 2, 3, ... without gaps; 0 until the row is written.
        kind: An `EntryKind`.
        budget: The name of the budget that the row changes.
        block: The blocks the row applies to, as a JSON list; empty if the budget has no blocks.
        unit: The privacy unit.
        relation: The neighbouring relation.
        charge: For a row that settles a reservation, the id of the reserving row.
        event: The accounting event, as JSON.
        purpose: Why the charge was made, in the caller's words.
        author: The person who wrote the row.
        question: A hash of the query, so that the same question is not charged twice.
        request: The caller's idempotency key.
        renyi: The row's change to the Renyi part of the `Cost`.
        pure: The row's change to the pure-epsilon part of the `Cost`.
        unbounded: The row's change to the number of events without a pure epsilon.
        delta: The row's change to the delta part of the `Cost`.
        answer: The released answer, if it may be returned again.
        details: Further values, as a JSON object.
        time: Microseconds since 1970, by the clock of the machine, or of the database's server.
        previous: The hash of the previous row.
        gaussian: The row's change to the Gaussian part of the `Cost`; None in rows of older versions.
        smoothed: The row's change to the number of events that are no Gaussians; None in rows of older versions.
        hash: The hash of this row's other fields.

    >>> first = Entry(id=1, kind=EntryKind.BUDGET, budget="patients")
    >>> second = Entry(id=2, kind=EntryKind.BLOCK, budget="patients", previous=first.computed_hash())
    >>> second.previous == first.computed_hash() != second.computed_hash()
    True
    """

    id: int = 0
    kind: str
    budget: str = ""
    block: str = ""
    unit: str = ""
    relation: str = ""
    charge: int | None = None
    event: str | None = None
    purpose: str = ""
    author: str = ""
    question: str | None = None
    request: str | None = None
    renyi: int = 0
    pure: int = 0
    unbounded: int = 0
    delta: int = 0
    answer: str | None = None
    details: str = "{}"
    time: int = 0
    previous: str = FIRST
    gaussian: int | None = 0
    smoothed: int | None = 0
    hash: str = ""

    @property
    def cost(self) -> Cost:
        """The row's change to the spent budget."""
        return Cost(
            renyi=self.renyi,
            pure=self.pure,
            unbounded=self.unbounded,
            delta=self.delta,
            gaussian=self.gaussian or 0,
            smoothed=self.smoothed or 0,
        )

    def computed_hash(self) -> str:
        """Return the hash of all other fields.

        Each field is written with its length, so that two different rows never have the same preimage.
        """
        names = HASHED if has_later_costs(self) else [name for name in HASHED if name not in LATER_COSTS]
        return hashlib.sha256("".join([_field(getattr(self, name)) for name in names]).encode()).hexdigest()


def has_later_costs(entry: Entry) -> bool:
    """Return whether a row has the costs of version 4. Rows of older versions are hashed without them."""
    return not (entry.gaussian is None and entry.smoothed is None)


COSTS = tuple(field.name for field in fields(Cost))
"""The names of a row's costs."""


def cost_columns(cost: Cost) -> dict[str, Any]:
    """Return a cost as a row stores it.

    >>> cost_columns(Cost(pure=5))["pure"]
    5
    """
    return {name: getattr(cost, name) for name in COSTS}


def parsed_details(text: str) -> dict[str, Any]:
    """Return the further values of a row; none, if they cannot be read.

    In PostgreSQL, analysts can write rows without hush. What they write there must not stop anybody else.

    >>> parsed_details('{"sealed": true}'), parsed_details("[1]"), parsed_details("{")
    ({'sealed': True}, {}, {})
    """
    try:
        details = json.loads(text)
    except (TypeError, ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


HASHED = tuple(field.name for field in fields(Entry) if field.name != "hash")
"""The hashed fields, in order. The trigger in PostgreSQL computes the same hash from the same list."""


def _field(value: str | int | None) -> str:
    if value is None:
        return "-"
    text = value if type(value) is str else str(value)  # an enum's text is its value
    return f"{len(text)}:{text}"
