"""Messages of a ledger's errors."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hush.errors import BudgetExceeded, HushError
from hush.ledger import LedgerDamaged, LedgerUnavailable, NotAllowed, OverBudget


def over(**changes: float) -> OverBudget:
    figures: dict[str, Any] = {"asked": 2.5, "spent": 1.0, "left": 67, "largest_epsilon": 2.0, "least_noise": 4.0}
    return OverBudget("patients", **{**figures, **changes})


def test_it_says_what_was_asked_what_is_left_and_what_fits() -> None:
    message = str(over())
    assert "asked for epsilon = 2.5; so far epsilon = 1, and 67 of 100 standard queries are left" in message
    assert "largest charge that fits is epsilon = 2, or a Gaussian noise multiplier of at least 4" in message


def test_it_offers_no_gaussian_release_where_none_fits() -> None:
    assert "Gaussian" not in str(over(least_noise=math.inf))


def test_it_says_that_a_budget_is_used_up() -> None:
    assert str(over(largest_epsilon=0.0)).endswith("The budget is used up.")


@pytest.mark.parametrize("kind", [LedgerDamaged, LedgerUnavailable, NotAllowed])
def test_all_are_errors_of_hush(kind: type[HushError]) -> None:
    assert issubclass(kind, HushError)
    assert issubclass(OverBudget, BudgetExceeded)
