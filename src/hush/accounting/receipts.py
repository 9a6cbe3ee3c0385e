"""Receipts: the cost of a charge, and what is left of the budget. Everything that charges a budget returns one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hush.errors import InvalidArgument
from hush.guarantee import Guarantee, LedgerRow
from hush.notebook import card


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The cost of a charge, its row in the ledger, and what is left of the budget.

    Attributes:
        budget: The name of the budget.
        row: The number of the ledger's row.
        hash: The hash of that row.
        epsilon: The epsilon of the release on its own; 0 if it was paid for before.
        delta: The delta at which it is stated.
        so_far: The epsilon of everything that was charged so far, as the budget proves it.
        cap: The cap on ``so_far``.
        left: How many standard queries still fit, of the 100 that the whole budget pays for.
        standard_query: The standard query, in words.

    >>> print(Receipt(budget="people", row=7, hash="", epsilon=0.5, delta=0.0, so_far=0.5, cap=2.0, left=68,
    ...               standard_query="Gaussian noise of 11 times the sensitivity"))
    Charged to people (row 7): epsilon 0.5. So far epsilon <= 0.5 of 2; 68 of 100 standard queries are left, each \
with Gaussian noise of 11 times the sensitivity.
    """

    budget: str
    row: int
    hash: str
    epsilon: float
    delta: float
    so_far: float
    cap: float
    left: int
    standard_query: str

    def __str__(self) -> str:
        """Return the receipt in words."""
        cost = f"epsilon {self.epsilon:.4g}" + (f", delta {self.delta:.3g}" if self.delta else "")
        charged = f"Charged to {self.budget} (row {self.row}): {cost}."
        return f"{charged if self.epsilon else f'Nothing was charged to {self.budget}.'} {self.state}"

    def _repr_html_(self) -> str:
        """Return the receipt for a notebook."""
        return card(f"Budget {self.budget}", {}, notes=[str(self)])

    @property
    def state(self) -> str:
        """The amounts spent and left, in words."""
        left = f"{self.left} of 100 standard queries are left, each with {self.standard_query}"
        return f"So far epsilon <= {self.so_far:.4g} of {self.cap:.4g}; {left}."

    def to_dict(self) -> dict[str, Any]:
        """Return the receipt as plain values, for JSON."""
        return {name: getattr(self, name) for name in self.__slots__}


def receipt_of(reservation: Any, guarantee: Guarantee) -> Receipt | None:
    """Return the receipt of a settled reservation; None without a budget, or if the budget writes no receipts."""
    write = getattr(reservation, "receipt", None)
    return None if write is None else write(guarantee.epsilon, guarantee.delta)


def row_of(reservation: Any) -> LedgerRow | None:
    """Return the row of a ledger that made a reservation; None if its budget is in no ledger."""
    row = getattr(reservation, "row", None)
    return None if row is None else LedgerRow(str(row.budget), int(row.id), str(row.hash))


def check_budget(budget: Any) -> None:
    """Refuse anything that is not a budget, such as a number."""
    if budget is None or (not isinstance(budget, type) and callable(getattr(budget, "reserve", None))):
        return
    shown = budget if isinstance(budget, (int, float, str)) else type(budget).__name__
    raise InvalidArgument(
        "budget",
        shown,
        "a budget to charge, such as Ledger(...).budget(name), or None",
        "A number says what a release may cost, and not which budget pays",
        "Write epsilon=... for the cost",
    )
