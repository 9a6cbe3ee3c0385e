"""A budget for one run that may be interrupted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hush.accounting.budget import Charge
from hush.ledger.accounts.reserved import Reserved

if TYPE_CHECKING:
    from hush.ledger.accounts.dataset import Dataset


class RunBudget:
    """A budget for one run under a name: what an interrupted run has reserved, the same run goes on with."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        """Take the budget and the run's name."""
        self._dataset, self._name = dataset, name

    def reserve(self, charge: Charge) -> Reserved:
        """Reserve, or return what the run has reserved before, marked as resumed."""
        return self._dataset.reserve(replace(charge, request=self._name, resumes=True))
