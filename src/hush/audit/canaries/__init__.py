"""Canaries: what to put into the data so that a model tells whether it was there.

- `label_canaries`, `LabelCanaries`: units with wrong labels, included by coins; `audit_label_canaries` bounds epsilon
  from one run, or several.
- `clip_bkd`, `Poison`: a point that survives clipping; `audit_poisoning` bounds epsilon from many models.
- `exposure`, `exposure_extrapolated`: how well a model knows a secret.

White-box canary gradients are in `hush.audit.training`.
"""

from hush.audit.canaries.input_canaries import LabelCanaries as LabelCanaries
from hush.audit.canaries.input_canaries import audit_label_canaries as audit_label_canaries
from hush.audit.canaries.input_canaries import calibrated_scores as calibrated_scores
from hush.audit.canaries.input_canaries import label_canaries as label_canaries
from hush.audit.canaries.memorisation import exposure as exposure
from hush.audit.canaries.memorisation import exposure_extrapolated as exposure_extrapolated
from hush.audit.canaries.poisoning import Poison as Poison
from hush.audit.canaries.poisoning import audit_poisoning as audit_poisoning
from hush.audit.canaries.poisoning import clip_bkd as clip_bkd

__all__ = [
    "LabelCanaries",
    "Poison",
    "audit_label_canaries",
    "audit_poisoning",
    "calibrated_scores",
    "clip_bkd",
    "exposure",
    "exposure_extrapolated",
    "label_canaries",
]
