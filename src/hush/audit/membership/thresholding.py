"""Attacks that need the target model alone: its losses, and whether its predictions are correct."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import Floats, finite
from hush.errors import InvalidArgument, check_epsilon


def yeom(losses: ArrayLike, *, mean_train_loss: float | None = None) -> Floats:
    """Return scores from losses: members tend to have a low loss.

    >>> yeom([0.1, 2.0], mean_train_loss=0.5).tolist()
    [1.0, 0.0]

    Args:
        losses: The target's loss on each example.
        mean_train_loss: The threshold of Yeom et al., if you know it. The score is then 1 if the loss is at most this,
            else 0, and its ROC has a single point. Without it the score is the negative loss, and every threshold is
            possible.

    Returns:
        One score per example; higher means more like a member.

    Guarantee:
        Scores, not a bound.

    Assumes:
        Finite losses that are not negative (checked here).

    References:
        Yeom, Giacomelli, Fredrikson & Jha 2018, Adversary 2 (known threshold) and 1 (for bounded losses).
    """
    values = finite("losses", losses, dimensions=(1,))
    if not (values >= 0).all():
        raise InvalidArgument("losses", "...", "numbers >= 0")
    if mean_train_loss is None:
        return -values
    # Adversary 2 of Yeom et al.: a loss below the average training loss says "member".
    return (values <= check_epsilon("mean_train_loss", mean_train_loss)).astype(np.float64)


def label_only(predicted: ArrayLike, labels: ArrayLike) -> Floats:
    """Return 1 if the target predicts an example's true class, else 0: the gap attack.

    Its advantage is the accuracy on members minus the accuracy on non-members, i.e. the generalisation gap. An attack
    with a smaller advantage gains nothing over predicted labels.

    >>> label_only([3, 1], [3, 2]).tolist()
    [1.0, 0.0]

    Args:
        predicted: The predicted class of each example.
        labels: The true class of each example.

    Returns:
        One score per example, 0 or 1.

    Guarantee:
        Scores, not a bound.

    Assumes:
        One predicted and one true class for each example (checked here).

    References:
        Yeom et al. 2018, Adversary 1; Choquette-Choo, Tramer, Carlini & Papernot 2021, Section 3.
    """
    predictions, truth = np.asarray(predicted), np.asarray(labels)
    if predictions.ndim != 1 or predictions.shape != truth.shape or not predictions.size:
        raise InvalidArgument("predicted", predictions.shape, "one class for each label, and at least one")
    if {predictions.dtype.kind, truth.dtype.kind} & {"f", "c"} and not (
        np.isfinite(predictions).all() and np.isfinite(truth).all()
    ):
        raise InvalidArgument("predicted", "...", "classes, not NaN")
    return np.asarray(predictions == truth).astype(np.float64)
