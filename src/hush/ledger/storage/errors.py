"""What a ledger raises, beside the errors that all of hush shares."""

from __future__ import annotations

from hush.errors import BudgetExceeded, HushError


class LedgerUnavailable(HushError):
    """The database did not answer or could not write. Nothing was released; what was reserved still counts."""

    exit_status = 1  # of the command line: the machine could not go on


class LedgerDamaged(HushError):
    """The ledger's rows do not belong together: something was edited, removed or reordered."""


class NotAllowed(HushError, PermissionError):
    """The person who asks has no right to this."""


class OverBudget(BudgetExceeded):
    """A charge that does not fit; nothing was charged.

    Attributes:
        asked: What the charge would cost by itself, as an epsilon.
        spent: What is spent or reserved already.
        left: What is left of the cap.
        used: Which part of the budget is used up.
        largest_epsilon: The largest epsilon of a release with pure differential privacy that fits.
        least_noise: The least noise multiplier of a Gaussian release that fits; infinite if none does.
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
        fits = "Nothing fits any more"
        if largest_epsilon > 0:
            fits = f"The largest that fits is epsilon = {largest_epsilon:.3g}"
            if least_noise < float("inf"):
                fits += f", or Gaussian noise of at least {least_noise:.3g} times the sensitivity"
        super().__init__(
            f"{what}: asked for epsilon = {asked:.3g}, spent {spent:.3g} ({used:.0%} of the budget), left {left:.3g}",
            "Nothing was charged, and nothing released",
            fits,
        )
        self.asked, self.spent, self.left, self.used = asked, spent, left, used
        self.largest_epsilon, self.least_noise = largest_epsilon, least_noise
