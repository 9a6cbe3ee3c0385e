"""ClipBKD: a poisoned point whose effect survives clipping, to audit training from its final models alone."""

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
    """A point to add ``copies`` times to one of two datasets.

    >>> poison = Poison(point=np.array([0.0, 1.0]), label=1, copies=3)
    >>> poison.statistic(at_point=[[1.0, 4.0]], at_zero=[[0.5, 1.0]]).tolist()
    [3.0]

    Attributes:
        point: The features of the point.
        label: The label of the point.
        copies: How often it is added, i.e. the number of units in which the two datasets differ.
    """

    point: Floats
    label: int
    copies: int

    def statistic(self, at_point: ArrayLike, at_zero: ArrayLike) -> Floats:
        """Return the attack's statistic (f(x) - f(0)) . y for each model f.

        Args:
            at_point: The outputs of the models at the point x, [models, classes].
            at_zero: Their outputs at zero, [models, classes].

        Returns:
            One number per model; larger for models that were trained with the poison.
        """
        differences = np.asarray(at_point, dtype=np.float64) - np.asarray(at_zero, dtype=np.float64)
        # f(0) removes what a model believes without the point, such as its bias.
        return np.asarray(np.atleast_2d(differences)[:, self.label])


def clip_bkd(inputs: ArrayLike, labels: ArrayLike, *, num_classes: int, norm: float, copies: int = 1) -> Poison:
    """Return the poison of ClipBKD: the direction in which the data vary least, with the least likely label.

    The gradients of other points have almost no component in that direction. So the effect of the poison remains,
    however much its gradient is clipped.

    >>> x = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 0.01]
    >>> poison = clip_bkd(x, (x[:, 0] > 0).astype(int), num_classes=2, norm=1.0)
    >>> round(abs(float(poison.point[1])), 3)
    1.0

    Args:
        inputs: The data, [N, d]. Other shapes are flattened.
        labels: The class of each row.
        num_classes: The number of classes.
        norm: The norm of the poisoned point; use that of typical points.
        copies: How often the point will be added.

    Returns:
        The poison.

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
    _, vectors = np.linalg.eigh(centred.T @ centred)  # eigenvalues ascend: the data vary least along the first vector
    point = norm * vectors[:, 0]
    classifier = fit_softmax(x, np.eye(check_count("num_classes", num_classes))[y])
    return Poison(point=point, label=int(np.argmin(classifier.logits(point[None])[0])), copies=copies)


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
    """Bound the epsilon of one unit from models trained with and without a poison.

    Half of the models (every other one) choose the threshold, and the bound is computed on the other half. The datasets
    differ in ``copies`` units, which group privacy accounts for.

    >>> rng = np.random.default_rng(0)
    >>> with_poison, without = rng.normal(4.0, 1.0, 400), rng.normal(0.0, 1.0, 400)
    >>> audit_poisoning(with_poison, without, copies=1).epsilon_lower > 2
    True

    Args:
        statistics_in: `Poison.statistic` of models trained with the poison.
        statistics_out: The same for models trained without it.
        copies: The number of units in which the datasets differ.
        delta: The delta at which epsilon is bounded.
        confidence: The confidence of the bound.
        unit: The privacy unit that one copy stands for.
        relation: The neighbouring relation between the datasets.

    Returns:
        The bound, with the threshold in its details.

    Guarantee:
        With probability ``confidence``, epsilon_lower is at most the true epsilon of one unit at delta.

    Assumes:
        The models were trained independently, each with fresh randomness (the caller's duty).

    References:
        Jagielski, Ullman & Oprea 2020, Section 4.
    """
    error = 1 - check_confidence(confidence)
    samples = [np.asarray(values, dtype=np.float64).ravel() for values in (statistics_in, statistics_out)]
    for name, values in zip(("statistics_in", "statistics_out"), samples, strict=True):
        if len(values) < 4 or not bool(np.isfinite(values).all()):
            raise InvalidArgument(name, len(values), "finite statistics of at least four models")
    search_halves, fresh_halves = [values[::2] for values in samples], [values[1::2] for values in samples]
    # The halves are disjoint, so the threshold is independent of the models that are counted.
    thresholds = np.unique(np.concatenate(search_halves))
    positives_in, positives_out = ((values[:, None] > thresholds).sum(0) for values in search_halves)
    # Bounds, not rates, rank the thresholds: they shun thresholds that few models reach.
    tpr_lower = clopper_pearson(positives_in, len(search_halves[0]), error / 2, Side.LOWER)
    fpr_upper = clopper_pearson(positives_out, len(search_halves[1]), error / 2, Side.UPPER)
    threshold = thresholds[int(np.argmax(epsilon_at(tpr_lower, fpr_upper, delta)))]
    tp, fp = (int((values > threshold).sum()) for values in fresh_halves)
    result = epsilon_from_counts(
        tp,
        len(fresh_halves[0]),
        fp,
        len(fresh_halves[1]),
        delta=delta,
        confidence=confidence,
        group_size=copies,
        unit=unit,
        relation=relation,
    )
    return replace(
        result,
        method="Clopper-Pearson, ClipBKD poisoning",
        threshold_rule="chosen on every other model",
        details={**result.details, "threshold": float(threshold)},
    )
