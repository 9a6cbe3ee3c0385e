"""Audits of private training: canaries in the steps of `hush.training`; only this part of `hush.audit` needs torch.

- `Setup`: what to audit; `observe` watches its steps with a canary gradient and without: `Observations`.
- `compare_claim`: whether the plan's claim is consistent with them; `audit_claim`: what was shown.
- `audit_gaussian`: a bound on mu, and on the epsilon of a whole run.
- `Recorder`: the optimizer that writes gradients down.
"""

from hush.audit.training.observed_steps import STATISTICS as STATISTICS
from hush.audit.training.observed_steps import Observations as Observations
from hush.audit.training.observed_steps import Recorder as Recorder
from hush.audit.training.observed_steps import Setup as Setup
from hush.audit.training.observed_steps import observe as observe
from hush.audit.training.step_audits import audit_claim as audit_claim
from hush.audit.training.step_audits import audit_gaussian as audit_gaussian
from hush.audit.training.step_audits import compare_claim as compare_claim

__all__ = [
    "STATISTICS",
    "Observations",
    "Recorder",
    "Setup",
    "audit_claim",
    "audit_gaussian",
    "compare_claim",
    "observe",
]
