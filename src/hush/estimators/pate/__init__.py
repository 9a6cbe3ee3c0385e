"""Private aggregation of teacher ensembles (PATE): any estimator, made private by votes of many.

- `PATEClassifier`: teachers on disjoint private parts, a noisy vote on public rows, a student of the answers.
- Aggregators: `GNMax`, `ConfidentGNMax` (the usual choice), `InteractiveGNMax`, `LNMax`.
- `CostReport`: what the answers cost on the data at hand, sanitised; `DataDependentCost` is its result.
"""

from hush.estimators.pate.aggregators import ConfidentGNMax as ConfidentGNMax
from hush.estimators.pate.aggregators import GNMax as GNMax
from hush.estimators.pate.aggregators import LNMax as LNMax
from hush.estimators.pate.aggregators import VoteAggregator as VoteAggregator
from hush.estimators.pate.aggregators import VoteAnswers as VoteAnswers
from hush.estimators.pate.classifier import PATEClassifier as PATEClassifier
from hush.estimators.pate.interactive import InteractiveGNMax as InteractiveGNMax
from hush.estimators.pate.report import CostReport as CostReport
from hush.estimators.pate.report import DataDependentCost as DataDependentCost

__all__ = [
    "ConfidentGNMax",
    "CostReport",
    "DataDependentCost",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "PATEClassifier",
    "VoteAggregator",
    "VoteAnswers",
]
