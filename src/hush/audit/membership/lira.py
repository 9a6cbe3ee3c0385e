"""LiRA, the likelihood-ratio attack: is the target's confidence more likely if the example was a member?

For each example, shadow models trained with and without it give two Gaussian distributions of the `logit_confidence`.
The attack compares the target's value with both (online), or with the second one only (offline).
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import Bools, Floats, finite, mask
from hush.errors import InvalidArgument

# Carlini et al. 2022, Section VI.D: with fewer models, one variance for all examples does better.
_MANY_MODELS = 64
_MIN_STDDEV = 1e-12
_ROUNDING = 1e-6  # relative error of single precision, or of storing six digits
_MIN_DISTINCT = 8  # this many matching values cannot be a coincidence


def lira_online(target: ArrayLike, shadows: ArrayLike, included: ArrayLike, *, pooled: bool | None = None) -> Floats:
    """Return log-likelihood ratios of "in" against "out".

    For each example, one Gaussian is fitted to the shadow models that were trained on it, and another to the rest. The
    location is the median; the standard deviation is that of the example, or pooled over all examples.

    Args:
        target: The target's `logit_confidence` of each example: (examples,), or (examples, augmentations).
        shadows: That of each shadow model: (models, examples), or (models, examples, augmentations).
        included: Which models were trained on which example: (models, examples).
        pooled: Whether one variance serves all examples: better with few shadow models. By
            default, each example has its own from 64 models on.

    Returns:
        One score per example; higher means more like a member. Augmentations are averaged.

    Guarantee:
        Scores, not a bound. For Gaussian statistics with these parameters, no other test has more power at any false
        positive rate (Neyman & Pearson).

    Assumes:
        The target is not one of the shadow models (a row that equals it is refused, checked here). Its members were
        drawn independently of theirs (the caller's duty); otherwise the attack has already seen the answer.

    References:
        Carlini, Chien, Nasr, Song, Terzis & Tramer 2022, Algorithm 1; medians and the mean over augmentations as in
        TensorFlow Privacy.
    """
    target_values, shadow_values, in_models = _aligned(target, shadows, included)
    is_pooled = _is_pooled(pooled, len(shadow_values))
    # NaN marks the models of the other kind, which the fit leaves out.
    inside = _fit_gaussians(np.where(in_models[..., None], shadow_values, np.nan), "in", is_pooled)
    outside = _fit_gaussians(np.where(in_models[..., None], np.nan, shadow_values), "out", is_pooled)
    # ln N(target; in) - ln N(target; out), Algorithm 1 of Carlini et al. 2022.
    return np.asarray((_log_density(target_values, *inside) - _log_density(target_values, *outside)).mean(-1))


def lira_offline(
    target: ArrayLike, shadows: ArrayLike, included: ArrayLike | None = None, *, pooled: bool | None = None
) -> Floats:
    """Return how many standard deviations the target lies above the models that were not trained on the example.

    Carlini et al. use 1 - P[N(mean, variance) > target]. This is its normal quantile: it ranks examples alike and does
    not saturate. No model that was trained on the example is needed.

    Args:
        target: The target's `logit_confidence`, as for `lira_online`.
        shadows: That of each shadow model, as for `lira_online`.
        included: Which models were trained on which example. None means that no model was trained on any of them.
        pooled: As for `lira_online`.

    Returns:
        One score per example; higher means more like a member.

    Guarantee:
        Scores, not a bound.

    Assumes:
        As for `lira_online`: the target is not a shadow model (checked here), and its sample is independent of theirs
        (the caller's duty).

    References:
        Carlini et al. 2022, Section V.D.
    """
    membership = np.zeros(np.shape(shadows)[:2], dtype=np.bool_) if included is None else included
    target_values, shadow_values, in_models = _aligned(target, shadows, membership)
    is_pooled = _is_pooled(pooled, len(shadow_values))
    median, stddev = _fit_gaussians(np.where(in_models[..., None], np.nan, shadow_values), "out", is_pooled)
    # Phi^-1(1 - P[Z > z]) = z, the standardised distance from the models without the example.
    return np.asarray(((target_values - median) / stddev).mean(-1))


def example_risk(shadows: ArrayLike, included: ArrayLike, *, pooled: bool | None = None) -> Floats:
    """Estimate, for each example, the largest TPR - FPR of an attack on this example alone.

    With means a and b and a common standard deviation s of its two Gaussians, it is 2 Phi(|a - b| / 2s) - 1. With few
    models the estimate is noisy for each example. Use it to rank examples.

    Args:
        shadows: The `logit_confidence` of each shadow model: (models, examples).
        included: Which models were trained on which example: (models, examples).
        pooled: As for `lira_online`, pooling both kinds of models.

    Returns:
        One number in [0, 1] per example.

    Guarantee:
        An estimate, neither an upper nor a lower bound.

    Assumes:
        Gaussian statistics with equal variance in and out (the caller's duty).

    References:
        Carlini, Jagielski, Zhang, Papernot, Terzis & Tramer 2022, "The privacy onion effect" (the ranking).
    """
    from scipy.special import ndtr

    values = finite("shadows", shadows, dimensions=(2,))
    in_models = mask("included", included, values.shape)
    is_pooled = _is_pooled(pooled, len(values))
    (median_in, stddev_in), (median_out, stddev_out) = (
        _fit_gaussians(np.where(part, values, np.nan)[..., None], side, is_pooled)
        for part, side in ((in_models, "in"), (~in_models, "out"))
    )
    # The best threshold between two Gaussians of equal variance lies in the middle.
    stddev = np.sqrt((np.square(stddev_in) + np.square(stddev_out)) / 2)
    return np.asarray(2 * ndtr(np.abs(median_in - median_out) / (2 * stddev)) - 1)[:, 0]


def refuse_target(target: Floats, shadows: Floats) -> None:
    """Refuse a target that is one of the shadow models: the attack would be fitted on its own members.

    A shadow model counts as the target if it agrees with it, up to rounding, at more than half of the examples whose
    value is distinct. A shadow model that was trained on the target's sample with other randomness is not detected, nor
    is one whose values were changed by more than rounding; avoiding those is the caller's duty.
    """
    target_values = target.ravel()
    # A constant model says nothing about any example. Two of them may be equal without being the same model.
    if not (target_values.size > 1 and np.ptp(target_values) > 0):
        return
    distinct = _distinct(target_values)
    for values in shadows.reshape(len(shadows), -1):
        same = np.abs(values - target_values) <= _ROUNDING * np.maximum(np.abs(target_values), 1.0)
        if np.array_equal(target_values, values) or (distinct.sum() >= _MIN_DISTINCT and same[distinct].mean() > 0.5):
            raise InvalidArgument(
                "target",
                "...",
                "a model that is not among the shadow models",
                "An attack fitted on the target's own members would find them in any model. Leave its row out",
            )


def _distinct(values: Floats) -> Bools:
    """Return which values have no other value nearby. Unrelated models share values only at rounded certainty."""
    order = np.argsort(values)
    gaps = np.diff(values[order], prepend=-np.inf, append=np.inf)
    tolerance = 4 * _ROUNDING * np.maximum(np.abs(values[order]), 1.0)
    isolated = np.zeros(len(values), dtype=np.bool_)
    isolated[order] = (gaps[:-1] > tolerance) & (gaps[1:] > tolerance)
    return isolated


def _aligned(target: ArrayLike, shadows: ArrayLike, included: ArrayLike) -> tuple[Floats, Floats, Bools]:
    """Return (examples, augmentations), (models, examples, augmentations) and (models, examples)."""
    target_values = finite("target", target, dimensions=(1, 2))
    shadow_values = finite("shadows", shadows, dimensions=(2, 3))
    if shadow_values.shape[1:] != target_values.shape:
        raise InvalidArgument("shadows", shadow_values.shape, f"one row of shape {target_values.shape} for each model")
    refuse_target(target_values, shadow_values)
    in_models = mask("included", included, shadow_values.shape[:2])
    target_table = target_values.reshape(len(target_values), -1)
    return target_table, shadow_values.reshape(len(shadow_values), *target_table.shape), in_models


def _is_pooled(pooled: bool | None, num_models: int) -> bool:
    if pooled is None:
        return num_models < _MANY_MODELS
    if not isinstance(pooled, bool):
        raise InvalidArgument("pooled", pooled, "True, False or None")
    return pooled


def _fit_gaussians(values: Floats, side: str, pooled: bool) -> tuple[Floats, Floats]:
    """Return the median and standard deviation of each column. Entries of the other side are NaN and left out."""
    count = np.isfinite(values).sum(0)
    if not (count >= 1).all():
        raise InvalidArgument(
            "included",
            "...",
            f"for each example at least one model that had it {side}",
            "`shadows` draws complementary halves; the offline attack needs only models without the example",
        )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        median = np.nanmedian(values, axis=0)
        squares = np.square(values - median)
        freedom = np.maximum(count - 1, 0)
    # Squared deviations from the median; a model alone has no degree of freedom.
    sum_of_squares = np.nansum(squares, axis=0)
    if pooled:
        sum_of_squares, freedom = sum_of_squares.sum(0, keepdims=True), freedom.sum(0, keepdims=True)
    if not (freedom >= 1).all():
        raise InvalidArgument(
            "shadows",
            len(values),
            f"at least two models with the example {side}",
            "A single model has no spread. Use pooled variance, more models, or `rmia_offline`, which needs only one",
        )
    # Models that agree to the last digit have no spread; the floor keeps ratios finite.
    stddev = np.maximum(np.sqrt(sum_of_squares / freedom), _MIN_STDDEV)
    return median, np.broadcast_to(stddev, median.shape)


def _log_density(values: Floats, mean: Floats, stddev: Floats) -> Floats:
    """Return the log-density of Gaussians, up to a constant."""
    return np.asarray(-np.square((values - mean) / stddev) / 2 - np.log(stddev))
