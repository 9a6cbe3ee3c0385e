"""`TestLedger`: a ledger whose budgets take releases with predictable noise."""

from __future__ import annotations

import tempfile

from hush.ledger.accounts.people import Identity
from hush.ledger.ledger import Ledger


class TestLedger(Ledger):
    """A ledger for tests: its budgets take releases with predictable noise, from a `hush.randomness.TestSource`.

    Its budgets are marked permanently, in rows that cannot be changed, and their guarantees begin with "NOT PRIVATE".
    The budgets of other ledgers refuse such releases, and no ledger has budgets of both kinds.

    >>> from hush import statistics
    >>> from hush.randomness import TestSource
    >>> with TestLedger() as ledger:
    ...     people = ledger.budget("people", epsilon=2, unit="person")
    ...     answer = statistics.count([1, 2], units=["ann", "bob"], epsilon=0.5, budget=people, source=TestSource(1))
    ...     print(people.spent, str(people.guarantee())[:11])
    0.5 NOT PRIVATE
    """

    __test__ = False  # its name is not that of a test case
    for_tests = True

    def __init__(self, url: str | None = None, *, token: str | None = None, identity: Identity | None = None) -> None:
        """Open a ledger for tests, or create it; without ``url``, in a folder that is removed when it is closed."""
        self._folder = None
        if url is None:
            self._folder = tempfile.TemporaryDirectory(prefix="hush-test-ledger-", ignore_cleanup_errors=True)
            url = f"sqlite:///{self._folder.name}/privacy.db"
        super().__init__(url, token=token, identity=identity)

    def close(self) -> None:
        """Close the connections, and remove the folder that was made for the ledger."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
