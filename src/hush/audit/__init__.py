"""Attacks that put a number under the promise: lower bounds on epsilon, with a confidence.

- `audit_scores`: an attack's scores of members and others to an `AuditResult`; `audit_one_run` for many canaries in one
  run; `epsilon_from_counts` where there are counts only. `best_of` several.
- Methods: `ClopperPearson` (any mechanism, independent scores), `GaussianDP` (assumes a Gaussian trade-off curve),
  `OneRun` and `OneRunFDP` (canaries of one run), `Jeffreys` (a belief, not a confidence bound).
- Threshold rules: `Explicit`, `Bonferroni`, `Split`, `MultiSplit`. Whatever is chosen after a look is paid for.
- `AuditResult`, `Comparison`, `Verdict`: what was shown, and what it says of a claim.
- `roc`, `Roc`, `bootstrap` with `Auc`, `TprAt`, `Advantage` and `Interval`: the curve of an attack, to look at:
  no proofs.
- The parts: `clopper_pearson`, `Side`, `gdp_epsilon`, `one_run_epsilon`, `one_run_fdp_mu`, `jeffreys_interval`; and
  `katz`, `adjusted_log`, `bailey`, `inverse_sinh`, approximations that others print.

Attacks and ready-made audits are in submodules. No torch is loaded here.
"""

from hush.audit._audit import audit_one_run as audit_one_run
from hush.audit._audit import audit_scores as audit_scores
from hush.audit._audit import best_of as best_of
from hush.audit._bayes import Jeffreys as Jeffreys
from hush.audit._bayes import jeffreys_interval as jeffreys_interval
from hush.audit._counts import Side as Side
from hush.audit._counts import clopper_pearson as clopper_pearson
from hush.audit._counts import epsilon_from_counts as epsilon_from_counts
from hush.audit._gaussian import gdp_epsilon as gdp_epsilon
from hush.audit._method import Method as Method
from hush.audit._one_run import OneRun as OneRun
from hush.audit._one_run import OneRunFDP as OneRunFDP
from hush.audit._one_run import one_run_epsilon as one_run_epsilon
from hush.audit._one_run_fdp import one_run_fdp_mu as one_run_fdp_mu
from hush.audit._rates import ClopperPearson as ClopperPearson
from hush.audit._rates import GaussianDP as GaussianDP
from hush.audit._ratios import adjusted_log as adjusted_log
from hush.audit._ratios import bailey as bailey
from hush.audit._ratios import inverse_sinh as inverse_sinh
from hush.audit._ratios import katz as katz
from hush.audit._result import AuditResult as AuditResult
from hush.audit._result import Comparison as Comparison
from hush.audit._result import Verdict as Verdict
from hush.audit._roc import Advantage as Advantage
from hush.audit._roc import Auc as Auc
from hush.audit._roc import Interval as Interval
from hush.audit._roc import Roc as Roc
from hush.audit._roc import TprAt as TprAt
from hush.audit._roc import bootstrap as bootstrap
from hush.audit._roc import roc as roc
from hush.audit._thresholds import Bonferroni as Bonferroni
from hush.audit._thresholds import Explicit as Explicit
from hush.audit._thresholds import MultiSplit as MultiSplit
from hush.audit._thresholds import Split as Split
from hush.audit._thresholds import ThresholdRule as ThresholdRule

__all__ = [
    "Advantage",
    "Auc",
    "AuditResult",
    "Bonferroni",
    "ClopperPearson",
    "Comparison",
    "Explicit",
    "GaussianDP",
    "Interval",
    "Jeffreys",
    "Method",
    "MultiSplit",
    "OneRun",
    "OneRunFDP",
    "Roc",
    "Side",
    "Split",
    "ThresholdRule",
    "TprAt",
    "Verdict",
    "adjusted_log",
    "audit_one_run",
    "audit_scores",
    "bailey",
    "best_of",
    "bootstrap",
    "clopper_pearson",
    "epsilon_from_counts",
    "gdp_epsilon",
    "inverse_sinh",
    "jeffreys_interval",
    "katz",
    "one_run_epsilon",
    "one_run_fdp_mu",
    "roc",
]
