"""What an attack's scores mean: bounds beside its advantage, and the same attack on parts of the people."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.result import check_confidence
from hush.audit.bounds.roc import Auc, Interval, TprAt, bootstrap
from hush.audit.membership.signals import finite, mask
from hush.errors import InvalidArgument, check_delta, check_epsilon, check_probability
from hush.guarantee import Guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvantageBounds:
    """The largest TPR - FPR that (epsilon, delta)-DP leaves to any attack.

    Attributes:
        yeom: e^epsilon - 1 + delta, loose; above 1 it says nothing.
        tight: (e^epsilon - 1 + 2 delta) / (e^epsilon + 1), which some mechanism reaches.
    """

    yeom: float
    tight: float


def advantage_bounds(epsilon: float, delta: float = 0.0) -> AdvantageBounds:
    """Return both bounds on the advantage, to be printed beside a measured one.

    Guarantee:
        Upper bounds on TPR - FPR of every membership attack on one unit.

    Assumes:
        The release is (epsilon, delta)-DP for that unit (the caller's duty); numbers in their ranges (checked here).

    References:
        Yeom, Giacomelli, Fredrikson & Jha 2018, Theorem 1 (for delta = 0; TPR <= e^epsilon FPR + delta adds delta);
        Humphries et al. 2023, Theorem 3.1, for the tight one.

    >>> bounds = advantage_bounds(1.0)
    >>> round(bounds.yeom, 3), round(bounds.tight, 4)
    (1.718, 0.4621)
    """
    level, slack = check_epsilon("epsilon", epsilon), check_delta("delta", delta)
    loose = math.expm1(level) if level < 700 else math.inf
    return AdvantageBounds(yeom=loose + slack, tight=Guarantee(epsilon=level, delta=slack).advantage())


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """An attack on one part of the people; intervals of all parts hold together, approximately (bootstrap).

    Attributes:
        num_in: Members in it.
        num_out: Others in it.
        auc: Area under the ROC; None if either kind is missing.
        tpr: True positive rate at ``fpr``, with the threshold of the part's own; None if either kind is missing.
        fpr: The false positive rate that was asked for.
    """

    num_in: int
    num_out: int
    auc: Interval | None
    tpr: Interval | None
    fpr: float


def slices(
    scores: ArrayLike,
    member: ArrayLike,
    groups: ArrayLike,
    *,
    fpr: float = 0.01,
    confidence: float = 0.95,
    num_resamples: int = 500,
    seed: int = 0,
) -> dict[Any, Slice]:
    """Return AUC and TPR at a low FPR for each part: by class, by group, or `by_correctness`.

    An attack that is weak on average can be strong on a minority, and that is where people are hurt.

    Args:
        scores: Of an attack, one per example.
        member: Who is a member.
        groups: The part that each example belongs to: names or integers.
        fpr: At which false positive rate.
        confidence: Of all intervals together; shared equally by them (Bonferroni).
        num_resamples: Of the bootstrap, for each interval.
        seed: Of the bootstrap.
    """
    values = finite("scores", scores, dimensions=(1,))
    who, rate = mask("member", member, values.shape), check_probability("fpr", fpr)
    names = np.asarray(groups)
    if names.shape != values.shape or names.dtype.kind not in "biuUS":
        raise InvalidArgument("groups", (names.dtype.name, names.shape), "one name or integer for each score")
    each = np.unique(names)
    level = 1 - (1 - check_confidence(confidence)) / (2 * len(each))
    found: dict[Any, Slice] = {}
    for one in each:
        inside, outside = values[(names == one) & who], values[(names == one) & ~who]
        known = bool(len(inside) and len(outside))
        auc, tpr = (
            bootstrap(inside, outside, statistic, confidence=level, num_resamples=num_resamples, seed=seed)
            if known
            else None
            for statistic in (Auc(), TprAt(rate))
        )
        found[one.item()] = Slice(num_in=len(inside), num_out=len(outside), auc=auc, tpr=tpr, fpr=rate)
    return found


def by_correctness(predicted: ArrayLike, labels: ArrayLike) -> NDArray[np.str_]:
    """Return "right" or "wrong" for each example, to slice by."""
    found, true = np.asarray(predicted), np.asarray(labels)
    if found.shape != true.shape or found.ndim != 1:
        raise InvalidArgument("predicted", found.shape, "as many classes as labels")
    return np.where(found == true, "right", "wrong")
