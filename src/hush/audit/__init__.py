"""Audits: attacks, and the lower bounds on epsilon that they establish at a stated confidence.

>>> import numpy as np
>>> from hush import audit
>>> rng = np.random.default_rng(0)
>>> members, others = rng.normal(1.0, 1.0, 2000), rng.normal(0.0, 1.0, 2000)
>>> result = audit.audit_scores(members, others, delta=1e-5)
>>> print(result.compare(2.0).verdict, result.compare(0.5).verdict)
consistent violated

**One kind of result.** Every attack ends in an `AuditResult`: a lower confidence bound on epsilon, with its method, its
assumptions and the counts behind it. `AuditResult.compare` says whether a claim is consistent with it. A small bound
never proves that a mechanism is private: a stronger attack may exist.

**Every choice is paid for.** Anything chosen after seeing scores (a threshold, a direction, the best of several audits)
is either corrected for or chosen on other data. Thresholds are corrected over a ladder of counts that is fixed in
advance. Dividing by the number of vertices of the ROC's convex hull, as is often done, lets the data choose the
divisor.

The contents of this module:

- From scores to a result: `audit_scores` (independent scores), `audit_one_run` (many canaries in one run),
  `epsilon_from_counts` (counts only), `best_of` (several audits).
- Methods: `ClopperPearson` (any mechanism, independent scores), `GaussianDP` (assumes a Gaussian
  trade-off curve), `OneRun` and `OneRunFDP` (canaries of one run), `Jeffreys` (a credible bound only).
- Threshold rules: `Explicit`, `Bonferroni`, `SplitScores`, `MultiSplit`.
- Results: `AuditResult`; `AuditResult.compare` says whether a claim is violated.
- Curves for exploration only: `roc` and `Roc`; `bootstrap` gives an interval for any statistic of a curve.

The attacks and ready-made audits are in submodules, which load on first use. Importing this package does not load
torch.

- `audit.membership`: membership inference: Yeom, Shokri, LiRA, RMIA, quantile regression.
- `audit.canaries`: canaries with wrong labels, poisoned points, exposure of secrets.
- `audit.training`: canary gradients in the steps of private training (needs torch).
- `audit.testers`: mechanisms as black boxes.
- `audit.fairness`: accuracy by group, with and without privacy.

Attacks for teaching are in `hush.lab`: reconstruction of a table, inference of attributes, extraction of models.

All audits end in the same bounds, in ``audit/bounds``.
"""

from typing import TYPE_CHECKING

from hush.audit.bounds.audit import audit_one_run as audit_one_run
from hush.audit.bounds.audit import audit_scores as audit_scores
from hush.audit.bounds.audit import best_of as best_of
from hush.audit.bounds.bayes import Jeffreys as Jeffreys
from hush.audit.bounds.counts import epsilon_from_counts as epsilon_from_counts
from hush.audit.bounds.one_run import OneRun as OneRun
from hush.audit.bounds.one_run import OneRunFDP as OneRunFDP
from hush.audit.bounds.rates import ClopperPearson as ClopperPearson
from hush.audit.bounds.rates import GaussianDP as GaussianDP
from hush.audit.bounds.result import AuditResult as AuditResult
from hush.audit.bounds.roc import Roc as Roc
from hush.audit.bounds.roc import bootstrap as bootstrap
from hush.audit.bounds.roc import roc as roc
from hush.audit.bounds.thresholds import Bonferroni as Bonferroni
from hush.audit.bounds.thresholds import Explicit as Explicit
from hush.audit.bounds.thresholds import MultiSplit as MultiSplit
from hush.audit.bounds.thresholds import SplitScores as SplitScores
from hush.lazy_loading import lazy_names

# isort: split
# Shared inside hush, not public.
from hush.audit.bounds.counts import Side as Side
from hush.audit.bounds.counts import clopper_pearson as clopper_pearson
from hush.audit.bounds.method import BoundMethod as BoundMethod
from hush.audit.bounds.result import Comparison as Comparison
from hush.audit.bounds.result import check_confidence as check_confidence
from hush.audit.bounds.roc import Interval as Interval
from hush.audit.bounds.thresholds import ThresholdRule as ThresholdRule
from hush.audit.softmax import Softmax as Softmax
from hush.audit.softmax import fit_softmax as fit_softmax

if TYPE_CHECKING:
    from hush.audit import canaries as canaries
    from hush.audit import fairness as fairness
    from hush.audit import membership as membership
    from hush.audit import testers as testers
    from hush.audit import training as training
else:  # a type checker that saw this would take every misspelt name for a module
    __getattr__, __dir__ = lazy_names(
        __name__,
        dict.fromkeys(
            (
                "canaries",
                "fairness",
                "membership",
                "testers",
                "training",
            )
        ),
    )

__all__ = [
    "AuditResult",
    "Bonferroni",
    "ClopperPearson",
    "Explicit",
    "GaussianDP",
    "Jeffreys",
    "MultiSplit",
    "OneRun",
    "OneRunFDP",
    "Roc",
    "SplitScores",
    "audit_one_run",
    "audit_scores",
    "best_of",
    "bootstrap",
    "epsilon_from_counts",
    "roc",
]
