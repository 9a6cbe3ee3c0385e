"""Methods that need bounds on two rates only: Clopper-Pearson and Gaussian differential privacy."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hush.audit.bounds.counts import INDEPENDENT, Side, clopper_pearson, unclipped
from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.method import BoundMethod, Level, MethodBound
from hush.audit.bounds.sample import Floats, Ints, Sample, ladder
from hush.errors import InvalidArgument


@dataclass(frozen=True)
class Rates:
    """Counts at thresholds, and what they leave possible: the least TPR and the largest FPR."""

    thresholds: Floats
    tp: Ints
    fp: Ints
    tpr_lower: Floats
    fpr_upper: Floats


class RateMethod(BoundMethod):
    """A method that turns a TPR and an FPR into a number that grows with the one and falls with the other."""

    assumptions: tuple[str, ...] = (INDEPENDENT,)

    @abstractmethod
    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return by how much each pair of rates speaks; negative where it says nothing."""

    @abstractmethod
    def epsilon(self, strength: float, level: Level) -> float:
        """Return the epsilon of a strength."""

    def at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Bound both rates at the threshold, each with half of what may fail."""
        return self._best(sample, _pointwise(sample, np.array([threshold]), level.error), level)

    def everywhere(self, sample: Sample, level: Level) -> MethodBound:
        """Bound both rates at all thresholds at once."""
        return self._best(sample, _bands(sample, sample.candidates(), level.error), level)

    def choose(self, sample: Sample, level: Level) -> float:
        """Return the threshold with the best bound, uncorrected."""
        rates = _pointwise(sample, sample.candidates(), level.error)
        return float(rates.thresholds[np.argmax(self.strength(rates.tpr_lower, rates.fpr_upper, level))])

    def _best(self, sample: Sample, rates: Rates, level: Level) -> MethodBound:
        strengths = self.strength(rates.tpr_lower, rates.fpr_upper, level)
        best = int(np.argmax(strengths))
        observed = rates.tp[best : best + 1] / sample.num_in, rates.fp[best : best + 1] / sample.num_out
        return MethodBound(
            lower=self.epsilon(float(strengths[best]), level),
            point=self.epsilon(float(self.strength(*observed, level)[0]), level),
            num_in=sample.num_in,
            num_out=sample.num_out,
            mu_lower=self.mu(float(strengths[best])),
            details={
                "threshold": float(rates.thresholds[best]),
                "tp": int(rates.tp[best]),
                "fp": int(rates.fp[best]),
                "tpr_lower": float(rates.tpr_lower[best]),
                "fpr_upper": float(rates.fpr_upper[best]),
            },
        )

    def mu(self, strength: float) -> float | None:
        """Return the parameter of Gaussian differential privacy, if that is what the strength is."""
        return None


@dataclass(frozen=True, slots=True)
class ClopperPearson(RateMethod):
    """Exact binomial bounds on both rates, and what (epsilon, delta) must allow them.

    Guarantee:
        A lower bound on epsilon at any delta, for every mechanism. It cannot exceed about ln(n / 3.7) with n scores of
        each kind, however bad the leak.

    Assumes:
        Independent scores (the caller's duty): several canaries of one training run are not; see `OneRun`.

    References:
        Jagielski, Ullman & Oprea 2020; Clopper & Pearson 1934. Both rules of Kairouz, Oh & Viswanath 2015 are read
        off the same two bounds (FNR is 1 - TPR), so that the second costs nothing.
    """

    description = "Clopper-Pearson"

    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return the larger of both rules."""
        return unclipped(tpr, fpr, level.delta)

    def epsilon(self, strength: float, level: Level) -> float:
        """Return it, or 0."""
        return max(strength, 0.0)


@dataclass(frozen=True, slots=True)
class GaussianDP(RateMethod):
    """The distance of two Gaussians with these error rates, and the epsilon that it has at delta.

    mu >= Phi^-1(1 - FPR) - Phi^-1(FNR). Much tighter than `ClopperPearson` (309 errors among 1,000 scores of each kind
    show epsilon 3.54 at 1e-5, where that shows 0.67), because it *assumes* the rest of the curve.

    Guarantee:
        A lower bound on mu, and by it on epsilon at a positive delta.

    Assumes:
        A Gaussian trade-off curve (the caller's duty): Gaussian noise on one full-batch step or sum, seen whole. Of
        sampled training it is at best an approximation. Independent scores (the caller's duty).

    References:
        Dong, Roth & Su 2022, Corollary 2.13; Nasr et al. 2023, Section 4.3.
    """

    description = "Gaussian differential privacy"
    assumptions = (INDEPENDENT, "The mechanism's trade-off curve is that of Gaussian noise")

    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return mu; where both rates are 0, or both 1, nothing."""
        if not level.delta > 0:
            raise InvalidArgument("delta", level.delta, "a number in (0, 1)", "Gaussian noise has no pure epsilon")
        with np.errstate(invalid="ignore"):
            return np.asarray(np.nan_to_num(ndtri(tpr) - ndtri(fpr), nan=0.0, posinf=np.inf, neginf=-np.inf))

    def epsilon(self, strength: float, level: Level) -> float:
        """Return the epsilon of mu."""
        return math.inf if strength == math.inf else gdp_epsilon(max(strength, 0.0), level.delta)

    def mu(self, strength: float) -> float | None:
        """Return it, or 0."""
        return max(strength, 0.0)


def _pointwise(sample: Sample, thresholds: Floats, error: float) -> Rates:
    tp, fp = sample.counts(thresholds)
    return Rates(
        thresholds,
        tp,
        fp,
        clopper_pearson(tp, sample.num_in, error / 2, Side.LOWER),
        clopper_pearson(fp, sample.num_out, error / 2, Side.UPPER),
    )


def _bands(sample: Sample, thresholds: Floats, error: float) -> Rates:
    """Bound both rates at all thresholds, with half of what may fail for each.

    With c false accusations or fewer, a threshold is above the (c + 1)-th largest score of the others. At that one, the
    rate is at most the quantile of a Beta law that Clopper and Pearson's bound at c is, for c fixed beforehand. So
    counts are rounded up to a ladder that the data has no part in, and what may fail is divided by its rungs.
    """
    tp, fp = sample.counts(thresholds)
    misses, accused = ladder(sample.num_in), ladder(sample.num_out)
    missed = misses[np.searchsorted(misses, sample.num_in - tp)]
    blamed = accused[np.searchsorted(accused, fp)]
    # The last rung is everybody: its bound is 1 and cannot fail.
    hit_error, blame_error = error / 2 / max(len(misses) - 1, 1), error / 2 / max(len(accused) - 1, 1)
    tpr = clopper_pearson(sample.num_in - missed, sample.num_in, hit_error, Side.LOWER)
    fpr = clopper_pearson(blamed, sample.num_out, blame_error, Side.UPPER)
    return Rates(thresholds, tp, fp, tpr, fpr)
