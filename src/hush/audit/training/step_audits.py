"""From observed steps to bounds: does what was seen contradict what the plan claims, and how much privacy was lost."""

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

_POINTS = 24  # of the claimed curve
_CANDIDATES = 200  # thresholds of each statistic
_LEAST_DELTA = 1e-4  # beyond which so few observations say nothing


@dataclass(frozen=True, slots=True)
class _Test:
    """A statistic beyond a threshold, and a point of the claimed curve that it may contradict."""

    statistic: int
    threshold: float
    epsilon: float
    delta: float

    def count(self, scores: Floats) -> int:
        """Return in how many observations it says that the canary is there."""
        return int((scores[:, self.statistic] > self.threshold).sum())


def audit_claim(observations: Observations, *, confidence: float = 0.95) -> AuditResult:
    """Look for a contradiction to the whole curve of (epsilon, delta) that the plan claims.

    A third of the observations chooses a statistic, a threshold and a point of the curve; the others test that one
    event, so that there is nothing left to correct for. The bound is at the delta of the point that was chosen;
    `compare_claim` compares it with the claim there.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of an observation's steps at delta.

    Assumes:
        Observations are independent (the weights stay, and noise and samples are new in every step: checked here by
        the setup; the caller's duty where the loss remembers earlier steps, or where that is what is broken). The
        canary is a unit that the claim is about (the caller's duty).

    References:
        Nasr et al. 2021 and 2023 (gradient canaries, white-box); Clopper & Pearson 1934 (the bound on both rates). The
        search along a claimed curve, on observations of its own, is this package's.
    """
    level = 1 - check_confidence(confidence)
    for name, scores in (("scores_in", observations.scores_in), ("scores_out", observations.scores_out)):
        if not len(scores) >= 20:
            raise InvalidArgument(name, len(scores), "at least 20 observations", "A third of them choose what to test")
    test = _chosen(observations, level)
    ins, outs = (each[np.arange(len(each)) % 3 > 0] for each in (observations.scores_in, observations.scores_out))
    found = epsilon_from_counts(
        test.count(ins), len(ins), test.count(outs), len(outs), delta=test.delta, confidence=confidence
    )
    return replace(
        found,
        method="Clopper-Pearson, white-box gradient canary",
        threshold_rule="statistic, threshold and delta chosen on other observations",
        details={
            **found.details,
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
    """Say whether the plan's claim about an observation's steps is consistent with what was seen, or violated.

    Guarantee:
        A true claim is called violated with a probability of at most 1 - ``confidence``.

    Assumes:
        As `audit_claim` does (the caller's duty).

    References:
        As for `audit_claim`.
    """
    found = audit_claim(observations, confidence=confidence)
    claimed = Guarantee(
        epsilon=float(found.details["claimed_epsilon"]),
        delta=found.delta,
        unit=found.unit,
        relation=found.relation,
        method="the plan, by privacy loss distributions",
    )
    return found.compare(claimed)


def audit_gaussian(
    observations: Observations, *, delta: float, num_steps: int | None = None, confidence: float = 0.95
) -> AuditResult:
    """Bound the parameter mu of the Gaussian mechanism behind the steps, and what so many steps of it cost.

    Observations with and without the canary are compared in pairs. With mu-GDP nobody orders a pair rightly with a
    probability above Phi(mu / sqrt(2)): the two orders are told apart as N(mu, 1) x N(0, 1) and N(0, 1) x N(mu, 1) are.
    On Poisson samples of rate q it is 1/2 + q (Phi(mu / sqrt(2)) - 1/2): the two orders differ by q times as much. So
    the number of pairs in order bounds mu, by one binomial bound, and there is no threshold to choose. Where a unit is
    replaced, both worlds sample one, and this does not hold: that is refused on samples.

    Args:
        observations: What was seen.
        delta: For which epsilon is stated.
        num_steps: Of how many steps; without it, those of one observation.
        confidence: Of the bound.

    Returns:
        ``mu_lower`` is of one step, before sampling; epsilon of all steps, composed by the accountant.

    Guarantee:
        With probability ``confidence``, mu_lower and epsilon_lower are at most the true values.

    Assumes:
        A step is a Gaussian mechanism, on all units or a Poisson sample, as the plan says (the plan's types are checked
        here; the caller's duty where the code does something else: `audit_claim` does not assume it). Observations are
        independent (as for `audit_claim`).

    References:
        Dong, Roth & Su 2022 (mu-GDP, its composition); Nasr et al. 2023 (GDP audits); Zhu, Dong & Wang 2022, Theorem 11
        (the sampled pair dominates). Bounding mu by pairs is this package's own.
    """
    level = 1 - check_confidence(confidence)
    total = observations.steps if num_steps is None else check_count("num_steps", num_steps)
    rate = _rate(observations)
    pairs = min(len(observations.scores_in), len(observations.scores_out))
    ordered = int((observations.scores_in[:pairs, 0] > observations.scores_out[:pairs, 0]).sum())
    low = float(clopper_pearson(ordered, pairs, level, Side.LOWER))
    lower, guess = (_mu(share, rate, observations.steps) for share in (low, ordered / (pairs + 1)))
    return AuditResult(
        epsilon=_composed(max(lower, guess), rate, total, delta, observations.plan),
        epsilon_lower=_composed(lower, rate, total, delta, observations.plan),
        confidence=confidence,
        method="pairs of a Gaussian mechanism" if rate == 1 else "pairs of a Poisson-sampled Gaussian mechanism",
        threshold_rule="no threshold",
        num_in=pairs,
        num_out=pairs,
        delta=delta,
        mu_lower=lower,
        details={"pairs": pairs, "in_order": ordered, "mu": max(lower, guess), "num_steps": total},
        assumptions=("The observed steps are independent", "A step is a Gaussian mechanism, on a sample as planned"),
        unit=observations.plan.unit,
        relation=observations.plan.relation,
    )


def _rate(observations: Observations) -> float:
    """Return the sampling rate of steps that are Gaussian mechanisms; refuse others."""
    plan = observations.plan
    if isinstance(plan.contribution, (Microbatches, Projected)) or plan.group_size > 1:
        raise Unsupported("a Gaussian audit of steps that are no plain Gaussian mechanism", "Use audit_claim")
    if isinstance(plan.sampling, Full):
        return 1.0
    if plan.relation is Relation.REPLACE:
        raise Unsupported(
            "a Gaussian audit of samples under replacement: both worlds sample their unit, so the pairs bound no mu",
            "Use audit_claim, or Full",
        )
    if isinstance(plan.sampling, Poisson) and observations.steps == 1 and plan.max_batch_size is None:
        return plan.sampling_rate
    raise Unsupported(
        f"a Gaussian audit of {observations.steps} steps with {type(plan.sampling).__name__}",
        "Use Full, or Poisson with observations of one step, or audit_claim",
    )


def _mu(share: float, rate: float, steps: int) -> float:
    """Return the mu of one step whose pairs are in order with this probability."""
    without_sampling = min(0.5 + (share - 0.5) / rate, 1 - 1e-12)
    return math.sqrt(2 / steps) * float(ndtri(without_sampling)) if without_sampling > 0.5 else 0.0


def _composed(mu: float, rate: float, steps: int, delta: float, plan: TrainingPlan) -> float:
    """Return the epsilon of so many steps, from below, for the plan's unit and relation."""
    if not mu > 1e-9:
        return 0.0
    event: Event = GaussianEvent(1 / mu)
    if rate == 1:
        # mu is what tells the two worlds apart, whatever they differ in: the same pair of Gaussians.
        return PldAccountant().compose(event, steps).interval(delta)[0]
    accountant = PldAccountant(unit=plan.unit, relation=plan.relation)
    return accountant.compose(PoissonSampledEvent(event, rate), steps).interval(delta)[0]


def _chosen(observations: Observations, level: float) -> _Test:
    """Return what contradicts the claimed curve most, by the first of every three observations."""
    curve = _curve(observations)
    best, found = -math.inf, _Test(0, 0.0, *curve[0])
    for statistic in range(len(STATISTICS)):
        ins, outs = (np.sort(each[::3, statistic]) for each in (observations.scores_in, observations.scores_out))
        thresholds = np.unique(np.quantile(np.concatenate([ins, outs]), np.linspace(0, 1, _CANDIDATES)))
        hits, alarms = (len(each) - np.searchsorted(each, thresholds, side="right") for each in (ins, outs))
        tpr = clopper_pearson(hits, len(ins), level / 2, Side.LOWER)
        fpr = clopper_pearson(alarms, len(outs), level / 2, Side.UPPER)
        for epsilon, delta in curve:
            excess = epsilon_at(tpr, fpr, delta) - epsilon
            place = int(np.argmax(excess))
            if excess[place] > best:
                best, found = float(excess[place]), _Test(statistic, float(thresholds[place]), epsilon, delta)
    return found


def _curve(observations: Observations) -> list[tuple[float, float]]:
    """Return points of the claimed curve."""
    accountant = observations.accountant()
    highest = max(accountant.epsilon(_LEAST_DELTA), 0.0)
    return [(float(each), min(accountant.delta(float(each)), 1 - 1e-9)) for each in np.linspace(0, highest, _POINTS)]
