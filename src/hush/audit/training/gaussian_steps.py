"""Bounds on mu from observed steps that are Gaussian mechanisms. No threshold has to be chosen."""

from __future__ import annotations

import math

from scipy.special import ndtri

from hush.accounting import Event, GaussianEvent, PldAccountant, PoissonSampledEvent
from hush.audit.bounds.counts import Side, clopper_pearson
from hush.audit.bounds.result import AuditResult, check_confidence
from hush.audit.training.observed_steps import Observations
from hush.errors import Unsupported, check_count
from hush.guarantee import Relation
from hush.training import Full, Microbatches, Poisson, Projected, TrainingPlan


def audit_gaussian(
    observations: Observations, *, delta: float, num_steps: int | None = None, confidence: float = 0.95
) -> AuditResult:
    """Bound mu of the Gaussian mechanism behind the steps, and the epsilon of many such steps.

    Observations with and without the canary are compared in pairs. Under mu-GDP, a pair is ordered correctly with
    probability at most Phi(mu / sqrt(2)): that is how well N(mu, 1) x N(0, 1) can be told from N(0, 1) x N(mu, 1). With
    Poisson sampling at rate q it is at most 1/2 + q (Phi(mu / sqrt(2)) - 1/2). So the number of ordered pairs bounds
    mu, by one binomial bound and without a threshold. If a unit is replaced, both datasets contain one that is sampled,
    and the second formula does not hold; the combination is refused.

    Args:
        observations: The observations.
        delta: The delta at which epsilon is bounded.
        num_steps: The number of steps whose epsilon is bounded; by default those of one observation.
        confidence: The confidence of the bound.

    Returns:
        The bound. ``mu_lower`` is for one step before sampling; epsilon is for all steps, composed by the accountant.

    Guarantee:
        With probability ``confidence``, mu_lower and epsilon_lower are at most the true values.

    Assumes:
        A step is a Gaussian mechanism, on all units or on a Poisson sample, as the plan says (the plan's types are
        checked here; that the code does what the plan says is the caller's duty, and `audit_claim` does not assume it).
        Independent observations, as for `audit_claim`.

    References:
        Dong, Roth & Su 2022 (mu-GDP, its composition); Nasr et al. 2023 (GDP audits); Zhu, Dong & Wang 2022, Theorem 11
        (the sampled pair dominates). Bounding mu by pairs is our own.
    """
    error = 1 - check_confidence(confidence)
    total_steps = observations.num_steps if num_steps is None else check_count("num_steps", num_steps)
    rate = _sampling_rate(observations)
    num_pairs = min(len(observations.scores_in), len(observations.scores_out))
    num_ordered = int((observations.scores_in[:num_pairs, 0] > observations.scores_out[:num_pairs, 0]).sum())
    ordered_lower = float(clopper_pearson(num_ordered, num_pairs, error, Side.LOWER))
    # Dividing by one pair more keeps the point estimate finite if all pairs are ordered.
    mu_lower, mu_observed = (
        _mu(share, rate, observations.num_steps) for share in (ordered_lower, num_ordered / (num_pairs + 1))
    )
    mu_point = max(mu_lower, mu_observed)
    return AuditResult(
        epsilon=_composed_epsilon(mu_point, rate, total_steps, delta, observations.plan),
        epsilon_lower=_composed_epsilon(mu_lower, rate, total_steps, delta, observations.plan),
        confidence=confidence,
        method="pairs of a Gaussian mechanism" if rate == 1 else "pairs of a Poisson-sampled Gaussian mechanism",
        threshold_rule="no threshold",
        num_in=num_pairs,
        num_out=num_pairs,
        delta=delta,
        mu_lower=mu_lower,
        details={"pairs": num_pairs, "in_order": num_ordered, "mu": mu_point, "num_steps": total_steps},
        assumptions=("The observed steps are independent", "A step is a Gaussian mechanism, on a sample as planned"),
        unit=observations.plan.unit,
        relation=observations.plan.relation,
    )


def _sampling_rate(observations: Observations) -> float:
    """Return the sampling rate of steps that are Gaussian mechanisms; refuse others."""
    plan = observations.plan
    if isinstance(plan.contribution, (Microbatches, Projected)) or plan.group_size > 1:
        raise Unsupported("a Gaussian audit of steps that are not a plain Gaussian mechanism", "Use audit_claim")
    if isinstance(plan.sampling, Full):
        return 1.0
    if plan.relation is Relation.REPLACE:
        raise Unsupported(
            "a Gaussian audit of samples under replacement: both datasets sample their unit, so pairs do not bound mu",
            "Use audit_claim, or Full",
        )
    if isinstance(plan.sampling, Poisson) and observations.num_steps == 1 and plan.max_batch_size is None:
        return plan.sampling_rate
    raise Unsupported(
        f"a Gaussian audit of {observations.num_steps} steps with {type(plan.sampling).__name__}",
        "Use Full, or Poisson with observations of one step, or audit_claim",
    )


def _mu(share: float, rate: float, num_steps: int) -> float:
    """Return mu of one step if pairs of observations are ordered with probability ``share``."""
    # Invert share = 1/2 + q (Phi(mu sqrt(num_steps) / sqrt(2)) - 1/2): over several steps, mu grows with their root.
    without_sampling = min(0.5 + (share - 0.5) / rate, 1 - 1e-12)
    return math.sqrt(2 / num_steps) * float(ndtri(without_sampling)) if without_sampling > 0.5 else 0.0


def _composed_epsilon(mu: float, rate: float, num_steps: int, delta: float, plan: TrainingPlan) -> float:
    """Return the epsilon of ``num_steps`` steps, rounded down, for the plan's unit and relation."""
    if not mu > 1e-9:
        return 0.0
    event: Event = GaussianEvent(1 / mu)
    if rate == 1:
        # mu already measures how far the two datasets' outputs are apart, whatever the relation.
        return PldAccountant().compose(event, num_steps).interval(delta)[0]
    # The interval's lower end: an audit rounds down, where the accountant would round up.
    accountant = PldAccountant(unit=plan.unit, relation=plan.relation)
    return accountant.compose(PoissonSampledEvent(event, rate), num_steps).interval(delta)[0]
