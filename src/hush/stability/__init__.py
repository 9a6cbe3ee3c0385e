"""What stability buys besides privacy: what one record, or one pixel, cannot change can be relied on elsewhere.

- `ReusableHoldout`: rows that are held out and may be asked again and again, by somebody who learns from the answers.
- `SmoothedClassifier`: predictions that no small change of the input can turn, with a `Certificate`;
  `gaussian_radius` and `pixeldp_radius` say how small.
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
