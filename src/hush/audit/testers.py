"""Testers of mechanisms as black boxes: what can be proven of epsilon from outputs alone.

- `audit_mechanism` runs a mechanism on two neighbouring inputs, lets an attack learn what tells them apart, and bounds
  epsilon from below on fresh runs. `Batched` mechanisms draw many outputs at once: 1e7 take seconds.
- Attacks: `EventSearch` (the default), `ClassifierAttack` (DP-Sniper's), `HockeyStick`, `Histogram`, `Renyi`.
- `patterns` and `audit_worst_neighbours` search for inputs that give a mechanism away.
- `support_test` looks for outputs that only one of two neighbours can have; `lowest_bits` is what it sees.

All return an `hush.audit.AuditResult`. Both directions are tried, and everything that is tried is corrected for.
"""

from hush.audit._attack import Attack as Attack
from hush.audit._classifier import ClassifierAttack as ClassifierAttack
from hush.audit._classifier import HockeyStick as HockeyStick
from hush.audit._divergence import Renyi as Renyi
from hush.audit._divergence import pure_divergence as pure_divergence
from hush.audit._histogram import Histogram as Histogram
from hush.audit._neighbours import audit_worst_neighbours as audit_worst_neighbours
from hush.audit._neighbours import patterns as patterns
from hush.audit._outputs import Batched as Batched
from hush.audit._scores import Classifier as Classifier
from hush.audit._search import EventSearch as EventSearch
from hush.audit._support import lowest_bits as lowest_bits
from hush.audit._support import support_test as support_test
from hush.audit._tester import audit_mechanism as audit_mechanism

__all__ = [
    "Attack",
    "Batched",
    "Classifier",
    "ClassifierAttack",
    "EventSearch",
    "Histogram",
    "HockeyStick",
    "Renyi",
    "audit_mechanism",
    "audit_worst_neighbours",
    "lowest_bits",
    "patterns",
    "pure_divergence",
    "support_test",
]
