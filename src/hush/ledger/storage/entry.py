"""One row of a ledger, and the chain of hashes that holds rows together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields
from enum import StrEnum

from hush.accounting.budget import Cost

FIRST = "0" * 64
"""What stands in place of the hash before the first row."""


class EntryKind(StrEnum):
    """What a row says."""

    DATASET = "dataset"
    BLOCK = "block"
    RETIRED = "retired"
    PERSON = "person"
    SHARE = "share"
    RESERVED = "reserved"
    COMMITTED = "committed"
    VOIDED = "voided"
    RECOMPUTED = "recomputed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A row. Rows are added, and never changed.

    Attributes:
        id: 1, 2, 3, ... without gaps; 0 before it is written.
        kind: What it says.
        dataset: Whose budget it is about.
        block: The blocks that it is about, as a JSON list; empty for data that are not in blocks.
        unit: What is protected.
        relation: What neighbours are.
        charge: For a row that settles a reservation, that row's id.
        event: What is, or was, run, as JSON.
        purpose: What for.
        author: Who.
        question: A hash of what was asked.
        request: The caller's own key.
        renyi: By how much the row changes what is spent: this and the next three are those of `Cost`.
        pure: The same.
        unbounded: The same.
        delta: The same.
        answer: What was released, where it can be asked for again.
        details: More, as JSON.
        time: Microseconds since 1970; never before the row above.
        previous: The hash of the row above.
        hash: Of everything in this row.
    """

    id: int = 0
    kind: str
    dataset: str = ""
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
    hash: str = ""

    @property
    def cost(self) -> Cost:
        """By how much the row changes what is spent."""
        return Cost(renyi=self.renyi, pure=self.pure, unbounded=self.unbounded, delta=self.delta)

    def computed_hash(self) -> str:
        """Return what ``hash`` has to be: each field with its length, so that no two rows look the same."""
        return hashlib.sha256("".join(_field(getattr(self, name)) for name in HASHED).encode()).hexdigest()


HASHED = tuple(field.name for field in fields(Entry) if field.name != "hash")
"""The fields that are hashed, in order. PostgreSQL computes the same hash, from the same list."""


def _field(value: str | int | None) -> str:
    if value is None:
        return "-"
    text = str(value)
    return f"{len(text)}:{text}"
