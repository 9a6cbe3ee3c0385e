"""One privacy budget for everything you release from your data, stored in a database that enforces it.

- `Ledger`: the file or database; `TestLedger`: one for tests. `LedgerBudget`: a budget in it. Pass it as ``budget=``
  to `hush.table(...).sql`, `hush.privatize`, `hush.tune`, estimators and statistics.
- `Status`: the state of a budget. `ChargePrice`: the cost of a charge. `Verification`: the result of
  `Ledger.verify`. `Role`: what a person may do.
- `OverBudget`, `NotAllowed`, `LedgerUnavailable`, `LedgerDamaged`: errors.

Sub-packages: `storage` (the database, one transaction per row, a hash chain), `accounts` (budgets, blocks, shares,
people), `history` (replay, verification, recomputation, the auditor's report).

How it works:

- **A cost is six integers** (`hush.accounting.budget.Cost`): Renyi divergence at the cap's order, added-up epsilons,
  the number of events without an epsilon, the deltas of claims, the price in units of Gaussian noise, and the number of
  events that are no Gaussians. Each is rounded up to fixed units, so a database adds them exactly, in any order, and a
  CHECK constraint is the cap: one of three rules has to accept all of it. `hush.accounting.budget` has the proof.
- **What is known in advance costs less.** A first charge may take the whole cap, and a box that was declared with the
  budget costs what its composed privacy loss distribution says (`accounts/terms/boxes.py`).
- **Reserve, then commit.** A charge is reserved before the release and committed after it, so a crash never leaves a
  release uncharged. A *sealed* question, whose answer leaves through the ledger only, continues with its reservation
  after a crash. Other releases are not run twice.
- **One reservation, one run.** A process that works on a run holds its reservation (`accounts/lease.py`), so two copies
  of a folder cannot be continued side by side, nor from an older state. The first commit wins.
- **A large run may cost too much under every rule, but not by its privacy loss distribution.** Then it is reserved as
  one claim. That is valid because none of its output was seen; no part of it is refunded.
- **Durable, without a queue.** A commit releases the lock, and the writer waits for the disk afterwards, so writers
  share the wait. Nothing is released before the row is on disk.
- **Enforced by the database.** In PostgreSQL, a trigger (`storage/postgres.sql`) repeats the rules of
  `storage/sqlite.py`, because people may write SQL directly. It cannot compute the cost of an event; `Ledger.verify`
  does.
- **One file, one log.** SQLite finds its log by the file's name, so a file with two names would be two ledgers:
  `storage/ledger_file.py` refuses it. Backups take no charges, and signed heads (`history/anchors.py`) tell an older
  copy, or a rewritten chain, from the ledger.

Needs ``hush[ledger]``, and ``hush[postgres]`` for PostgreSQL.
"""

from hush.extras import with_command as with_command

try:
    import sqlalchemy as sqlalchemy
except ModuleNotFoundError as error:
    raise with_command(error, "hush.ledger") from None

# isort: split
from hush.ledger.accounts.ledger_budget import LedgerBudget as LedgerBudget
from hush.ledger.accounts.people import Role as Role
from hush.ledger.ledger import Ledger as Ledger
from hush.ledger.storage.errors import LedgerDamaged as LedgerDamaged
from hush.ledger.storage.errors import LedgerUnavailable as LedgerUnavailable
from hush.ledger.storage.errors import NotAllowed as NotAllowed
from hush.ledger.storage.errors import OverBudget as OverBudget
from hush.ledger.testing import TestLedger as TestLedger

# isort: split
# Shared inside hush, not public.
from hush.ledger.accounts.people import Identity as Identity
from hush.ledger.accounts.people import Person as Person
from hush.ledger.accounts.reservation import Reserved as Reserved
from hush.ledger.accounts.status import ChargePrice as ChargePrice
from hush.ledger.accounts.status import Status as Status
from hush.ledger.accounts.whole_plan import WholePlan as WholePlan
from hush.ledger.history.composition import Composition as Composition
from hush.ledger.history.composition import Figure as Figure
from hush.ledger.history.recomputation import Recomputed as Recomputed
from hush.ledger.history.recomputation import RecomputedBlock as RecomputedBlock
from hush.ledger.history.records import Finding as Finding
from hush.ledger.history.verification import Verification as Verification
from hush.ledger.history.words import in_words as in_words
from hush.ledger.storage.entry import Entry as Entry
from hush.ledger.storage.entry import EntryKind as EntryKind

__all__ = [
    "Ledger",
    "LedgerBudget",
    "LedgerDamaged",
    "LedgerUnavailable",
    "NotAllowed",
    "OverBudget",
    "Role",
    "TestLedger",
]
