"""Binomial confidence bounds, and epsilon from the four counts of a membership test.

A test flags ``tp`` of ``num_in`` members and ``fp`` of ``num_out`` non-members. `clopper_pearson` bounds the two rates,
`epsilon_at` turns rates into epsilon, and `epsilon_from_counts` does both for a test that was fixed beforehand.
`rates.py` uses the same parts to search over thresholds.
"""

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

INDEPENDENT = "The scores are independent: each comes from its own run or release"
BEFOREHAND = "The threshold was fixed before the scores were seen"
_MAX_BISECTIONS = 200  # far more than the 64 or so that take a float to its neighbour


class Side(Enum):
    """One end of a confidence interval.

    >>> float(clopper_pearson(0, 10, 0.05, Side.LOWER)), float(clopper_pearson(10, 10, 0.05, Side.UPPER))
    (0.0, 1.0)
    """

    LOWER = "lower"
    UPPER = "upper"


def clopper_pearson(count: ArrayLike, total: ArrayLike, significance: float, side: Side) -> Floats:
    """Return a one-sided confidence bound on a probability from ``count`` successes in ``total`` trials.

    With k = ``count``, n = ``total`` and a = ``significance``, the lower bound is the a-quantile of Beta(k, n - k + 1),
    or 0 if k = 0. The upper bound is the (1 - a)-quantile of Beta(k + 1, n - k), or 1 if k = n. Each bound misses the
    true probability with probability at most a, for every n and every probability.

    >>> float(clopper_pearson(500, 500, 0.005, Side.LOWER).round(5))
    0.98946

    Args:
        count: The number of successes: a number or an array.
        total: The number of trials: a number or an array that broadcasts against ``count``.
        significance: The probability with which the bound may miss, in (0, 1).
        side: `Side.LOWER` or `Side.UPPER`.

    Returns:
        The bounds, in the common shape of ``count`` and ``total``.

    References:
        Clopper & Pearson 1934.
    """
    check_instance("side", side, Side, "Use Side.LOWER or Side.UPPER")
    if not 0 < significance < 1:
        raise InvalidArgument("significance", significance, "a number in (0, 1)")
    successes, trials = np.broadcast_arrays(np.asarray(count, np.float64), np.asarray(total, np.float64))
    if not bool(np.all((successes >= 0) & (successes <= trials) & (trials >= 1))):
        raise InvalidArgument("count", count, "numbers between 0 and the number of trials, which must be at least 1")
    failures = trials - successes
    if side is Side.LOWER:
        # P[Binomial(n, p) >= k] = I_p(k, n - k + 1), the regularised beta function. The bound solves it for p.
        low = betaincinv(np.maximum(successes, 1), failures + 1, significance)
        return np.asarray(np.where(successes > 0, low, 0.0))
    # The inverse of the complement: computing 1 - significance would lose the digits of a small significance.
    high = betainccinv(successes + 1, np.maximum(failures, 1), significance)
    return np.asarray(np.where(failures > 0, high, 1.0))


def epsilon_at(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    """Return the smallest epsilon that allows a test with these rates, at least 0.

    An (epsilon, delta)-private mechanism satisfies TPR <= e^epsilon FPR + delta and TNR <= e^epsilon FNR + delta. So
    epsilon is at least ln((TPR - delta) / FPR) and at least ln((TNR - delta) / FNR). The larger of the two is returned.
    It grows with TPR and falls with FPR: a lower bound on TPR and an upper bound on FPR give a lower bound on epsilon
    by both inequalities at once, without splitting the error probability between them.
    """
    return np.asarray(np.maximum(signed_epsilon_at(tpr, fpr, delta), 0.0))


def signed_epsilon_at(tpr: ArrayLike, fpr: ArrayLike, delta: float) -> Floats:
    """Return `epsilon_at` without the floor at 0: negative values still rank thresholds that show no leakage."""
    true_rate, false_rate = np.asarray(tpr, np.float64), np.asarray(fpr, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        # TPR <= e^epsilon FPR + delta, and the same for the test that flags the others: TNR <= e^epsilon FNR + delta.
        by_positives = np.log(np.maximum(true_rate - delta, 0.0)) - np.log(false_rate)
        by_negatives = np.log(np.maximum(1 - false_rate - delta, 0.0)) - np.log1p(-true_rate)
    # A test that flags no record, or every record, makes one ratio 0 / 0, i.e. NaN: fmax then takes the other one.
    return np.asarray(np.nan_to_num(np.fmax(by_positives, by_negatives), nan=-np.inf, posinf=np.inf, neginf=-np.inf))


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
    """Bound epsilon from the counts of one membership test that was fixed beforehand.

    >>> result = epsilon_from_counts(500, 500, 0, 500, confidence=0.99)
    >>> round(result.epsilon_lower, 6)
    4.541916

    Args:
        tp: True positives: members that the test flagged.
        num_in: The number of members.
        fp: False positives: non-members that the test flagged.
        num_out: The number of non-members.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound. Each of the two rates gets half of the error probability.
        group_size: The number of units in which the two datasets differ, e.g. k if a poisoned point is repeated k
            times. The bound is for a single unit, by group privacy.
        num_trials: The number of audits you made, or could have made, before picking this one. The error probability
            is divided by it.
        unit: The privacy unit in which the two datasets differ.
        relation: The neighbouring relation between them.

    Returns:
        The bound. Its point estimate uses the rates as observed.

    Guarantee:
        With probability ``confidence`` the true epsilon at ``delta`` is at least ``epsilon_lower``.

    Assumes:
        Independent trials on both datasets (the caller's duty). A test that does not depend on the scores it is counted
        on (the caller's duty). ``num_trials`` counts every audit you looked at (the caller's duty).

    References:
        Jagielski, Ullman & Oprea 2020, Section 4 (the bound); Kairouz, Oh & Viswanath 2015, Theorem 2.1 (the two
        inequalities).
    """
    counts = [check_count(name, value, minimum=0) for name, value in (("tp", tp), ("fp", fp))]
    sizes = [check_count(name, value) for name, value in (("num_in", num_in), ("num_out", num_out))]
    for name, count, size in zip(("tp", "fp"), counts, sizes, strict=True):
        if count > size:
            raise InvalidArgument(name, count, "at most the number of trials")
    check_instance("unit", unit, Unit)
    check_instance("relation", relation, Relation)
    delta, group_size = check_delta("delta", delta), check_count("group_size", group_size)
    error = (1 - check_confidence(confidence)) / check_count("num_trials", num_trials)
    # Bonferroni: both rate bounds hold together with probability 1 - error.
    tpr_lower = float(clopper_pearson(counts[0], sizes[0], error / 2, Side.LOWER))
    fpr_upper = float(clopper_pearson(counts[1], sizes[1], error / 2, Side.UPPER))
    observed = counts[0] / sizes[0], counts[1] / sizes[1]
    return AuditResult(
        epsilon=_epsilon_per_unit(*observed, delta, group_size),
        epsilon_lower=_epsilon_per_unit(tpr_lower, fpr_upper, delta, group_size),
        confidence=confidence,
        method="Clopper-Pearson",
        threshold_rule="a test fixed beforehand",
        num_in=sizes[0],
        num_out=sizes[1],
        delta=delta,
        details={
            "tp": counts[0],
            "fp": counts[1],
            "tpr_lower": tpr_lower,
            "fpr_upper": fpr_upper,
            "group_size": group_size,
            "num_trials": num_trials,
        },
        assumptions=(INDEPENDENT, "The test was fixed before the trials"),
        unit=unit,
        relation=relation,
    )


def _epsilon_per_unit(tpr: float, fpr: float, delta: float, group_size: int) -> float:
    """Return, from below, the smallest epsilon of one unit at which a group of units allows these rates."""
    # k units: (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)) (Dwork & Roth 2014, Section 2.3).
    group_epsilon = float(epsilon_at(tpr, fpr, delta))
    if group_size == 1 or group_epsilon in (0.0, math.inf):
        return group_epsilon
    if delta == 0:
        return group_epsilon / group_size  # pure epsilons add up

    # The group's delta grows with epsilon, so the answer lies between 0 and the answer for delta = 0. Bisect for it.
    low, high = 0.0, float(epsilon_at(tpr, fpr, 0.0)) / group_size
    for _ in range(_MAX_BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if not _allows(tpr, fpr, middle, delta, group_size) else (low, middle)
        if not low < 0.5 * (low + high) < high:
            break
    return low


def _allows(tpr: float, fpr: float, epsilon: float, delta: float, group_size: int) -> bool:
    """Whether a mechanism that is (epsilon, delta)-private per unit allows these rates for a group of units."""
    claim: Any = Guarantee(epsilon=epsilon, delta=delta)
    try:
        group_claim = claim.for_group(group_size)
    except InvalidArgument:  # the group's delta reaches 1, so every pair of rates is allowed
        return True
    return bool(epsilon_at(tpr, fpr, group_claim.delta) <= group_claim.epsilon)
