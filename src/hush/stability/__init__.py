"""Uses of stability beyond privacy.

A computation that hardly depends on any single record does not overfit it, and a prediction that hardly depends on any
single pixel cannot be flipped by changing it. Both are differential privacy with another reading of "record".

- `ReusableHoldout` answers adaptive queries about held-out rows without being overfitted. `SplitHoldout` is the
  baseline: a part of the rows for each query.
- `SmoothedClassifier` makes predictions that no small change of the input can flip. `gaussian_radius` computes how
  large the change may be.

In reading order: `row_queries`, `split_holdout`, `holdout_noise` and `holdout`; `radius` and `smoothing`.
"""

from hush.stability.holdout import ReusableHoldout as ReusableHoldout
from hush.stability.radius import gaussian_radius as gaussian_radius
from hush.stability.smoothing import SmoothedClassifier as SmoothedClassifier
from hush.stability.split_holdout import SplitHoldout as SplitHoldout

# isort: split
# Shared inside hush, not public.
from hush.stability.radius import check_probabilities as check_probabilities

__all__ = [
    "ReusableHoldout",
    "SmoothedClassifier",
    "SplitHoldout",
    "gaussian_radius",
]
