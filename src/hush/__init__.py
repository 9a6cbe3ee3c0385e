"""hush: release statistics, train models and prove what was given away.

What is where:

- `Guarantee`, `Unit`, `Relation`: the one form in which hush states what a release costs, and the words that
  give its two numbers a meaning. Home: `hush.guarantee`.
- `accounting`: events (what was run) and accountants (what it cost); `accounting.epsilon` and
  `accounting.calibrate_noise` are the two calls that everybody needs. Loaded on first use.
- `mechanisms`: noise, selection and the rest, which turn data into private answers. Loaded on first use.
- `privatize`, `fit`, `tune`: private training of PyTorch models, and the search for its settings. Home: `training`,
  loaded on first use; needs ``hush[torch]``.
- `table`: SQL over personal data, answered privately. Home: ``hush.statistics``, which has statistics of arrays, too.
- `Ledger`: one budget over everything that is released from some data. Home: ``hush.ledger``, loaded on first use;
  needs ``hush[ledger]``.
- ``hush.randomness``: the one source of noise.
- `HushError`: the base of everything that hush raises on purpose. Home: `hush.errors`.
- ``hush.estimators``: private models with scikit-learn's manners; needs ``hush[estimators]``.
- ``hush.stability``: reusable holdouts, certified predictions.
- ``hush.audit``: attacks that put a number under the promise. Loaded on first use.
- ``hush.data``, ``hush.runs``, ``hush.report``: from a file of personal data to a private model and a report.
- ``hush.cli``: the command line, ``hush train``, ``tune``, ``schema``, ``plan`` and ``account``.

Importing `hush` loads neither numpy nor scipy, let alone a training framework.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hush.errors import HushError as HushError
from hush.guarantee import Guarantee as Guarantee
from hush.guarantee import Relation as Relation
from hush.guarantee import Unit as Unit

if TYPE_CHECKING:
    from hush import accounting as accounting
    from hush import mechanisms as mechanisms
    from hush import training as training
    from hush.ledger import Ledger as Ledger
    from hush.statistics.sql import table as table
    from hush.training import fit as fit
    from hush.training import privatize as privatize
    from hush.training import tune as tune

__all__ = [
    "Guarantee",
    "HushError",
    "Ledger",
    "Relation",
    "Unit",
    "__version__",
    "accounting",
    "fit",
    "mechanisms",
    "privatize",
    "table",
    "tune",
]

__version__ = "0.1.0"

# Subpackages that are public at the root but too heavy to load before they are needed.
_LAZY = frozenset(
    {"accounting", "audit", "data", "estimators", "ledger", "mechanisms", "report", "runs", "statistics", "training"}
)
_FROM_TRAINING = frozenset({"fit", "privatize", "tune"})


if not TYPE_CHECKING:  # a type checker that saw this would take every misspelt name for a module

    def __getattr__(name: str) -> Any:
        if name in _LAZY:
            from importlib import import_module

            return import_module(f"{__name__}.{name}")
        if name in _FROM_TRAINING:
            from hush import training

            return getattr(training, name)
        if name == "table":
            from hush.statistics.sql import table

            return table
        if name == "Ledger":
            from hush.ledger import Ledger

            return Ledger
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_FROM_TRAINING, "Ledger", "table"})
