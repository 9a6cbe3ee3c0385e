"""What a ledger's rows tell of: budgets, blocks, shares and charges, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hush.accounting import Event
from hush.accounting.budget import Cap, Cost
from hush.ledger.storage.entry import Entry

PARTS = ("renyi", "pure", "unbounded", "delta")

# Another processor rounds the last digit of a divergence another way: nobody gains by a billionth.
_STEPS, _RELATIVE = 1000, 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that is wrong with a ledger.

    Attributes:
        row: At which row, if it is at one.
        about: ``chain`` (hashes, order), ``row`` (what it says cannot be), ``cost``, ``cap`` or ``table``.
        what: What is wrong.
    """

    row: int | None
    about: str
    what: str

    def __str__(self) -> str:
        """Return it as a sentence."""
        return self.what if self.row is None else f"Row {self.row}: {self.what}"


@dataclass(slots=True, kw_only=True)
class Part:
    """A budget, or somebody's share of one: what it may be, what was spent by the rows, and what at least by events."""

    limit: Cost
    spent: Cost = field(default_factory=Cost)
    least: Cost = field(default_factory=Cost)
    millionths: int = 1_000_000

    def capped(self) -> Cost:
        """Return ``least``, or as much of it as the database's constraint takes."""
        most, least = self.limit, self.least
        pure = least.unbounded == 0 and least.pure <= most.pure
        delta = min(least.delta, most.delta)
        if least.renyi <= most.renyi or pure:
            return replace(least, delta=delta)
        if most.renyi >= 0:
            return replace(least, renyi=most.renyi, delta=delta)
        return replace(least, pure=min(least.pure, most.pure), unbounded=0, delta=delta)


@dataclass(slots=True, kw_only=True)
class BlockRecord:
    """A block as rows tell of it; ``corrected`` is the last row that recomputed it."""

    whole: Part
    shares: dict[str, Part] = field(default_factory=dict)
    retired: bool = False
    expires: int | None = None
    corrected: int = 0

    @property
    def parts(self) -> list[Part]:
        """The whole, and all shares."""
        return [self.whole, *self.shares.values()]

    @property
    def lacks(self) -> bool:
        """Whether less is spent, by the rows, than the events cost."""
        return not all(no_more(part.capped(), part.spent) for part in self.parts)

    @property
    def tightens(self) -> bool:
        """Whether more is spent, by the rows, than the events cost."""
        return not all(no_more(part.spent, part.capped()) for part in self.parts)


@dataclass(slots=True, kw_only=True)
class DatasetRecord:
    """A data set as rows tell of it."""

    row: Entry
    terms: dict[str, Any]
    cap: Cap
    blocks: dict[str, BlockRecord]


@dataclass(slots=True, kw_only=True)
class Charged:
    """A charge, and what became of it.

    Attributes:
        row: The row that reserved, or charged at once.
        blocks: Of the data set.
        spent: What rows say that it costs, as it stands.
        least: What its event costs by this version's accountant; of a reservation, no less than was reserved.
        settled: The row that committed or voided a reservation.
        event: What was, or will be, run; None if it was voided.
        delta: At which delta it was stated.
        claimed: Whether it costs what its privacy loss distribution claims at that delta, reserved whole.
        part_of: The row of the plan that it is a part of: the plan was charged, whole.
        parts: Of a plan, what was run, and how often.
        refused: Why this version cannot account for the event, if it cannot.
    """

    row: Entry
    blocks: list[str]
    spent: Cost
    least: Cost
    settled: Entry | None = None
    event: Event | None = None
    delta: float | None = None
    refused: str = ""
    claimed: bool = False
    part_of: int | None = None
    parts: dict[Event, int] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """``committed``, ``voided``, or ``reserved``: then it counts, and is not settled."""
        return self.row.kind if self.settled is None else self.settled.kind


def share_of(cap: Cap, millionths: int) -> Part:
    """Return a share of a cap, of which nothing is spent."""
    most = {part: getattr(cap.limit, part) * millionths // 1_000_000 for part in ("renyi", "pure", "delta")}
    return Part(limit=Cost(**most), millionths=millionths)


def fits(part: Part) -> bool:
    """Say whether what is spent is within the limit."""
    most, spent = part.limit, part.spent
    pure = spent.unbounded == 0 and spent.pure <= most.pure
    return spent.delta <= most.delta and (spent.renyi <= most.renyi or pure)


def larger(one: Cost, other: Cost) -> Cost:
    """Return the larger of two costs, part by part."""
    return Cost(**{part: max(getattr(one, part), getattr(other, part)) for part in PARTS})


def no_more(less: Cost, more: Cost) -> bool:
    """Say whether no part of one cost is more than the other's, but for what rounding does."""
    return all(
        getattr(less, part) <= getattr(more, part) + room * (_STEPS + abs(getattr(less, part)) // _RELATIVE)
        for part in PARTS
        for room in [0 if part == "unbounded" else 1]
    )
