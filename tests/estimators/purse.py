"""A budget for tests."""

from __future__ import annotations

from hush.accounting.budget import Charge
from hush.errors import BudgetExceeded


class Purse:
    """A budget that allows a number of charges and records them."""

    def __init__(self, charges: int) -> None:
        self.left = charges
        self.charged: list[Charge] = []
        self.committed = 0

    def reserve(self, charge: Charge) -> Purse:
        if not self.left:
            raise BudgetExceeded("nothing is left")
        self.left -= 1
        self.charged.append(charge)
        return self

    def hold(self, states: int) -> None:
        """Do nothing: this budget has one process."""

    def release(self) -> None:
        """Do nothing."""

    def commit(self) -> None:
        """Count the reservations that become final."""
        self.committed += 1
