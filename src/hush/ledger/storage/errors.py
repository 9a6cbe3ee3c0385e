"""Errors that a ledger raises, in addition to those in `hush.errors`."""

from __future__ import annotations

from hush.errors import BudgetExceeded, HushError


class LedgerUnavailable(HushError):
    """The database did not answer or could not write. Nothing was released. Reservations still count.

    >>> import pathlib, tempfile
    >>> from hush import Ledger
    >>> path = pathlib.Path(tempfile.mkdtemp(), "letter.db")
    >>> _ = path.write_text("This file is a letter, and no database.")
    >>> Ledger(f"sqlite:///{path}")
    Traceback (most recent call last):
    hush.ledger.storage.errors.LedgerUnavailable: ...
    """

    exit_status = 1  # the command line reports a failure of the machine, not a refusal


class LedgerDamaged(HushError):
    """The hash chain is broken: a row was edited, removed or reordered. Nothing was changed.

    `Ledger.verify` reports such damage without raising; what would write on top of it raises.

    >>> import sqlite3, tempfile
    >>> from contextlib import closing
    >>> from hush import Ledger
    >>> path = f"{tempfile.mkdtemp()}/privacy.db"
    >>> ledger = Ledger(f"sqlite:///{path}")
    >>> _ = ledger.budget("people", epsilon=2, unit="person")
    >>> with closing(sqlite3.connect(path)) as connection, connection:
    ...     _ = connection.execute("DROP TRIGGER hush_only_added_update")
    ...     _ = connection.execute("UPDATE hush_entries SET author = 'somebody else'")
    >>> ledger.verify().ok
    False
    >>> ledger.recompute("people")
    Traceback (most recent call last):
    hush.ledger.storage.errors.LedgerDamaged: The ledger is damaged. Nothing was changed. ...
    """


class NotAllowed(HushError, PermissionError):
    """The person's role does not permit this operation.

    >>> import tempfile
    >>> from hush import Ledger
    >>> from hush.ledger import Role
    >>> url = f"sqlite:///{tempfile.mkdtemp()}/privacy.db"
    >>> token = Ledger(url).admit("ada", Role.OWNER)
    >>> Ledger(url).person
    Traceback (most recent call last):
    hush.ledger.storage.errors.NotAllowed: This ledger requires a token. Open it with the token that you were given.
    >>> Ledger(url, token=token).person.name
    'ada'
    """


class OverBudget(BudgetExceeded):
    """The charge exceeds the budget. Nothing was charged.

    Attributes:
        asked: The epsilon of the charge on its own.
        spent: The epsilon of everything that was charged so far.
        left: How many standard queries are left, of the 100 that the whole budget pays for.
        largest_epsilon: The largest pure epsilon that still fits.
        least_noise: The smallest noise multiplier of a Gaussian release that still fits; infinite if none does.

    >>> import tempfile
    >>> from hush import Ledger
    >>> from hush.accounting import LaplaceEvent
    >>> from hush.ledger import OverBudget
    >>> people = Ledger(f"sqlite:///{tempfile.mkdtemp()}/privacy.db").budget("people", epsilon=2, unit="person")
    >>> try:
    ...     people.charge(LaplaceEvent(0.4), purpose="a count")
    ... except OverBudget as error:
    ...     print(error.asked, error.spent, error.largest_epsilon)
    2.5 0.0 2.0
    """

    def __init__(
        self,
        what: str,
        *,
        asked: float,
        spent: float,
        left: int,
        largest_epsilon: float,
        least_noise: float,
    ) -> None:
        fits = "The budget is used up"
        if largest_epsilon > 0:
            fits = f"The largest charge that fits is epsilon = {largest_epsilon:.3g}"
            if least_noise < float("inf"):
                fits += f", or a Gaussian noise multiplier of at least {least_noise:.3g}"
        super().__init__(
            f"{what}: asked for epsilon = {asked:.3g}; so far epsilon = {spent:.3g}, "
            f"and {left} of 100 standard queries are left",
            "Nothing was charged or released",
            fits,
        )
        self.asked, self.spent, self.left = asked, spent, left
        self.largest_epsilon, self.least_noise = largest_epsilon, least_noise
