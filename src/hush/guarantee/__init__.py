"""Guarantees: the single form in which hush states how much a release reveals.

Every accountant, mechanism, estimator, query and training run returns the same value, a `Guarantee`. Two numbers alone
say little: the meaning of an epsilon depends on the neighbouring relation, on the protected unit, and on whether the
number is a proven upper bound or was found by an attack. A `Guarantee` carries all of these, together with the method
that proved it and the assumptions that hush could not check.

- `Guarantee`: an (epsilon, delta) claim. It explains itself in plain English (`Guarantee.explain`), states what the
  best attack can do (`Guarantee.max_tpr`, `Guarantee.tradeoff`, `Guarantee.posterior`, `Guarantee.advantage`), extends
  to groups (`Guarantee.for_group`) and is stored as JSON (`Guarantee.to_json`, `Guarantee.from_json`). It bounds
  overfitting (`Guarantee.generalization`) and what poisoned records can change (`Guarantee.poisoned`,
  `Guarantee.most_poisons`), too.
- `Unit`, `UnitKind`: the privacy unit: an example, a user, a user within a time window, or a group of these. A unit
  with windows states how they divide time. A release with other windows is charged for as many changes as one window
  touches.
- `UserWindow`, `CalendarWindow`: the columns of a table that identify a user within a time window.
- `Relation`: how neighbouring datasets differ: add-or-remove, replace or zero-out.
- `Bound`: which side of the true epsilon the claim is on: upper, lower or an estimate.

In reading order: `terms`, `windows`, `touched_windows` and `unit` define the vocabulary, `guarantee` the value,
`limits` and `trade_off` what it allows an attacker, `generalization` what it says about the population, `rounding` and
`explanation` the words, `json_form` and `window_json` the stored form.
"""

from hush.guarantee.explanation import verdict as verdict  # shared inside hush, not public
from hush.guarantee.generalization import Generalization as Generalization  # shared inside hush, not public
from hush.guarantee.generalization import mutual_information_bounds as mutual_information_bounds  # shared inside hush
from hush.guarantee.generalization import transfer_width as transfer_width  # shared inside hush, not public
from hush.guarantee.guarantee import Guarantee as Guarantee
from hush.guarantee.json_form import TEST_RANDOMNESS as TEST_RANDOMNESS  # shared inside hush, not public
from hush.guarantee.ledger_row import LedgerRow as LedgerRow  # shared inside hush, not public
from hush.guarantee.limits import group_delta as group_delta  # shared inside hush, not public
from hush.guarantee.limits import group_epsilon as group_epsilon  # shared inside hush, not public
from hush.guarantee.terms import Bound as Bound
from hush.guarantee.terms import Relation as Relation
from hush.guarantee.touched_windows import Touched as Touched  # shared inside hush, not public
from hush.guarantee.trade_off import TradeOff as TradeOff  # shared inside hush, not public
from hush.guarantee.unit import Unit as Unit
from hush.guarantee.unit import UserWindow as UserWindow
from hush.guarantee.window_json import load_windows as load_windows  # shared inside hush, not public
from hush.guarantee.windows import AnyWindow as AnyWindow  # shared inside hush, not public
from hush.guarantee.windows import CalendarWindow as CalendarWindow
from hush.guarantee.windows import CalendarWindows as CalendarWindows  # shared inside hush, not public
from hush.guarantee.windows import UnrecordedWindows as UnrecordedWindows  # shared inside hush, not public

# isort: split
# Shared inside hush, not public.
from hush.guarantee.unit import UnitKind as UnitKind

__all__ = ["Bound", "CalendarWindow", "Guarantee", "Relation", "Unit", "UserWindow"]
