"""Testers of mechanisms as black boxes: what can be proven of epsilon from outputs alone.

- `audit_mechanism` runs a mechanism on two neighbouring inputs, lets an attack learn what tells them apart, and bounds
  epsilon from below on fresh runs. `Batched` mechanisms draw many outputs at once: 1e7 take seconds.
- Attacks: `EventSearch` (the default), `ClassifierAttack` (DP-Sniper's), `HockeyStick`, `HistogramAttack`, `Renyi`.
- `patterns` and `audit_worst_neighbours` search for inputs that give a mechanism away.
- `support_test` looks for outputs that only one of two neighbours can have; `lowest_bits` is what it sees.

All return an `hush.audit.AuditResult`. Both directions are tried, and everything that is tried is corrected for.
"""

from hush.audit.testers.attack import Attack as Attack
from hush.audit.testers.classifier import ClassifierAttack as ClassifierAttack
from hush.audit.testers.classifier import HockeyStick as HockeyStick
from hush.audit.testers.divergence import Renyi as Renyi
from hush.audit.testers.divergence import pure_divergence as pure_divergence
from hush.audit.testers.histogram import HistogramAttack as HistogramAttack
from hush.audit.testers.neighbours import audit_worst_neighbours as audit_worst_neighbours
from hush.audit.testers.neighbours import patterns as patterns
from hush.audit.testers.outputs import Batched as Batched
from hush.audit.testers.scores import Classifier as Classifier
from hush.audit.testers.search import EventSearch as EventSearch
from hush.audit.testers.support import lowest_bits as lowest_bits
from hush.audit.testers.support import support_test as support_test
from hush.audit.testers.tester import audit_mechanism as audit_mechanism

__all__ = [
    "Attack",
    "Batched",
    "Classifier",
    "ClassifierAttack",
    "EventSearch",
    "HistogramAttack",
    "HockeyStick",
    "Renyi",
    "audit_mechanism",
    "audit_worst_neighbours",
    "lowest_bits",
    "patterns",
    "pure_divergence",
    "support_test",
]
