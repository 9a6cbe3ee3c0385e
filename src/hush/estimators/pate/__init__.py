"""Private aggregation of teacher ensembles (PATE): any estimator becomes private through noisy votes of many.

- `PATEClassifier`: teachers on disjoint parts of the private data, a noisy vote on public rows, and a student trained
  on the answers.
- Aggregators: `ConfidentGNMax` (the usual choice), `GNMax`, `InteractiveGNMax`, `LNMax`.
- `CostReport`: publishes the cost of the answers on the data at hand, with noise. Its result is a
  `DataDependentCost`: a `DivergenceCost`, or an `ExPostCost` where outcomes decide what is asked.

Reading order: `classifier`, then `rows`, `teachers`, `aggregators` (noise in `noise`), `interactive_aggregator`,
`student`, and for data-dependent costs `costs` and `report`. Published proofs are checked: costs of queries that
outcomes decided on bound the loss only after the fact (`report`).
"""

from hush.estimators.pate.aggregators import ConfidentGNMax as ConfidentGNMax
from hush.estimators.pate.aggregators import GNMax as GNMax
from hush.estimators.pate.aggregators import LNMax as LNMax
from hush.estimators.pate.aggregators import VoteAggregator as VoteAggregator
from hush.estimators.pate.aggregators import VoteAnswers as VoteAnswers
from hush.estimators.pate.classifier import PATEClassifier as PATEClassifier
from hush.estimators.pate.interactive_aggregator import InteractiveGNMax as InteractiveGNMax
from hush.estimators.pate.report import CostReport as CostReport
from hush.estimators.pate.report import DataDependentCost as DataDependentCost
from hush.estimators.pate.report import DivergenceCost as DivergenceCost
from hush.estimators.pate.report import ExPostCost as ExPostCost

__all__ = [
    "ConfidentGNMax",
    "CostReport",
    "DataDependentCost",
    "DivergenceCost",
    "ExPostCost",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "PATEClassifier",
    "VoteAggregator",
    "VoteAnswers",
]
