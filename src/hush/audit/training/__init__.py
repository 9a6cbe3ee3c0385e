"""Audit private training by watching its steps. Only this part of `hush.audit` needs torch.

- `Setup` describes the training to audit. `observe` watches its steps with and without a canary.
- `compare_claim` says whether the plan's claim is consistent with the observations; `audit_claim` returns the bound.
- `audit_gaussian` bounds mu of a step, and epsilon of a full run, if the steps are Gaussian mechanisms.

In reading order: `setup` (the training, and its canary), `observed_steps` (training to observations), `claims` and
`gaussian_steps` (observations to bounds).
"""

from hush.audit.training.claims import audit_claim as audit_claim
from hush.audit.training.claims import compare_claim as compare_claim
from hush.audit.training.gaussian_steps import audit_gaussian as audit_gaussian
from hush.audit.training.observed_steps import observe as observe
from hush.audit.training.setup import Setup as Setup

__all__ = [
    "Setup",
    "audit_claim",
    "audit_gaussian",
    "compare_claim",
    "observe",
]
