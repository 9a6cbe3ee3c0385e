"""Membership inference: was this example in the training data?

Attacks return scores, one per example, higher for examples that look like members. `hush.audit.audit_scores`,
`hush.audit.audit_one_run` and `hush.audit.roc` turn scores into bounds and curves.

- Signals, from a model's predictions: `confidence`, `cross_entropy`, `logit_confidence`, `logit_confidence_of_logits`.
- Shadow models, trained like the target: `shadows` returns `Shadows`; `coin_sample` draws the target's own sample.
- Attacks on the target alone: `yeom` (losses), `label_only` (the gap attack).
- Attacks with shadow models: `lira_online`, `lira_offline` (with `LiraVariance`), `rmia_online`, `rmia_offline`,
  `tuned_offline_a`, `shokri`.
- Attacks with public non-members: `quantile_gaussian`, `quantile_pinball`.
- Interpretation: `advantage_bounds`, `example_risk`, `slices`, `by_correctness`, `overlap`.

In reading order: `signals`, `shadow_models`, the attacks (`thresholding`, `lira`, `rmia`, `trained_attacks`), then
`slicing`, `data_overlap` and `roc_plot`.
"""

from hush.audit.membership.data_overlap import overlap as overlap
from hush.audit.membership.lira import LiraVariance as LiraVariance
from hush.audit.membership.lira import example_risk as example_risk
from hush.audit.membership.lira import lira_offline as lira_offline
from hush.audit.membership.lira import lira_online as lira_online
from hush.audit.membership.rmia import rmia_offline as rmia_offline
from hush.audit.membership.rmia import rmia_online as rmia_online
from hush.audit.membership.rmia import tuned_offline_a as tuned_offline_a
from hush.audit.membership.shadow_models import Shadows as Shadows
from hush.audit.membership.shadow_models import coin_sample as coin_sample
from hush.audit.membership.shadow_models import shadows as shadows
from hush.audit.membership.signals import confidence as confidence
from hush.audit.membership.signals import cross_entropy as cross_entropy
from hush.audit.membership.signals import logit_confidence as logit_confidence
from hush.audit.membership.signals import logit_confidence_of_logits as logit_confidence_of_logits
from hush.audit.membership.slicing import advantage_bounds as advantage_bounds
from hush.audit.membership.slicing import by_correctness as by_correctness
from hush.audit.membership.slicing import slices as slices
from hush.audit.membership.thresholding import label_only as label_only
from hush.audit.membership.thresholding import yeom as yeom
from hush.audit.membership.trained_attacks import quantile_gaussian as quantile_gaussian
from hush.audit.membership.trained_attacks import quantile_pinball as quantile_pinball
from hush.audit.membership.trained_attacks import shokri as shokri

# isort: split
# Shared inside hush, not public.
from hush.audit.membership.roc_plot import roc_document as roc_document
from hush.audit.membership.roc_plot import roc_figure as roc_figure

__all__ = [
    "LiraVariance",
    "Shadows",
    "advantage_bounds",
    "by_correctness",
    "coin_sample",
    "confidence",
    "cross_entropy",
    "example_risk",
    "label_only",
    "lira_offline",
    "lira_online",
    "logit_confidence",
    "logit_confidence_of_logits",
    "overlap",
    "quantile_gaussian",
    "quantile_pinball",
    "rmia_offline",
    "rmia_online",
    "shadows",
    "shokri",
    "slices",
    "tuned_offline_a",
    "yeom",
]
