"""Uses of stability beyond privacy.

A computation that hardly depends on any single record does not overfit it, and a prediction that hardly depends on any
single pixel cannot be flipped by changing it. Both are differential privacy with another reading of "record".

- `ReusableHoldout` answers adaptive queries about held-out rows without being overfitted: `HoldoutAnswer`.
- `SmoothedClassifier` makes predictions that no small change of the input can flip, with a `Certificate`.
  `gaussian_radius` and `pixeldp_radius` compute how large the change may be.

In reading order: `holdout`; `radius` and `smoothing`.
"""

from hush.stability.holdout import HoldoutAnswer as HoldoutAnswer
from hush.stability.holdout import ReusableHoldout as ReusableHoldout
from hush.stability.radius import gaussian_radius as gaussian_radius
from hush.stability.radius import pixeldp_radius as pixeldp_radius
from hush.stability.smoothing import Certificate as Certificate
from hush.stability.smoothing import SmoothedClassifier as SmoothedClassifier

__all__ = [
    "Certificate",
    "HoldoutAnswer",
    "ReusableHoldout",
    "SmoothedClassifier",
    "gaussian_radius",
    "pixeldp_radius",
]
