"""ClipBKD: a poisoned point that survives clipping, to audit a training procedure from its models alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.counts import Side, clopper_pearson, epsilon_at, epsilon_from_counts
from hush.audit.bounds.result import AuditResult, check_confidence
from hush.audit.softmax import fit_softmax
from hush.errors import InvalidArgument, check_count, check_positive
from hush.guarantee import Relation, Unit

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Poison:
    """A point to add ``copies`` times to the data of one world.

    Attributes:
        point: Its features.
        label: Its label.
        copies: How often it is added: as many units the two worlds differ in.
    """

    point: Floats
    label: int
    copies: int

    def statistic(self, at_point: ArrayLike, at_zero: ArrayLike) -> Floats:
        """Return (f(x) - f(0)) . y for the outputs of models at the point and at zero, [models, classes]."""
        found = np.asarray(at_point, dtype=np.float64) - np.asarray(at_zero, dtype=np.float64)
        return np.asarray(np.atleast_2d(found)[:, self.label])


def clip_bkd(inputs: ArrayLike, labels: ArrayLike, *, num_classes: int, norm: float, copies: int = 1) -> Poison:
    """Return the poison of ClipBKD: the direction in which the data vary least, with the least likely label.

    Gradients of other points have little to say in that direction, so that what the poison does there stays, however
    short its gradient is clipped.

    Args:
        inputs: The data, [N, d]; other shapes are flattened.
        labels: Their classes.
        num_classes: How many there are.
        norm: Of the poisoned point: that of ordinary points.
        copies: How often it will be added.

    References:
        Jagielski, Ullman & Oprea 2020, Algorithm 2 (the last principal component; the least likely label of a logistic
        regression).
    """
    x = np.asarray(inputs, dtype=np.float64).reshape(len(np.asarray(inputs)), -1)
    y = np.asarray(labels, dtype=np.int64)
    if len(x) != len(y) or len(x) < 2 or not bool(np.isfinite(x).all()):
        raise InvalidArgument("inputs", x.shape, "at least two rows of finite numbers, with a label each")
    check_positive("norm", norm)
    check_count("copies", copies)
    centred = x - x.mean(0)
    _, vectors = np.linalg.eigh(centred.T @ centred)  # ascending: the first varies least
    point = norm * vectors[:, 0]
    fitted = fit_softmax(x, np.eye(check_count("num_classes", num_classes))[y])
    return Poison(point=point, label=int(np.argmin(fitted.logits(point[None])[0])), copies=copies)


def audit_poisoning(
    statistics_in: ArrayLike,
    statistics_out: ArrayLike,
    *,
    copies: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    unit: Unit = Unit.example(),
    relation: Relation = Relation.ADD_OR_REMOVE,
) -> AuditResult:
    """Bound the epsilon of one unit from models that were trained with a poison and without.

    Every other model chooses the threshold; the others are counted. The worlds differ in ``copies`` units, which is
    accounted for by group privacy.

    Args:
        statistics_in: `Poison.statistic` of models trained with the poison.
        statistics_out: The same of models trained without.
        copies: In how many units the worlds differ.
        delta: At which epsilon is meant.
        confidence: Of the bound.
        unit: What one copy is.
        relation: How the worlds differ.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of one unit at delta.

    Assumes:
        Models were trained independently, with fresh randomness each (the caller's duty).

    References:
        Jagielski, Ullman & Oprea 2020, Section 4.
    """
    level = 1 - check_confidence(confidence)
    worlds = [np.asarray(each, dtype=np.float64).ravel() for each in (statistics_in, statistics_out)]
    for name, each in zip(("statistics_in", "statistics_out"), worlds, strict=True):
        if len(each) < 4 or not bool(np.isfinite(each).all()):
            raise InvalidArgument(name, len(each), "finite statistics of four models at least")
    chosen, counted = [each[::2] for each in worlds], [each[1::2] for each in worlds]
    thresholds = np.unique(np.concatenate(chosen))
    hits, alarms = ((each[:, None] > thresholds).sum(0) for each in chosen)
    tpr = clopper_pearson(hits, len(chosen[0]), level / 2, Side.LOWER)
    fpr = clopper_pearson(alarms, len(chosen[1]), level / 2, Side.UPPER)
    best = thresholds[int(np.argmax(epsilon_at(tpr, fpr, delta)))]
    tp, fp = (int((each > best).sum()) for each in counted)
    found = epsilon_from_counts(
        tp,
        len(counted[0]),
        fp,
        len(counted[1]),
        delta=delta,
        confidence=confidence,
        group_size=copies,
        unit=unit,
        relation=relation,
    )
    return replace(
        found,
        method="Clopper-Pearson, ClipBKD poisoning",
        threshold_rule="chosen on every other model",
        details={**found.details, "threshold": float(best)},
    )
