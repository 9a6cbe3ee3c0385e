"""The ROC of an attack: counts at every threshold, its hull, what is read off it, and how sure that is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hush.audit.bounds.result import check_confidence
from hush.audit.bounds.sample import Floats, Ints, Sample
from hush.errors import check_count, check_fraction, check_instance


@dataclass(frozen=True)
class Roc:
    """How many members and others score at least each threshold, from nobody to everybody.

    Scores that tie are accused together: they make one vertex.

    Attributes:
        thresholds: Descending; the first is above all scores (infinity, also where scores are infinite).
        tp: Members accused, ascending.
        fp: Others accused, ascending.
    """

    thresholds: Floats
    tp: Ints
    fp: Ints

    @property
    def num_in(self) -> int:
        """How many members."""
        return int(self.tp[-1])

    @property
    def num_out(self) -> int:
        """How many others."""
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
        """The chance that a member scores above another, ties counted half: the area under the vertices."""
        return float(_area(self.tp, self.fp)) / (self.num_in * self.num_out)

    @property
    def advantage(self) -> float:
        """The largest TPR - FPR (Yeom et al. 2018). Chosen after the fact, it is above 0 for a useless attack, too."""
        return float(np.max(self.tpr - self.fpr))

    def tpr_at(self, fpr: float) -> float:
        """Return the largest TPR of a threshold whose FPR is at most ``fpr``; nothing is interpolated."""
        return float(_tpr_at(self.tp, self.fp, check_fraction("fpr", fpr)))

    def hull(self) -> Roc:
        """Return the vertices of the upper concave hull: the thresholds that are best at some trade-off."""
        keep = _hull(self.fp, self.tp)
        return Roc(self.thresholds[keep], self.tp[keep], self.fp[keep])


def roc(scores_in: ArrayLike, scores_out: ArrayLike) -> Roc:
    """Return the ROC of two samples of scores, higher for members.

    >>> curve = roc([3.0, 2.0, 1.0], [2.0, 0.0])
    >>> curve.tp.tolist(), curve.fp.tolist(), round(curve.auc, 4)
    ([0, 1, 2, 3, 3], [0, 0, 1, 1, 2], 0.75)
    """
    sample = Sample.of(scores_in, scores_out)
    ranked = sample.ranked
    distinct = ranked[np.concatenate([[True], ranked[1:] != ranked[:-1]])][::-1]
    tp, fp = sample.counts(distinct)
    start = np.zeros(1, dtype=np.int64)
    return Roc(np.concatenate([[np.inf], distinct]), np.concatenate([start, tp]), np.concatenate([start, fp]))


class RocStatistic(ABC):
    """What can be read off a ROC, and has a bootstrap interval."""

    @abstractmethod
    def of_counts(self, tp: Ints, fp: Ints) -> float:
        """Evaluate it on cumulated counts."""


@dataclass(frozen=True, slots=True)
class Auc(RocStatistic):
    """The area under the ROC."""

    def of_counts(self, tp: Ints, fp: Ints) -> float:
        """Evaluate it."""
        return float(_area(tp, fp)) / (int(tp[-1]) * int(fp[-1]))


@dataclass(frozen=True, slots=True)
class TprAt(RocStatistic):
    """The largest TPR at an FPR of at most so much."""

    fpr: float

    def __post_init__(self) -> None:
        check_fraction("fpr", self.fpr)

    def of_counts(self, tp: Ints, fp: Ints) -> float:
        """Evaluate it."""
        return float(_tpr_at(tp, fp, self.fpr))


@dataclass(frozen=True, slots=True)
class Advantage(RocStatistic):
    """The largest TPR - FPR."""

    def of_counts(self, tp: Ints, fp: Ints) -> float:
        """Evaluate it."""
        return float(np.max(tp / tp[-1] - fp / fp[-1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A statistic between two bounds.

    Attributes:
        value: As observed.
        low: Lower bound.
        high: Upper bound.
        confidence: Nominal: the bootstrap reaches it for many scores, and promises nothing for few.
    """

    value: float
    low: float
    high: float
    confidence: float


def bootstrap(
    scores_in: ArrayLike,
    scores_out: ArrayLike,
    statistic: RocStatistic,
    *,
    confidence: float = 0.95,
    num_resamples: int = 1000,
    seed: int = 0,
) -> Interval:
    """Return a percentile interval of a statistic, from members and others resampled apart.

    Approximate: its confidence is right for many scores of each kind. Of a perfect attack all resamples are perfect,
    and the interval is a point; for what is certain use `audit_scores` or `clopper_pearson`.

    Args:
        scores_in: Of members.
        scores_out: Of others.
        statistic: `Auc`, `TprAt` or `Advantage`.
        confidence: Nominal.
        num_resamples: How many.
        seed: Of the resampling.

    References:
        Efron & Tibshirani 1993, Section 13.3 (percentile intervals).
    """
    check_instance("statistic", statistic, RocStatistic, "Use Auc(), TprAt(fpr) or Advantage()")
    level, count = check_confidence(confidence), check_count("num_resamples", num_resamples, minimum=2)
    curve, rng = roc(scores_in, scores_out), np.random.default_rng(check_count("seed", seed, minimum=0))
    # How many of each kind are at each distinct score: a resample is a new set of such counts.
    members, others = np.diff(curve.tp), np.diff(curve.fp)
    values = np.empty(count)
    for place in range(count):
        tp, fp = (_resampled(counts, rng) for counts in (members, others))
        values[place] = statistic.of_counts(tp, fp)
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    observed = statistic.of_counts(curve.tp, curve.fp)
    return Interval(value=observed, low=float(low), high=float(high), confidence=level)


def _resampled(counts: Ints, rng: np.random.Generator) -> Ints:
    """Draw as many again, with replacement, and cumulate them from the top."""
    total = int(counts.sum())
    drawn = np.repeat(np.arange(counts.size), counts)[rng.integers(0, total, total)]
    return np.concatenate([[0], np.cumsum(np.bincount(drawn, minlength=counts.size))])


def _area(tp: Ints, fp: Ints) -> float:
    # In floats: products of counts pass 2^63 for large samples.
    return 0.5 * float(np.dot((tp[1:] + tp[:-1]).astype(np.float64), np.diff(fp).astype(np.float64)))


def _tpr_at(tp: Ints, fp: Ints, fpr: float) -> float:
    last = int(np.searchsorted(fp / fp[-1], fpr, side="right")) - 1
    return float(tp[last] / tp[-1])


def _hull(x: Ints, y: Ints) -> NDArray[np.int64]:
    """Return which points of an ascending staircase are on its upper concave hull, collinear ones left out."""
    keep = np.arange(x.size)
    while keep.size > 2:  # each pass drops every point under its neighbours' chord; few passes are needed
        step_x, step_y = np.diff(x[keep]), np.diff(y[keep])
        under = step_y[:-1] * step_x[1:] <= step_y[1:] * step_x[:-1]
        if not under.any():
            break
        keep = keep[np.concatenate([[True], ~under, [True]])]
    return keep
