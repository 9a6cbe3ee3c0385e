"""The ROC curve of an attack, its statistics, and bootstrap intervals.

Curves and intervals are descriptive. They prove nothing about epsilon: for that, use `audit_scores`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.result import check_confidence
from hush.audit.bounds.sample import Floats, Ints, Sample
from hush.errors import InvalidArgument, check_count, check_fraction
from hush.randomness import public_generator


@dataclass(frozen=True)
class Roc:
    """The ROC curve of an attack: true and false positives at every threshold.

    Tied scores pass the threshold together, so they make one vertex. The largest TPR - FPR, its
    `advantage`, is what some papers call privacy leakage.

    >>> curve = roc([3.0, 2.0, 1.0], [2.0, 0.0])
    >>> curve.tpr_at(0.0), curve.auc
    (0.3333333333333333, 0.75)

    Attributes:
        thresholds: Descending. The first one lies above all scores; it is infinite.
        tp: Members that score at least the threshold, ascending from 0.
        fp: Non-members that do, ascending from 0.
    """

    thresholds: Floats
    tp: Ints
    fp: Ints

    @property
    def num_in(self) -> int:
        """The number of members."""
        return int(self.tp[-1])

    @property
    def num_out(self) -> int:
        """The number of non-members."""
        return int(self.fp[-1])

    @property
    def tpr(self) -> Floats:
        """True positive rates."""
        return self.tp / self.num_in

    @property
    def fpr(self) -> Floats:
        """False positive rates."""
        return self.fp / self.num_out

    @cached_property
    def auc(self) -> float:
        """The area under the curve: how likely a member outscores a non-member, with ties counted half."""
        # The Mann-Whitney statistic: the share of pairs (member, non-member) in the right order.
        return float(_area(self.tp, self.fp)) / (self.num_in * self.num_out)

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR (Yeom et al. 2018).

        It overestimates, because the threshold is chosen on the same scores.
        """
        return float(np.max(self.tpr - self.fpr))

    def tpr_at(self, fpr: float) -> float:
        """Return the largest TPR among thresholds whose FPR is at most ``fpr``, without interpolation."""
        return float(_tpr_at(self.tp, self.fp, check_fraction("fpr", fpr)))

    def hull(self) -> Roc:
        """Return the upper concave hull: the thresholds that are best for some cost of errors."""
        vertices = _hull_vertices(self.fp, self.tp)
        return Roc(self.thresholds[vertices], self.tp[vertices], self.fp[vertices])


def roc(scores_in: ArrayLike, scores_out: ArrayLike) -> Roc:
    """Return the ROC curve of an attack.

    >>> curve = roc([3.0, 2.0, 1.0], [2.0, 0.0])
    >>> curve.tp.tolist(), curve.fp.tolist(), round(curve.auc, 4)
    ([0, 1, 2, 3, 3], [0, 0, 1, 1, 2], 0.75)

    Args:
        scores_in: Scores of members; higher means more like a member. They may be infinite, but not NaN.
        scores_out: Scores of non-members.

    Returns:
        The curve, with one vertex for each distinct score.
    """
    sample = Sample.of(scores_in, scores_out)
    ranked = sample.ranked
    # Descending distinct scores: each is a threshold at which the counts change.
    distinct = ranked[np.concatenate([[True], ranked[1:] != ranked[:-1]])][::-1]
    tp, fp = sample.counts(distinct)
    start = np.zeros(1, dtype=np.int64)
    return Roc(np.concatenate([[np.inf], distinct]), np.concatenate([start, tp]), np.concatenate([start, fp]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A statistic with a bootstrap interval.

    >>> interval = bootstrap([3.0, 2.0, 1.0], [2.0, 0.0], lambda curve: curve.auc, num_resamples=50)
    >>> interval.low <= interval.value <= interval.high
    True

    Attributes:
        value: The statistic as observed.
        low: The lower end of the interval.
        high: The upper end.
        confidence: The nominal confidence. The interval reaches it with many scores; with few, it may not.
    """

    value: float
    low: float
    high: float
    confidence: float


def bootstrap(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    statistic: Callable[[Roc], float],
    *,
    confidence: float = 0.95,
    num_resamples: int = 1000,
    rng: int | np.random.Generator = 0,
) -> Interval:
    """Return a percentile bootstrap interval of a ROC statistic. Members and non-members are resampled separately.

    The interval is approximate: its confidence is right with many scores of each class. For a perfect attack every
    resample is perfect, too, and the interval is a single point. For exact bounds use `audit_scores`.

    >>> interval = bootstrap([3.0, 2.0, 1.0], [2.0, 0.0], lambda curve: curve.auc, num_resamples=50)
    >>> interval.value, interval.confidence
    (0.75, 0.95)

    Args:
        scores_in: Scores of members; higher means more like a member.
        scores_out: Scores of non-members.
        statistic: A function of a `Roc`, such as ``lambda curve: curve.tpr_at(0.01)``.
        confidence: The nominal confidence of the interval.
        num_resamples: The number of bootstrap resamples.
        rng: Draws the resamples: a seed or a NumPy generator.

    Returns:
        The observed statistic between the two ends of its interval.

    References:
        Efron & Tibshirani 1993, Section 13.3 (percentile intervals).
    """
    if not callable(statistic):
        raise InvalidArgument("statistic", statistic, "a function of a ROC curve", "Such as lambda curve: curve.auc")
    level, count = check_confidence(confidence), check_count("num_resamples", num_resamples, minimum=2)
    curve, generator = roc(scores_in, scores_out), public_generator(rng)
    # The number of scores of each class at each distinct value. A resample is a new set of such counts.
    in_counts, out_counts = np.diff(curve.tp), np.diff(curve.fp)
    values = np.empty(count)
    for resample in range(count):
        tp, fp = (_resampled(counts, generator) for counts in (in_counts, out_counts))
        values[resample] = statistic(Roc(curve.thresholds, tp, fp))
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value=float(statistic(curve)), low=float(low), high=float(high), confidence=level)


def _resampled(counts: Ints, rng: np.random.Generator) -> Ints:
    """Draw as many scores with replacement, and return their cumulative counts from the highest score down."""
    total = int(counts.sum())
    # Only the order of scores matters to a curve, so positions in it are resampled instead of scores.
    drawn = np.repeat(np.arange(counts.size), counts)[rng.integers(0, total, total)]
    return np.concatenate([[0], np.cumsum(np.bincount(drawn, minlength=counts.size))])


def _area(tp: Ints, fp: Ints) -> float:
    # The trapezoidal rule, in floats: products of counts exceed 2^63 for large samples.
    return 0.5 * float(np.dot((tp[1:] + tp[:-1]).astype(np.float64), np.diff(fp).astype(np.float64)))


def _tpr_at(tp: Ints, fp: Ints, fpr: float) -> float:
    # The last vertex whose FPR is at most the target.
    last = int(np.searchsorted(fp / fp[-1], fpr, side="right")) - 1
    return float(tp[last] / tp[-1])


def _hull_vertices(x: Ints, y: Ints) -> NDArray[np.int64]:
    """Return the indices of the vertices of a staircase's upper concave hull, without collinear points."""
    vertices = np.arange(x.size)
    while vertices.size > 2:  # each pass drops every point on or under its neighbours' chord; few passes are needed
        step_x, step_y = np.diff(x[vertices]), np.diff(y[vertices])
        # A point is on or under its neighbours' chord if the slope before it is at most the slope after it.
        under = step_y[:-1] * step_x[1:] <= step_y[1:] * step_x[:-1]
        if not under.any():
            break
        vertices = vertices[np.concatenate([[True], ~under, [True]])]
    return vertices
