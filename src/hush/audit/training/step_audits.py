"""From observed steps to bounds: do the observations contradict the plan's claim, and how much privacy is lost?

`audit_claim` assumes nothing about the mechanism: it searches a third of the observations for an event that contradicts
the claim, and tests it on the rest. `audit_gaussian` assumes Gaussian steps and bounds mu, without a search.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from hush.accounting import Event, GaussianEvent, PldAccountant, PoissonSampledEvent
from hush.audit.bounds.counts import Side, clopper_pearson, epsilon_at, epsilon_from_counts
from hush.audit.bounds.result import AuditResult, Comparison, check_confidence
from hush.audit.training.observed_steps import STATISTICS, Floats, Observations
from hush.errors import InvalidArgument, Unsupported, check_count
from hush.guarantee import Guarantee, Relation
from hush.training import Full, Microbatches, Poisson, Projected, TrainingPlan

_NUM_POINTS = 24  # points of the claimed curve to test
_NUM_THRESHOLDS = 200  # candidate thresholds of each statistic
_MIN_DELTA = 1e-4  # a few hundred observations show nothing at smaller deltas


@dataclass(frozen=True, slots=True)
class _Test:
    """An event, "statistic above threshold", and the point of the claimed curve that it may contradict."""

    statistic: int
    threshold: float
    epsilon: float
    delta: float

    def count(self, scores: Floats) -> int:
        """Return in how many observations the event occurs."""
        return int((scores[:, self.statistic] > self.threshold).sum())


def audit_claim(observations: Observations, *, confidence: float = 0.95) -> AuditResult:
    """Search for a contradiction to the curve of (epsilon, delta) that the plan claims.

    A third of the observations chooses a statistic, a threshold and a point of the curve. The rest tests this one
    event, so nothing has to be corrected for. The bound holds at the delta of the chosen point; `compare_claim`
    compares it with the claim there.

    Args:
        observations: The observations, at least 20 with and 20 without the canary.
        confidence: The confidence of the bound.

    Returns:
        The bound for the steps of one observation. Its details name the statistic and the claimed epsilon.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of an observation's steps at delta.

    Assumes:
        Independent observations: the weights stay fixed, and noise and samples are fresh in every step (checked here by
        the setup; the caller's duty if the loss remembers earlier steps). The canary is a unit that the claim covers
        (the caller's duty).

    References:
        Nasr et al. 2021 and 2023 (gradient canaries, white-box); Clopper & Pearson 1934 (the bound on both rates). The
        search along a claimed curve, on separate observations, is our own.
    """
    error = 1 - check_confidence(confidence)
    for name, scores in (("scores_in", observations.scores_in), ("scores_out", observations.scores_out)):
        if not len(scores) >= 20:
            raise InvalidArgument(name, len(scores), "at least 20 observations", "A third of them choose what to test")
    test = _choose_test(observations, error)
    fresh_in, fresh_out = (
        scores[np.arange(len(scores)) % 3 > 0] for scores in (observations.scores_in, observations.scores_out)
    )
    result = epsilon_from_counts(
        test.count(fresh_in),
        len(fresh_in),
        test.count(fresh_out),
        len(fresh_out),
        delta=test.delta,
        confidence=confidence,
    )
    return replace(
        result,
        method="Clopper-Pearson, white-box gradient canary",
        threshold_rule="statistic, threshold and delta chosen on other observations",
        details={
            **result.details,
            "statistic": STATISTICS[test.statistic],
            "threshold": test.threshold,
            "steps": observations.steps,
            "claimed_epsilon": test.epsilon,
        },
        assumptions=("The observed steps are independent",),
        unit=observations.plan.unit,
        relation=observations.plan.relation,
    )


def compare_claim(observations: Observations, *, confidence: float = 0.95) -> Comparison:
    """Say whether the plan's claim about an observation's steps is consistent with the observations, or violated.

    Args:
        observations: The observations, at least 20 with and 20 without the canary.
        confidence: The confidence of the verdict.

    Returns:
        The verdict, with a sentence that you can print.

    Guarantee:
        A true claim is called violated with probability at most 1 - ``confidence``.

    Assumes:
        The same as `audit_claim` (the caller's duty).

    References:
        See `audit_claim`.
    """
    result = audit_claim(observations, confidence=confidence)
    claim = Guarantee(
        epsilon=float(result.details["claimed_epsilon"]),
        delta=result.delta,
        unit=result.unit,
        relation=result.relation,
        method="the plan, by privacy loss distributions",
    )
    return result.compare(claim)


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
    total_steps = observations.steps if num_steps is None else check_count("num_steps", num_steps)
    rate = _sampling_rate(observations)
    num_pairs = min(len(observations.scores_in), len(observations.scores_out))
    num_ordered = int((observations.scores_in[:num_pairs, 0] > observations.scores_out[:num_pairs, 0]).sum())
    ordered_lower = float(clopper_pearson(num_ordered, num_pairs, error, Side.LOWER))
    # Dividing by one pair more keeps the point estimate finite if all pairs are ordered.
    mu_lower, mu_observed = (
        _mu(share, rate, observations.steps) for share in (ordered_lower, num_ordered / (num_pairs + 1))
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
    if isinstance(plan.sampling, Poisson) and observations.steps == 1 and plan.max_batch_size is None:
        return plan.sampling_rate
    raise Unsupported(
        f"a Gaussian audit of {observations.steps} steps with {type(plan.sampling).__name__}",
        "Use Full, or Poisson with observations of one step, or audit_claim",
    )


def _mu(share: float, rate: float, steps: int) -> float:
    """Return mu of one step if pairs of observations are ordered with probability ``share``."""
    # Invert share = 1/2 + q (Phi(mu sqrt(steps) / sqrt(2)) - 1/2): over several steps, mu grows with their root.
    without_sampling = min(0.5 + (share - 0.5) / rate, 1 - 1e-12)
    return math.sqrt(2 / steps) * float(ndtri(without_sampling)) if without_sampling > 0.5 else 0.0


def _composed_epsilon(mu: float, rate: float, steps: int, delta: float, plan: TrainingPlan) -> float:
    """Return the epsilon of ``steps`` steps, rounded down, for the plan's unit and relation."""
    if not mu > 1e-9:
        return 0.0
    event: Event = GaussianEvent(1 / mu)
    if rate == 1:
        # mu already measures how far the two datasets' outputs are apart, whatever the relation.
        return PldAccountant().compose(event, steps).interval(delta)[0]
    # The interval's lower end: an audit rounds down, where the accountant would round up.
    accountant = PldAccountant(unit=plan.unit, relation=plan.relation)
    return accountant.compose(PoissonSampledEvent(event, rate), steps).interval(delta)[0]


def _choose_test(observations: Observations, error: float) -> _Test:
    """Return the test that contradicts the claimed curve most, on the first of every three observations."""
    curve = _claimed_curve(observations)
    largest_excess, chosen = -math.inf, _Test(0, 0.0, *curve[0])
    for statistic in range(len(STATISTICS)):
        search_in, search_out = (
            np.sort(scores[::3, statistic]) for scores in (observations.scores_in, observations.scores_out)
        )
        quantiles = np.linspace(0, 1, _NUM_THRESHOLDS)
        thresholds = np.unique(np.quantile(np.concatenate([search_in, search_out]), quantiles))
        tp, fp = (len(scores) - np.searchsorted(scores, thresholds, side="right") for scores in (search_in, search_out))
        tpr_lower = clopper_pearson(tp, len(search_in), error / 2, Side.LOWER)
        fpr_upper = clopper_pearson(fp, len(search_out), error / 2, Side.UPPER)
        # A true claim has no positive excess, except with the error's probability.
        for epsilon, delta in curve:
            excess = epsilon_at(tpr_lower, fpr_upper, delta) - epsilon
            best = int(np.argmax(excess))
            if excess[best] > largest_excess:
                largest_excess = float(excess[best])
                chosen = _Test(statistic, float(thresholds[best]), epsilon, delta)
    return chosen


def _claimed_curve(observations: Observations) -> list[tuple[float, float]]:
    """Return points (epsilon, delta) of the claimed curve."""
    accountant = observations.accountant()
    highest = max(accountant.epsilon(_MIN_DELTA), 0.0)
    # From epsilon 0 up to where delta is too small for the observations to test.
    epsilons = np.linspace(0, highest, _NUM_POINTS).tolist()
    return [(epsilon, min(accountant.delta(epsilon), 1 - 1e-9)) for epsilon in epsilons]
