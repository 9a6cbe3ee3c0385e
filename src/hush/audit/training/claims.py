"""Check whether observed steps contradict the plan's claim, without assumptions about the mechanism.

A third of the observations is searched for an event that contradicts the claim. The rest tests that event.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from hush.audit.bounds.counts import Side, clopper_pearson, epsilon_at, epsilon_from_counts
from hush.audit.bounds.result import AuditResult, Comparison, check_confidence
from hush.audit.training.observed_steps import STATISTICS, Floats, Observations
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee

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
    event, so no correction is needed. The bound holds at the delta of the chosen point; `compare_claim` compares it
    with the claim there.

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
            "num_steps": observations.num_steps,
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
