"""Attacks that put a number under the promise: lower bounds on epsilon, with a confidence.

- `audit_scores`: an attack's scores of members and others to an `AuditResult`; `audit_one_run` for many canaries in one
  run; `epsilon_from_counts` where there are counts only. `best_of` several.
- Methods: `ClopperPearson` (any mechanism, independent scores), `GaussianDP` (assumes a Gaussian trade-off curve),
  `OneRun` and `OneRunFDP` (canaries of one run), `Jeffreys` (a belief, not a confidence bound).
- Threshold rules: `Explicit`, `Bonferroni`, `SplitScores`, `MultiSplit`. Whatever is chosen after a look is paid for.
- `AuditResult`, `Comparison`, `Verdict`: what was shown, and what it says of a claim.
- `roc`, `Roc`, `bootstrap` with `Auc`, `TprAt`, `Advantage` and `Interval`: the curve of an attack, to look at:
  no proofs.
- The parts: `clopper_pearson`, `Side`, `gdp_epsilon`, `one_run_epsilon`, `one_run_fdp_mu`, `jeffreys_interval`.

Attacks and ready-made audits are in submodules. No torch is loaded here.
"""

from typing import TYPE_CHECKING

from hush.audit.bounds.audit import audit_one_run as audit_one_run
from hush.audit.bounds.audit import audit_scores as audit_scores
from hush.audit.bounds.audit import best_of as best_of
from hush.audit.bounds.bayes import Jeffreys as Jeffreys
from hush.audit.bounds.bayes import jeffreys_interval as jeffreys_interval
from hush.audit.bounds.counts import Side as Side
from hush.audit.bounds.counts import clopper_pearson as clopper_pearson
from hush.audit.bounds.counts import epsilon_from_counts as epsilon_from_counts
from hush.audit.bounds.gaussian import gdp_epsilon as gdp_epsilon
from hush.audit.bounds.method import BoundMethod as BoundMethod
from hush.audit.bounds.one_run import OneRun as OneRun
from hush.audit.bounds.one_run import OneRunFDP as OneRunFDP
from hush.audit.bounds.one_run import one_run_epsilon as one_run_epsilon
from hush.audit.bounds.one_run_fdp import one_run_fdp_mu as one_run_fdp_mu
from hush.audit.bounds.rates import ClopperPearson as ClopperPearson
from hush.audit.bounds.rates import GaussianDP as GaussianDP
from hush.audit.bounds.result import AuditResult as AuditResult
from hush.audit.bounds.result import Comparison as Comparison
from hush.audit.bounds.result import Verdict as Verdict
from hush.audit.bounds.roc import Advantage as Advantage
from hush.audit.bounds.roc import Auc as Auc
from hush.audit.bounds.roc import Interval as Interval
from hush.audit.bounds.roc import Roc as Roc
from hush.audit.bounds.roc import TprAt as TprAt
from hush.audit.bounds.roc import bootstrap as bootstrap
from hush.audit.bounds.roc import roc as roc
from hush.audit.bounds.thresholds import Bonferroni as Bonferroni
from hush.audit.bounds.thresholds import Explicit as Explicit
from hush.audit.bounds.thresholds import MultiSplit as MultiSplit
from hush.audit.bounds.thresholds import SplitScores as SplitScores
from hush.audit.bounds.thresholds import ThresholdRule as ThresholdRule
from hush.lazy import lazy_names

if TYPE_CHECKING:
    from hush.audit import attributes as attributes
    from hush.audit import canaries as canaries
    from hush.audit import extraction as extraction
    from hush.audit import fairness as fairness
    from hush.audit import membership as membership
    from hush.audit import reconstruction as reconstruction
    from hush.audit import testers as testers
    from hush.audit import training as training
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(
            (
                "attributes",
                "canaries",
                "extraction",
                "fairness",
                "membership",
                "reconstruction",
                "testers",
                "training",
            )
        ),
    )

__all__ = [
    "Advantage",
    "Auc",
    "AuditResult",
    "Bonferroni",
    "BoundMethod",
    "ClopperPearson",
    "Comparison",
    "Explicit",
    "GaussianDP",
    "Interval",
    "Jeffreys",
    "MultiSplit",
    "OneRun",
    "OneRunFDP",
    "Roc",
    "Side",
    "SplitScores",
    "ThresholdRule",
    "TprAt",
    "Verdict",
    "audit_one_run",
    "audit_scores",
    "best_of",
    "bootstrap",
    "clopper_pearson",
    "epsilon_from_counts",
    "gdp_epsilon",
    "jeffreys_interval",
    "one_run_epsilon",
    "one_run_fdp_mu",
    "roc",
]
