"""Canaries: examples planted in the training data, so that the model reveals whether they were included.

- `label_canaries` chooses units with wrong labels, included by coins. `audit_label_canaries` bounds
  epsilon from one run or several.
- `clip_bkd` makes a poisoned point whose effect survives clipping. `audit_poisoning` bounds epsilon from many
  models.
- `exposure` measures how well a model has memorised a secret.

In reading order: `input_canaries` and `canary_scores`, `poisoning`, `memorisation`. Canary gradients, for an attacker
who sees every step, are in `hush.audit.training`.
"""

from hush.audit.canaries.canary_scores import audit_label_canaries as audit_label_canaries
from hush.audit.canaries.input_canaries import label_canaries as label_canaries
from hush.audit.canaries.memorisation import exposure as exposure
from hush.audit.canaries.poisoning import audit_poisoning as audit_poisoning
from hush.audit.canaries.poisoning import clip_bkd as clip_bkd

# isort: split
# Shared inside hush, not public.
from hush.audit.canaries.canary_scores import calibrated_scores as calibrated_scores
from hush.audit.canaries.input_canaries import LabelCanaries as LabelCanaries

__all__ = [
    "audit_label_canaries",
    "audit_poisoning",
    "clip_bkd",
    "exposure",
    "label_canaries",
]
