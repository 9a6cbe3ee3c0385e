"""Private aggregation of teacher ensembles (PATE): makes any estimator private through noisy votes of many teachers.

- `PATEClassifier`: teachers on disjoint parts of the private data, a noisy vote on public rows, and a student trained
  on the answers.
- Aggregators: `ConfidentGNMax` (the usual choice), `GNMax`, `InteractiveGNMax`, `LNMax`.
- `CostReport`: publishes the cost of the answers on the data at hand, with noise: a bound on a divergence, or
  on the loss after the fact where outcomes decide what is asked. `VoteAggregator` is the base of aggregators.

Reading order: `classifier`, then `rows`, `teachers`, `aggregators` (noise in `noise`), `interactive_aggregator`,
`student`, and for data-dependent costs `costs` and `report`. Published proofs are checked: if outcomes decide which
queries are asked, their costs bound the loss only after the fact (`report`).
"""

from hush.estimators.pate.aggregators import ConfidentGNMax as ConfidentGNMax
from hush.estimators.pate.aggregators import GNMax as GNMax
from hush.estimators.pate.aggregators import LNMax as LNMax
from hush.estimators.pate.aggregators import VoteAggregator as VoteAggregator
from hush.estimators.pate.classifier import PATEClassifier as PATEClassifier
from hush.estimators.pate.interactive_aggregator import InteractiveGNMax as InteractiveGNMax
from hush.estimators.pate.report import CostReport as CostReport

__all__ = [
    "ConfidentGNMax",
    "CostReport",
    "GNMax",
    "InteractiveGNMax",
    "LNMax",
    "PATEClassifier",
    "VoteAggregator",
]
