"""hush: statistics and machine learning under differential privacy, with one account of the privacy spent.

- `table`: private SQL on your tables. Home: ``hush.sql``. ``hush.statistics`` does the same for arrays.
- `privatize`, `fit`, `tune`: private training of PyTorch models. Home: ``hush.training``.
- ``hush.estimators``: scikit-learn-compatible estimators. `guarantee_of` adds up the private steps of a pipeline.
- `Ledger`: one privacy budget for everything you release from your data. Home: ``hush.ledger``.
- `Guarantee`, `Unit`, `Relation`: what a release promises, and to whom. Home: ``hush.guarantee``.
- ``hush.accounting``: events describe computations, accountants compute their privacy cost; start with
  `accounting.epsilon` and `accounting.calibrate_noise`.
- ``hush.mechanisms``, ``hush.randomness``: the mechanisms, and the random source that they draw from.
- ``hush.audit``: attacks, and the lower bounds on epsilon that they establish.
- ``hush.stability``: reusable holdouts and certified predictions.
- ``hush.data``, ``hush.runs``, ``hush.report``, ``hush.cli``: everything from a file to a private model and its report.
- ``hush.lab``: demonstrations for teaching.
- `HushError`: the base of all errors that hush raises on purpose.

Importing `hush` loads the standard library only. Everything else is loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hush.errors import HushError as HushError
from hush.guarantee import Guarantee as Guarantee
from hush.guarantee import Relation as Relation
from hush.guarantee import Unit as Unit
from hush.lazy_loading import lazy_names
from hush.version import __version__ as __version__

if TYPE_CHECKING:
    from hush import accounting as accounting
    from hush import audit as audit
    from hush import cli as cli
    from hush import data as data
    from hush import errors as errors
    from hush import estimators as estimators
    from hush import guarantee as guarantee
    from hush import lab as lab
    from hush import ledger as ledger
    from hush import mechanisms as mechanisms
    from hush import randomness as randomness
    from hush import report as report
    from hush import runs as runs
    from hush import sql as sql
    from hush import stability as stability
    from hush import statistics as statistics
    from hush import training as training
    from hush.estimators import guarantee_of as guarantee_of
    from hush.ledger import Ledger as Ledger
    from hush.sql import table as table
    from hush.training import fit as fit
    from hush.training import privatize as privatize
    from hush.training import tune as tune
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Ledger": "hush.ledger",
            "fit": "hush.training",
            "guarantee_of": "hush.estimators",
            "privatize": "hush.training",
            "table": "hush.sql",
            "tune": "hush.training",
            **dict.fromkeys(
                (
                    "accounting",
                    "audit",
                    "cli",
                    "data",
                    "errors",
                    "estimators",
                    "guarantee",
                    "lab",
                    "ledger",
                    "mechanisms",
                    "randomness",
                    "report",
                    "runs",
                    "sql",
                    "stability",
                    "statistics",
                    "training",
                )
            ),
        },
    )

__all__ = [
    "Guarantee",
    "HushError",
    "Ledger",
    "Relation",
    "Unit",
    "__version__",
    "accounting",
    "fit",
    "guarantee_of",
    "mechanisms",
    "privatize",
    "table",
    "tune",
]
