"""A budget for one training run that may be interrupted and resumed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hush.accounting.budget import Charge
from hush.ledger.accounts.reserved import Reserved

if TYPE_CHECKING:
    from hush.ledger.accounts.dataset import Dataset


class RunBudget:
    """A dataset's budget for one named run. A resumed run continues with the reservation it made before."""

    def __init__(self, dataset: Dataset, name: str) -> None:
        """Wrap a dataset. `name` identifies the run across restarts."""
        self._dataset, self._name = dataset, name

    def reserve(self, charge: Charge) -> Reserved:
        """Reserve, or return the run's earlier reservation, marked as resumed."""
        return self._dataset.reserve(replace(charge, request=self._name, resumes=True))
