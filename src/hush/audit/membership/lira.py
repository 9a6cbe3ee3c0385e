"""LiRA: how much more likely is what the target says if the example was in, given what shadow models say?"""

from __future__ import annotations

import warnings
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import Bools, Floats, finite, mask
from hush.errors import InvalidArgument, check_instance

# Carlini et al. 2022, Section VI.D: with fewer models, one variance for all examples does better.
_MANY_MODELS = 64
_LEAST_SPREAD = 1e-12
_ROUNDING = 1e-6  # of single precision, and of what is stored with six digits
_ENOUGH = 8  # values that two models cannot share by chance


class LiraVariance(Enum):
    """Whose spread an example's Gaussians have."""

    PER_EXAMPLE = "per example"
    POOLED = "pooled"


def lira_online(
    target: ArrayLike, shadows: ArrayLike, included: ArrayLike, *, variance: LiraVariance | None = None
) -> Floats:
    """Return log-likelihood ratios, in against out, one per example; higher is more like a member.

    For each example, one Gaussian is fitted to what the shadow models trained on it say, another to what the others
    say: medians for means, and standard deviations of the example's own or pooled over all.

    Args:
        target: The target's `logit_confidence` of each example: (examples,), or (examples, augmentations).
        shadows: That of each shadow model: (models, examples), or (models, examples, augmentations).
        included: Which models were trained on which example: (models, examples).
        variance: Per example from 64 models on, otherwise pooled, if nothing is said.

    Guarantee:
        Scores, not a bound. For Gaussian statistics with these parameters no other test has more power at any false
        positive rate (Neyman & Pearson).

    Assumes:
        The target is not one of the shadow models (a row that equals it is refused, checked here) and its members were
        drawn independently of theirs (the caller's duty): otherwise the scores have seen the answer.

    References:
        Carlini, Chien, Nasr, Song, Terzis & Tramer 2022, Algorithm 1; medians and the mean over augmentations as in
        TensorFlow Privacy.
    """
    own, others, who = _aligned(target, shadows, included)
    kind = _variance(variance, len(others))
    inside = _fitted(np.where(who[..., None], others, np.nan), "in", kind)
    outside = _fitted(np.where(who[..., None], np.nan, others), "out", kind)
    return np.asarray((_log_density(own, *inside) - _log_density(own, *outside)).mean(-1))


def lira_offline(
    target: ArrayLike, shadows: ArrayLike, included: ArrayLike | None = None, *, variance: LiraVariance | None = None
) -> Floats:
    """Return by how many standard deviations the target exceeds the models that were not trained on the example.

    This is the normal quantile of Carlini et al.'s 1 - P[N(mean, variance) > target], which ranks alike and does not
    saturate. It needs no model that was trained on the example.

    Args:
        target: As for `lira_online`.
        shadows: As for `lira_online`.
        included: As for `lira_online`; None: no model was trained on any of them.
        variance: As for `lira_online`.

    Guarantee:
        Scores, not a bound.

    Assumes:
        As `lira_online`: the target is not a shadow model (checked here), and its sample independent (the caller's
        duty).

    References:
        Carlini et al. 2022, Section V.D.
    """
    nobody = np.zeros(np.shape(shadows)[:2], dtype=np.bool_) if included is None else included
    own, others, who = _aligned(target, shadows, nobody)
    kind = _variance(variance, len(others))
    middle, spread = _fitted(np.where(who[..., None], np.nan, others), "out", kind)
    return np.asarray(((own - middle) / spread).mean(-1))


def example_risk(shadows: ArrayLike, included: ArrayLike, *, variance: LiraVariance | None = None) -> Floats:
    """Return, for each example, the largest TPR - FPR that an attack on it alone could have, by its two Gaussians.

    With means a and b and a common standard deviation s it is 2 Phi(|a - b| / 2s) - 1. It is an estimate from a few
    models, noisy for each example; the ranking of examples is what it is good for.

    Args:
        shadows: What each shadow model says: (models, examples).
        included: Which models were trained on which example.
        variance: As for `lira_online`; both kinds of models together.

    Guarantee:
        An estimate, neither an upper nor a lower bound.

    Assumes:
        Gaussian statistics of equal variance in and out (the caller's duty).

    References:
        Carlini, Jagielski, Zhang, Papernot, Terzis & Tramer 2022, "The privacy onion effect", who rank examples so.
    """
    from scipy.special import ndtr

    values = finite("shadows", shadows, dimensions=(2,))
    who = mask("included", included, values.shape)
    kind = _variance(variance, len(values))
    (inside, s), (outside, t) = (
        _fitted(np.where(part, values, np.nan)[..., None], name, kind) for part, name in ((who, "in"), (~who, "out"))
    )
    common = np.sqrt((np.square(s) + np.square(t)) / 2)
    return np.asarray(2 * ndtr(np.abs(inside - outside) / (2 * common)) - 1)[:, 0]


def _aligned(target: ArrayLike, shadows: ArrayLike, included: ArrayLike) -> tuple[Floats, Floats, Bools]:
    """Return (examples, augmentations), (models, examples, augmentations) and (models, examples)."""
    own = finite("target", target, dimensions=(1, 2))
    others = finite("shadows", shadows, dimensions=(2, 3))
    if others.shape[1:] != own.shape:
        raise InvalidArgument("shadows", others.shape, f"one row of shape {own.shape} for each model")
    refuse_target(own, others)
    who = mask("included", included, others.shape[:2])
    wide = own.reshape(len(own), -1)
    return wide, others.reshape(len(others), *wide.shape), who


def refuse_target(own: Floats, others: Floats) -> None:
    """Refuse a target that is among the shadow models: their membership would be known for it, and scored.

    Found is a row that agrees, but for rounding, with the target's at more than half of the examples where the target
    says what it says nowhere else. Not found is a shadow model that was trained on the target's own sample with other
    randomness, or one whose answers were changed by more than rounding: that there is none is the caller's duty.
    """
    mine = own.ravel()
    # A constant model says nothing of anybody; two of them may be equal without being one.
    if not (mine.size > 1 and np.ptp(mine) > 0):
        return
    telling = _told_once(mine)
    for other in others.reshape(len(others), -1):
        same = np.abs(other - mine) <= _ROUNDING * np.maximum(np.abs(mine), 1.0)
        if np.array_equal(mine, other) or (telling.sum() >= _ENOUGH and same[telling].mean() > 0.5):
            raise InvalidArgument(
                "target",
                "...",
                "a model that is not among the shadow models",
                "Attacks fitted on the target's own members would find them in any model. Leave its row out",
            )


def _told_once(values: Floats) -> Bools:
    """Return which values no other is near to: certainty, rounded, is what models that have nothing in common share."""
    order = np.argsort(values)
    gaps = np.diff(values[order], prepend=-np.inf, append=np.inf)
    near = 4 * _ROUNDING * np.maximum(np.abs(values[order]), 1.0)
    found = np.zeros(len(values), dtype=np.bool_)
    found[order] = (gaps[:-1] > near) & (gaps[1:] > near)
    return found


def _variance(variance: LiraVariance | None, num_models: int) -> LiraVariance:
    if variance is None:
        return LiraVariance.PER_EXAMPLE if num_models >= _MANY_MODELS else LiraVariance.POOLED
    check_instance("variance", variance, LiraVariance)
    return variance


def _fitted(values: Floats, side: str, variance: LiraVariance) -> tuple[Floats, Floats]:
    """Return medians and standard deviations of columns, in which what is missing is NaN."""
    count = np.isfinite(values).sum(0)
    if not (count >= 1).all():
        raise InvalidArgument(
            "included",
            "...",
            f"for each example a model that had it {side}",
            "`shadows` draws complementary halves; the offline attack needs models without the example only",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        middle = np.nanmedian(values, axis=0)
        deviations = np.square(values - middle)
        freedom = np.maximum(count - 1, 0)
    own = np.nansum(deviations, axis=0)
    if variance is LiraVariance.POOLED:
        own, freedom = own.sum(0, keepdims=True), freedom.sum(0, keepdims=True)
    if not (freedom >= 1).all():
        raise InvalidArgument(
            "shadows",
            len(values),
            f"two models with the example {side}, or more",
            "One alone has no spread. Use pooled variance, more models, or `rmia`, which needs one",
        )
    # Scale and floor: models that agree to the last digit have no spread, and a ratio would overflow.
    return middle, np.broadcast_to(np.maximum(np.sqrt(own / freedom), _LEAST_SPREAD), middle.shape)


def _log_density(values: Floats, middle: Floats, spread: Floats) -> Floats:
    return np.asarray(-np.square((values - middle) / spread) / 2 - np.log(spread))
