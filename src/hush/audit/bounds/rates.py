"""Methods that need only bounds on two rates: `ClopperPearson` and `GaussianDP`.

A `RateMethod` maps a true positive rate and a false positive rate to a strength: a number that grows with TPR and
falls with FPR. Confidence bounds on the rates then give a confidence bound on the strength. The rates are bounded
either at one threshold (`_rates_at`) or at all thresholds at once (`_rates_everywhere`).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from hush.audit.bounds.counts import INDEPENDENT, Side, clopper_pearson, signed_epsilon_at
from hush.audit.bounds.gaussian import gdp_epsilon
from hush.audit.bounds.method import BoundMethod, Level, MethodBound
from hush.audit.bounds.sample import Floats, Ints, Sample, ladder
from hush.errors import InvalidArgument


@dataclass(frozen=True)
class Rates:
    """Counts at several thresholds, and confidence bounds on the rates behind them.

    Attributes:
        thresholds: The thresholds; all other arrays have their length.
        tp: Members that score at least the threshold.
        fp: Non-members that do.
        tpr_lower: Lower bounds on the true positive rates.
        fpr_upper: Upper bounds on the false positive rates.
    """

    thresholds: Floats
    tp: Ints
    fp: Ints
    tpr_lower: Floats
    fpr_upper: Floats


class RateMethod(BoundMethod):
    """A method whose bound is a monotone function of TPR and FPR."""

    assumptions: tuple[str, ...] = (INDEPENDENT,)

    @abstractmethod
    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return a number that grows with TPR and falls with FPR; negative if the rates show nothing."""

    @abstractmethod
    def epsilon(self, strength: float, level: Level) -> float:
        """Return the epsilon that a strength implies."""

    def mu(self, strength: float) -> float | None:
        """Return mu of Gaussian differential privacy if the strength is one, else None."""
        return None

    def bound_at(self, sample: Sample, threshold: float, level: Level) -> MethodBound:
        """Bound the two rates at the threshold, each with half of the error probability."""
        return self._best(sample, _rates_at(sample, np.array([threshold]), level.error), level)

    def bound_at_best(self, sample: Sample, level: Level) -> MethodBound:
        """Bound the two rates at all thresholds at once and take the best."""
        return self._best(sample, _rates_everywhere(sample, sample.candidates(), level.error), level)

    def choose_threshold(self, sample: Sample, level: Level) -> float:
        """Return the threshold with the best uncorrected bound."""
        rates = _rates_at(sample, sample.candidates(), level.error)
        return float(rates.thresholds[np.argmax(self.strength(rates.tpr_lower, rates.fpr_upper, level))])

    def _best(self, sample: Sample, rates: Rates, level: Level) -> MethodBound:
        # Strength grows with TPR and falls with FPR, so bounds on the rates give a lower bound on the strength.
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


@dataclass(frozen=True, slots=True)
class ClopperPearson(RateMethod):
    """Exact binomial bounds on the two rates, and the smallest epsilon that allows them. Valid for every mechanism.

    epsilon >= max(ln((TPR - delta) / FPR), ln((TNR - delta) / FNR)). The bound cannot exceed about ln(n / 3.7) with n
    scores of each class, however large the leak: n observations cannot show more.

    >>> from hush.audit import Explicit, audit_scores
    >>> result = audit_scores([1.0] * 1000, [0.0] * 1000, method=ClopperPearson(), threshold=Explicit(0.5))
    >>> round(result.epsilon_lower, 3)
    5.601

    Guarantee:
        A lower confidence bound on epsilon at any delta, for every mechanism.

    Assumes:
        Independent scores (the caller's duty). Scores of several canaries in one training run are not independent; use
        `OneRun` for those.

    References:
        Jagielski, Ullman & Oprea 2020; Clopper & Pearson 1934. Both inequalities of Kairouz, Oh & Viswanath 2015 are
        read off the same two bounds (FNR is 1 - TPR), so the second one costs nothing.
    """

    description = "Clopper-Pearson"

    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return epsilon by the stronger inequality, negative if the rates show nothing."""
        # Both logarithms grow with TPR and fall with FPR, as `RateMethod` requires.
        return signed_epsilon_at(tpr, fpr, level.delta)

    def epsilon(self, strength: float, level: Level) -> float:
        """Return the strength, at least 0."""
        return max(strength, 0.0)


@dataclass(frozen=True, slots=True)
class GaussianDP(RateMethod):
    """The distance mu between two Gaussians with these rates, and its epsilon at delta.

    mu >= Phi^-1(1 - FPR) - Phi^-1(FNR). This is much tighter than `ClopperPearson`, because it *assumes* the rest of
    the trade-off curve from a single point of it: with 309 errors among 1,000 scores of each class it shows
    epsilon >= 3.54 at delta = 1e-5, where `ClopperPearson` shows 0.67.

    >>> from hush.audit import Explicit, audit_scores
    >>> members, others = [1.0] * 691 + [0.0] * 309, [1.0] * 309 + [0.0] * 691
    >>> result = audit_scores(members, others, delta=1e-5, method=GaussianDP(), threshold=Explicit(0.5))
    >>> round(result.mu_lower, 3), round(result.epsilon_lower, 2)
    (0.832, 3.54)

    Guarantee:
        A lower confidence bound on mu, and through it on epsilon at a positive delta.

    Assumes:
        A Gaussian trade-off curve (the caller's duty), as for Gaussian noise on one sum or one full-batch step that the
        attacker sees. For training on random batches this is an approximation at best. Independent scores (the caller's
        duty).

    References:
        Dong, Roth & Su 2022, Corollary 2.13; Nasr et al. 2023, Section 4.3.
    """

    description = "Gaussian differential privacy"
    assumptions = (INDEPENDENT, "The mechanism's trade-off curve is that of Gaussian noise")

    def strength(self, tpr: Floats, fpr: Floats, level: Level) -> Floats:
        """Return mu, or 0 if the rates are both 0 or both 1."""
        if not level.delta > 0:
            raise InvalidArgument("delta", level.delta, "a number in (0, 1)", "Gaussian noise has no pure epsilon")
        with np.errstate(invalid="ignore"):  # infinity minus infinity, where both rates are 0 or both are 1
            # N(0, 1) against N(mu, 1) at a threshold c: FPR = Phi(-c) and TPR = Phi(mu - c), so mu is the difference of
            # their quantiles.
            return np.asarray(np.nan_to_num(ndtri(tpr) - ndtri(fpr), nan=0.0, posinf=np.inf, neginf=-np.inf))

    def epsilon(self, strength: float, level: Level) -> float:
        """Return the epsilon of mu at the level's delta."""
        # Perfect observed rates make the point estimate infinite; Clopper-Pearson bounds never are.
        return math.inf if strength == math.inf else gdp_epsilon(max(strength, 0.0), level.delta)

    def mu(self, strength: float) -> float | None:
        """Return the strength, at least 0."""
        return max(strength, 0.0)


def _rates_at(sample: Sample, thresholds: Floats, error: float) -> Rates:
    """Bound the two rates at each threshold separately, with half of the error for each rate."""
    tp, fp = sample.counts(thresholds)
    # Bonferroni over the two rates: both bounds hold together except with probability error.
    return Rates(
        thresholds,
        tp,
        fp,
        clopper_pearson(tp, sample.num_in, error / 2, Side.LOWER),
        clopper_pearson(fp, sample.num_out, error / 2, Side.UPPER),
    )


def _rates_everywhere(sample: Sample, thresholds: Floats, error: float) -> Rates:
    """Bound the two rates at all thresholds simultaneously, with half of the error for each rate.

    A threshold with at most c false positives lies above the (c + 1)-th largest non-member score. The tail probability
    beyond that order statistic follows a Beta distribution, whose quantile is the Clopper-Pearson bound at c, provided
    that c is fixed beforehand. So counts are rounded up to a ladder that no score influences, and the error is divided
    by the number of rungs. False negatives are treated alike.
    """
    tp, fp = sample.counts(thresholds)
    in_rungs, out_rungs = ladder(sample.num_in), ladder(sample.num_out)
    # Rounding a count up to a rung can only weaken its bound.
    fn_rounded = in_rungs[np.searchsorted(in_rungs, sample.num_in - tp)]
    fp_rounded = out_rungs[np.searchsorted(out_rungs, fp)]
    # The last rung is the full count: its bound is trivial (a rate of at most 1) and cannot fail, so it is free.
    tpr_error = error / 2 / max(len(in_rungs) - 1, 1)
    fpr_error = error / 2 / max(len(out_rungs) - 1, 1)
    tpr_lower = clopper_pearson(sample.num_in - fn_rounded, sample.num_in, tpr_error, Side.LOWER)
    fpr_upper = clopper_pearson(fp_rounded, sample.num_out, fpr_error, Side.UPPER)
    return Rates(thresholds, tp, fp, tpr_lower, fpr_upper)
