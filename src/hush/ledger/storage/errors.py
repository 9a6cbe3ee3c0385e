"""Errors that a ledger raises, in addition to those in `hush.errors`."""

from __future__ import annotations

from hush.errors import BudgetExceeded, HushError


class LedgerUnavailable(HushError):
    """The database did not answer or could not write. Nothing was released. Reservations still count."""

    exit_status = 1  # the command line reports a failure of the machine, not a refusal


class LedgerDamaged(HushError):
    """The hash chain is broken: a row was edited, removed or reordered."""


class NotAllowed(HushError, PermissionError):
    """The person's role does not permit this operation."""


class OverBudget(BudgetExceeded):
    """The charge exceeds the budget. Nothing was charged.

    Attributes:
        asked: The epsilon of the charge on its own.
        spent: The epsilon already spent or reserved.
        left: The epsilon that is left under the cap.
        used: The fraction of the budget that is used.
        largest_epsilon: The largest pure epsilon that still fits.
        least_noise: The smallest noise multiplier of a Gaussian release that still fits; infinite if none does.
    """

    def __init__(
        self,
        what: str,
        *,
        asked: float,
        spent: float,
        left: float,
        used: float,
        largest_epsilon: float,
        least_noise: float,
    ) -> None:
        fits = "The budget is used up"
        if largest_epsilon > 0:
            fits = f"The largest charge that fits is epsilon = {largest_epsilon:.3g}"
            if least_noise < float("inf"):
                fits += f", or a Gaussian noise multiplier of at least {least_noise:.3g}"
        super().__init__(
            f"{what}: asked for epsilon = {asked:.3g}, spent {spent:.3g} ({used:.0%} of the budget), left {left:.3g}",
            "Nothing was charged or released",
            fits,
        )
        self.asked, self.spent, self.left, self.used = asked, spent, left, used
        self.largest_epsilon, self.least_noise = largest_epsilon, least_noise
