"""The ledger row that paid for a guarantee."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hush.errors import InvalidArgument, check_count


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """The ledger row that charged a release.

    Attributes:
        budget: The name of the budget.
        row: The number of the row.
        hash: The hash of the row, which depends on all rows before it.
    """

    budget: str
    row: int
    hash: str

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {"budget": self.budget, "row": self.row, "hash": self.hash}

    @classmethod
    def from_dict(cls, values: Any) -> LedgerRow | None:
        """Restore what `to_dict` wrote; None for None."""
        if values is None:
            return None
        if not isinstance(values, dict) or set(values) != {"budget", "row", "hash"}:
            raise InvalidArgument("charged", "...", "the fields budget, row and hash")
        if not isinstance(values["budget"], str) or not isinstance(values["hash"], str):
            raise InvalidArgument("charged", "...", "texts for budget and hash")
        return cls(values["budget"], check_count("row", values["row"]), values["hash"])
