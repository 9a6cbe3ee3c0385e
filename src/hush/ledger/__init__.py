"""One budget over everything that is released from some data, kept in a database, and enforced.

- `Ledger`: the file or database. `Dataset`: a budget in it, to pass as ``budget=`` to `hush.table(...).sql`,
  `hush.privatize`, `hush.tune` and the rest. `Reserved`: a part of it that is set aside.
  `WholePlan`: several releases that were reserved together.
- `Status`, `ChargePrice`, `Entry`: how a budget stands, what a charge would cost, a row.
- `Role`, `Person`, `Identity`: who may do what.
- `Verification`, `Finding`: what `Ledger.verify` returns. `Recomputed`, `RecomputedBlock`, `Composition`, `Figure`:
  what `Ledger.recompute` does.
- `OverBudget`, `NotAllowed`, `LedgerUnavailable`, `LedgerDamaged`: what it raises.

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
