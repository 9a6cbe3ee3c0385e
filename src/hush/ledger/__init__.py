"""One budget over everything that is released from some data, kept in a database, and enforced.

- `Ledger`: the file or database. `Dataset`: a budget in it, to pass as ``budget=`` to `hush.table(...).sql`,
  `hush.privatize`, `hush.tune` and the rest. `Reserved`: a part of it that is set aside.
  `WholePlan`: several releases that were reserved together.
- `Status`, `Price`, `Entry`: how a budget stands, what a charge would cost, a row.
- `Role`, `Person`, `Identity`: who may do what.
- `Verification`, `Finding`: what `Ledger.verify` returns. `Recomputed`, `RecomputedBlock`, `Composition`, `Figure`:
  what `Ledger.recompute` does.
- `OverBudget`, `NotAllowed`, `LedgerUnavailable`, `LedgerDamaged`: what it raises.

Needs ``hush[ledger]``, and ``hush[postgres]`` for PostgreSQL.
"""

from hush.ledger._composition import Composition as Composition
from hush.ledger._composition import Figure as Figure
from hush.ledger._dataset import Dataset as Dataset
from hush.ledger._entry import Entry as Entry
from hush.ledger._entry import Kind as Kind
from hush.ledger._errors import LedgerDamaged as LedgerDamaged
from hush.ledger._errors import LedgerUnavailable as LedgerUnavailable
from hush.ledger._errors import NotAllowed as NotAllowed
from hush.ledger._errors import OverBudget as OverBudget
from hush.ledger._ledger import Ledger as Ledger
from hush.ledger._people import Identity as Identity
from hush.ledger._people import Person as Person
from hush.ledger._people import Role as Role
from hush.ledger._recompute import Recomputed as Recomputed
from hush.ledger._recompute import RecomputedBlock as RecomputedBlock
from hush.ledger._reserved import Reserved as Reserved
from hush.ledger._standing import Price as Price
from hush.ledger._standing import Status as Status
from hush.ledger._told import Finding as Finding
from hush.ledger._verify import Verification as Verification
from hush.ledger._whole import WholePlan as WholePlan

__all__ = [
    "Composition",
    "Dataset",
    "Entry",
    "Figure",
    "Finding",
    "Identity",
    "Kind",
    "Ledger",
    "LedgerDamaged",
    "LedgerUnavailable",
    "NotAllowed",
    "OverBudget",
    "Person",
    "Price",
    "Recomputed",
    "RecomputedBlock",
    "Reserved",
    "Role",
    "Status",
    "Verification",
    "WholePlan",
]
