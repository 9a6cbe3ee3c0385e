"""Membership inference: was this example in the training data?

Attacks return scores, one per example, higher for examples that look like members. `hush.audit.audit_scores`,
`hush.audit.audit_one_run` and `hush.audit.roc` turn scores into bounds and curves. Some call such an attack tracing.

- Signals, from a model's predictions: `confidence`, `cross_entropy`, `logit_confidence`.
- Shadow models, trained like the target: `shadows`; `coin_sample` draws the target's own sample.
- Attacks on the target alone: `yeom` (losses).
- Attacks with shadow models: `lira_online`, `lira_offline`, `rmia_online`, `rmia_offline`,
  `tuned_offline_a`.
- Interpretation: `example_risk`, the examples that are easy to attack.

Older attacks, attacks by quantile regression, and other ways to look at scores are in `hush.lab`: `trained_attacks`,
`slicing` and `data_overlap`.

In reading order: `signals`, `shadow_models`, the attacks (`thresholding`, `lira`, `rmia`), then `roc_plot`.
"""

from hush.audit.membership.lira import example_risk as example_risk
from hush.audit.membership.lira import lira_offline as lira_offline
from hush.audit.membership.lira import lira_online as lira_online
from hush.audit.membership.rmia import rmia_offline as rmia_offline
from hush.audit.membership.rmia import rmia_online as rmia_online
from hush.audit.membership.rmia import tuned_offline_a as tuned_offline_a
from hush.audit.membership.shadow_models import coin_sample as coin_sample
from hush.audit.membership.shadow_models import shadows as shadows
from hush.audit.membership.signals import confidence as confidence
from hush.audit.membership.signals import cross_entropy as cross_entropy
from hush.audit.membership.signals import logit_confidence as logit_confidence
from hush.audit.membership.thresholding import yeom as yeom

# isort: split
# Shared inside hush, not public.
from hush.audit.membership.lira import refuse_target as refuse_target
from hush.audit.membership.roc_plot import roc_document as roc_document
from hush.audit.membership.roc_plot import roc_figure as roc_figure
from hush.audit.membership.shadow_models import Shadows as Shadows
from hush.audit.membership.signals import Bools as Bools
from hush.audit.membership.signals import Floats as Floats
from hush.audit.membership.signals import classes as classes
from hush.audit.membership.signals import finite as finite
from hush.audit.membership.signals import mask as mask

__all__ = [
    "coin_sample",
    "confidence",
    "cross_entropy",
    "example_risk",
    "lira_offline",
    "lira_online",
    "logit_confidence",
    "rmia_offline",
    "rmia_online",
    "shadows",
    "tuned_offline_a",
    "yeom",
]
