"""Records described by a ledger's rows: budgets, blocks, shares, charges, and findings about them.

`replay` builds these records from the rows; `verify`, `recompute` and `export` read them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hush.accounting import Event
from hush.accounting.budget import Cap, Cost
from hush.ledger.accounts.terms.boxes import is_boxed
from hush.ledger.storage.entry import COSTS, Entry
from hush.ledger.storage.schema import LIMITS

PARTS = COSTS

# Processors may round the last digit of a divergence differently. A tolerance of a billionth is harmless.
_STEPS, _RELATIVE = 1000, 10**9
_RELATIVE_PRICE = 2000  # prices in units of Gaussian noise are found by bisection, to a ten-thousandth
_COUNTS = ("unbounded", "smoothed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A problem in a ledger.

    Attributes:
        row: The number of the row, if the problem is in one.
        about: ``chain`` (hashes, order), ``row`` (contents that are impossible), ``cost``, ``cap``, ``table`` or
            ``anchor``.
        what: A description of the problem.

    >>> print(Finding(row=7, about="chain", what="the row was edited: its hash does not match"))
    Row 7: the row was edited: its hash does not match
    """

    row: int | None
    about: str
    what: str

    def __str__(self) -> str:
        """Return the finding as a sentence."""
        return self.what if self.row is None else f"Row {self.row}: {self.what}"


@dataclass(slots=True, kw_only=True)
class Part:
    """A budget, or a person's share of one.

    Attributes:
        limit: The most that may be spent.
        spent: The sum of the costs that the rows state.
        required: The sum of the costs that the events have by this version's accountant.
        millionths: The share, in millionths of the whole budget.
    """

    limit: Cost
    spent: Cost = field(default_factory=Cost)
    required: Cost = field(default_factory=Cost)
    millionths: int = 1_000_000

    def capped(self) -> Cost:
        """Return ``required``, reduced to what the database's constraint admits."""
        limit = self.limit
        required = replace(self.required, delta=min(self.required.delta, limit.delta))
        if required.within(limit):
            return required
        if limit.renyi >= 0:
            return replace(required, renyi=limit.renyi)
        most = limit.smoothed if required.smoothed else limit.gaussian
        if most >= 0:
            return replace(required, gaussian=most)
        if limit.gaussian >= 0:
            return replace(required, gaussian=limit.gaussian, smoothed=0)
        return replace(required, pure=min(required.pure, limit.pure), unbounded=0)


@dataclass(slots=True, kw_only=True)
class BlockRecord:
    """A block, its shares, and the number of the last row that recomputed it (``corrected``)."""

    budget: Part
    shares: dict[str, Part] = field(default_factory=dict)
    retired: bool = False
    expires: int | None = None
    corrected: int = 0

    @property
    def parts(self) -> list[Part]:
        """The block's budget, and all shares of it."""
        return [self.budget, *self.shares.values()]

    @property
    def is_undercharged(self) -> bool:
        """Whether the rows charge less than the events cost."""
        return not all(at_most(part.capped(), part.spent) for part in self.parts)

    @property
    def is_overcharged(self) -> bool:
        """Whether the rows charge more than the events cost, so that recomputing would refund something."""
        return not all(at_most(part.spent, part.capped()) for part in self.parts)


@dataclass(slots=True, kw_only=True)
class BudgetRecord:
    """A budget: the row that created it, its terms, its cap and its blocks."""

    row: Entry
    terms: dict[str, Any]
    cap: Cap
    blocks: dict[str, BlockRecord]

    @property
    def data_blocks(self) -> dict[str, BlockRecord]:
        """The blocks that are parts of the data: those that are no kinds of a box."""
        return {name: block for name, block in self.blocks.items() if not is_boxed(self.cap, [name])}


@dataclass(slots=True, kw_only=True)
class Charged:
    """A charge and its outcome.

    Attributes:
        row: The row that made the reservation, or charged in one step.
        blocks: The blocks it was charged to.
        spent: The cost that the rows state, after settlement.
        required: The event's cost by this version's accountant; for a pending reservation, at least what was reserved.
        settled: The row that committed or voided the reservation.
        event: The event that was, or will be, run; None if the reservation was voided.
        delta: The delta at which the release was stated.
        claimed: Whether it was charged as one claim at that delta, by its privacy loss distribution.
        part_of: The row of the plan that it is a part of. Only the plan was charged.
        parts: For a plan, the events that were run, and how often.
        refused: Why this version cannot account for the event; empty if it can.
    """

    row: Entry
    blocks: list[str]
    spent: Cost
    required: Cost
    settled: Entry | None = None
    event: Event | None = None
    delta: float | None = None
    refused: str = ""
    claimed: bool = False
    part_of: int | None = None
    parts: dict[Event, int] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """``committed``, ``voided``, or ``reserved`` (pending: it counts as spent)."""
        return self.row.kind if self.settled is None else self.settled.kind


def share_of(limit: Cost, millionths: int) -> Part:
    """Return an unspent share of a limit."""
    limits = {part: getattr(limit, part) * millionths // 1_000_000 for part in LIMITS}
    return Part(limit=Cost(**limits), millionths=millionths)


def fits(part: Part) -> bool:
    """Return whether what is spent is within the limit."""
    return part.spent.within(part.limit)


def larger(first: Cost, second: Cost) -> Cost:
    """Return the component-wise maximum of two costs."""
    return Cost(**{part: max(getattr(first, part), getattr(second, part)) for part in PARTS})


def at_most(cost: Cost, limit: Cost) -> bool:
    """Return whether no component of ``cost`` exceeds that of ``limit``, up to rounding."""
    return all(
        getattr(cost, part) <= getattr(limit, part) + tolerance * (_STEPS + abs(getattr(cost, part)) // relative)
        for part in PARTS
        for tolerance in [0 if part in _COUNTS else 1]
        for relative in [_RELATIVE_PRICE if part == "gaussian" else _RELATIVE]
    )
