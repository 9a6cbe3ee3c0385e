"""A budget for one training run that may be interrupted and resumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hush.accounting.budget import Charge
from hush.ledger.accounts.reservation import Reserved

if TYPE_CHECKING:
    from hush.ledger.accounts.ledger_budget import LedgerBudget


class RunBudget:
    """A budget for one named run. A resumed run continues with the reservation it made before."""

    def __init__(self, budget: LedgerBudget, name: str) -> None:
        """Wrap a budget. `name` identifies the run across restarts."""
        self._budget, self._name = budget, name

    def reserve(self, charge: Charge) -> Reserved:
        """Reserve, or return the run's earlier reservation, marked as resumed."""
        return self._budget.reserve(replace(charge, request=self._name, resumes=True))
