"""Test mechanisms as black boxes: lower bounds on epsilon from outputs alone.

- `audit_mechanism` runs a mechanism on two neighbouring inputs, lets an attack learn to tell them apart, and bounds
  epsilon from below on fresh runs. A `Batched` mechanism draws many outputs at once: ten million take seconds.
- Attacks: `EventSearch` (the default), `ClassifierAttack` (DP-Sniper's), `HockeyStick`; `hush.lab` has others. You can
  write your own: see the protocol `Attack`. Some take a classifier with scikit-learn's interface.
- `patterns` and `audit_worst_neighbours` search for the inputs on which a mechanism leaks most.
- `support_test` looks for outputs that only one of two neighbours can produce, by default through their lowest bits.

All return a `hush.audit.AuditResult`. Both directions are tried, and the bound is corrected for everything that was
tried.

In reading order: `outputs` and `encoding` (runs to rows of numbers), `scores` (rows to scores), `events` (scores to
events and their bounds), `attack`, `search` and `classifier` (the attacks), `tester` (the audit),
`neighbours` and `support` (special uses of it).
"""

from hush.audit.testers.attack import Attack as Attack
from hush.audit.testers.classifier import ClassifierAttack as ClassifierAttack
from hush.audit.testers.classifier import HockeyStick as HockeyStick
from hush.audit.testers.neighbours import audit_worst_neighbours as audit_worst_neighbours
from hush.audit.testers.neighbours import patterns as patterns
from hush.audit.testers.outputs import Batched as Batched
from hush.audit.testers.search import EventSearch as EventSearch
from hush.audit.testers.support import support_test as support_test
from hush.audit.testers.tester import audit_mechanism as audit_mechanism

# isort: split
# Shared inside hush, not public.
from hush.audit.testers.attack import AttackEvidence as AttackEvidence
from hush.audit.testers.outputs import Rows as Rows
from hush.audit.testers.scores import Bins as Bins
from hush.audit.testers.scores import Classifier as Classifier

__all__ = [
    "Attack",
    "Batched",
    "ClassifierAttack",
    "EventSearch",
    "HockeyStick",
    "audit_mechanism",
    "audit_worst_neighbours",
    "patterns",
    "support_test",
]
