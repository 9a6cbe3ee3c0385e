"""One privacy budget for everything you release from a dataset, stored in a database and enforced there.

- `Ledger`: the file or database. `Dataset`: a budget in it. Pass it as ``budget=`` to `hush.table(...).sql`,
  `hush.privatize`, `hush.tune`, estimators and statistics.
- `Reserved`: a reserved part of a budget. `WholePlan`: a fixed list of releases that was reserved together.
- `Status`, `ChargePrice`, `Entry`: the state of a budget, the price of a charge, a row of the ledger.
- `Role`, `Person`, `Identity`: people and their rights.
- `Verification`, `Finding`: results of `Ledger.verify`. `Recomputed`, `RecomputedBlock`, `Composition`, `Figure`:
  results of `Ledger.recompute`.
- `OverBudget`, `NotAllowed`, `LedgerUnavailable`, `LedgerDamaged`: errors.

Rooms: `storage` (the database, one transaction per row, a hash chain), `accounts` (budgets, blocks, shares, people),
`history` (replay, verification, recomputation, the auditor's report).

A charge is reserved before the release and committed after it, so a crash never leaves a release uncharged. The
database itself checks each row against the cap, so no program can overdraw a budget. Costs are integers in fixed units,
so sums are exact and do not depend on the order of the rows.

Needs ``hush[ledger]``, and ``hush[postgres]`` for PostgreSQL.
"""

from hush.ledger.accounts.dataset import Dataset as Dataset
from hush.ledger.accounts.people import Identity as Identity
from hush.ledger.accounts.people import Person as Person
from hush.ledger.accounts.people import Role as Role
from hush.ledger.accounts.prepaid import WholePlan as WholePlan
from hush.ledger.accounts.reserved import Reserved as Reserved
from hush.ledger.accounts.status import ChargePrice as ChargePrice
from hush.ledger.accounts.status import Status as Status
from hush.ledger.history.composition import Composition as Composition
from hush.ledger.history.composition import Figure as Figure
from hush.ledger.history.recompute import Recomputed as Recomputed
from hush.ledger.history.recompute import RecomputedBlock as RecomputedBlock
from hush.ledger.history.records import Finding as Finding
from hush.ledger.history.verify import Verification as Verification
from hush.ledger.ledger import Ledger as Ledger
from hush.ledger.storage.entry import Entry as Entry
from hush.ledger.storage.entry import EntryKind as EntryKind
from hush.ledger.storage.errors import LedgerDamaged as LedgerDamaged
from hush.ledger.storage.errors import LedgerUnavailable as LedgerUnavailable
from hush.ledger.storage.errors import NotAllowed as NotAllowed
from hush.ledger.storage.errors import OverBudget as OverBudget

__all__ = [
    "ChargePrice",
    "Composition",
    "Dataset",
    "Entry",
    "EntryKind",
    "Figure",
    "Finding",
    "Identity",
    "Ledger",
    "LedgerDamaged",
    "LedgerUnavailable",
    "NotAllowed",
    "OverBudget",
    "Person",
    "Recomputed",
    "RecomputedBlock",
    "Reserved",
    "Role",
    "Status",
    "Verification",
    "WholePlan",
]
