"""Epsilon from counts: how often an attack accused members, and how often others."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from hush.audit.bounds.result import AuditResult, check_confidence
from hush.errors import InvalidArgument, check_count, check_delta, check_instance
from hush.guarantee import Guarantee, Relation, Unit

Floats = NDArray[np.float64]

INDEPENDENT = "The scores are independent: each from a run, or a release, of its own"
BEFOREHAND = "The threshold was fixed before the scores were seen"
_STEPS = 200


class Side(Enum):
    """Which end of a confidence interval."""

    LOWER = "lower"
    UPPER = "upper"


def clopper_pearson(count: ArrayLike, total: ArrayLike, significance: float, side: Side) -> Floats:
    """Return a one-sided bound on a probability from ``count`` successes in ``total`` trials.

    The lower bound is Beta^-1(a; k, n - k + 1), 0 for k = 0; the upper bound Beta^-1(1 - a; k + 1, n - k), 1 for k = n.
    Both miss with probability at most ``significance`` for every n and every probability.

    >>> float(clopper_pearson(500, 500, 0.005, Side.LOWER).round(5))
    0.98946

    Args:
        count: Successes, one or many.
        total: Trials, as many or one for all.
        significance: With which probability the bound may miss, in (0, 1).
        side: Which bound.

    References:
        Clopper & Pearson 1934.
    """
    check_instance("side", side, Side, "Use Side.LOWER or Side.UPPER")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    successes, trials = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(total, np.float64))
    if not bool(np.all((successes >= 0) & (successes <= trials) & (trials >= 1))):
        raise InvalidArgument("count", count, "numbers between 0 and the number of trials, which is 1 at least")
    failures = trials - successes
    if side is Side.LOWER:
        low = betaincinv(np.maximum(successes, 1), failures + 1, significance)
        return np.asarray(np.where(successes > 0, low, 0.0))
    # The complement's inverse: 1 - significance would lose the digits of a small one.
    high = betainccinv(successes + 1, np.maximum(failures, 1), significance)
    return np.asarray(np.where(failures > 0, high, 1.0))


def epsilon_at(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    """Return the least epsilon at which both rates are possible: the larger of both rules, 0 at least.

    ln((TPR - delta) / FPR) and ln((TNR - delta) / FNR). It grows with TPR and falls with FPR, so that a lower bound on
    the one and an upper bound on the other give a lower bound by *both* rules, on one and the same event.
    """
    return np.asarray(np.maximum(unclipped(tpr, fpr, delta), 0.0))


def unclipped(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    """Return the same, below 0 where the rates show nothing: for comparing thresholds."""
    true, false = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        accusing = np.log(np.maximum(true - delta, 0.0)) - np.log(false)
        clearing = np.log(np.maximum(1 - false - delta, 0.0)) - np.log1p(-true)
    # Of a rule that accuses, or clears, nobody at all, nothing can be said: NaN there, and the other rule counts.
    return np.asarray(np.nan_to_num(np.fmax(accusing, clearing), nan=-np.inf, posinf=np.inf, neginf=-np.inf))


def epsilon_from_counts(
    tp: int,
    num_in: int,
    fp: int,
    num_out: int,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    group_size: int = 1,
    num_trials: int = 1,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound epsilon from the counts of one test that was fixed beforehand.

    >>> result = epsilon_from_counts(500, 500, 0, 500, confidence=0.99)
    >>> round(result.epsilon_lower, 6)
    4.541916

    Args:
        tp: Members that the test accused.
        num_in: Members.
        fp: Non-members that it accused.
        num_out: Non-members.
        delta: At which epsilon is meant.
        confidence: Of the bound; each of both rates gets half of what may fail.
        group_size: In how many units the two worlds differ (a poisoned point repeated k times: k). The bound is for
            one unit, by group privacy.
        num_trials: How many audits were, or could have been, made of which this is the most telling.
        unit: What the two worlds differ in.
        relation: How they differ.

    Returns:
        The bound; the point estimate has the rates as observed.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``.

    Assumes:
        Independent trials in both worlds (the caller's duty). A test that does not depend on the scores that are
        counted (the caller's duty). ``num_trials`` counts every audit that was looked at (the caller's duty).

    References:
        Jagielski, Ullman & Oprea 2020, Section 4 (the bound); Kairouz, Oh & Viswanath 2015, Theorem 2.1 (both rules).
    """
    counts = [check_count(n, v, minimum=0) for n, v in (("tp", tp), ("fp", fp))]
    sizes = [check_count(n, v) for n, v in (("num_in", num_in), ("num_out", num_out))]
    for name, count, size in zip(("tp", "fp"), counts, sizes, strict=True):
        if count > size:
            raise InvalidArgument(name, count, "at most as many as there are trials")
    check_instance("unit", unit, Unit)
    check_instance("relation", relation, Relation)
    delta, group = check_delta("delta", delta), check_count("group_size", group_size)
    error = (1 - check_confidence(confidence)) / check_count("num_trials", num_trials)
    tpr_low = float(clopper_pearson(counts[0], sizes[0], error / 2, Side.LOWER))
    fpr_high = float(clopper_pearson(counts[1], sizes[1], error / 2, Side.UPPER))
    rates = counts[0] / sizes[0], counts[1] / sizes[1]
    return AuditResult(
        epsilon=_per_unit(*rates, delta, group),
        epsilon_lower=_per_unit(tpr_low, fpr_high, delta, group),
        confidence=confidence,
        method="Clopper-Pearson",
        threshold_rule="a test fixed beforehand",
        num_in=sizes[0],
        num_out=sizes[1],
        delta=delta,
        details={
            "tp": counts[0],
            "fp": counts[1],
            "tpr_lower": tpr_low,
            "fpr_upper": fpr_high,
            "group_size": group,
            "num_trials": num_trials,
        },
        assumptions=(INDEPENDENT, "The test was fixed before the trials"),
        unit=unit,
        relation=relation,
    )


def _per_unit(tpr: float, fpr: float, delta: float, group: int) -> float:
    """Return the least epsilon of one unit at which a group of them can have these rates, from below."""
    whole = float(epsilon_at(tpr, fpr, delta))
    if group == 1 or whole in (0.0, math.inf):
        return whole
    if delta == 0:
        return whole / group

    # delta of a group grows with epsilon, so the least epsilon is between 0 and what delta = 0 would give.
    low, high = 0.0, float(epsilon_at(tpr, fpr, 0.0)) / group
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if not _possible(tpr, fpr, middle, delta, group) else (low, middle)
        if not low < 0.5 * (low + high) < high:
            break
    return low


def _possible(tpr: float, fpr: float, epsilon: float, delta: float, group: int) -> bool:
    """Whether a group of units that are (epsilon, delta)-private allows these rates."""
    claim: Any = Guarantee(epsilon=epsilon, delta=delta)
    try:
        together = claim.for_group(group)
    except InvalidArgument:  # the group's delta reached 1: anything is possible
        return True
    return bool(epsilon_at(tpr, fpr, together.delta) <= together.epsilon)
