"""Attacks on one model that need no other: its losses, and whether it is right."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import Floats, finite
from hush.errors import InvalidArgument, check_epsilon


def yeom(losses: ArrayLike, *, mean_train_loss: float | None = None) -> Floats:
    """Return scores from losses: a member's loss is low.

    Args:
        losses: The target's loss of each example.
        mean_train_loss: Yeom et al.'s threshold, if it is known: the score is then 1 for losses that are not above it,
            and 0 for others, so that its ROC has one point. Without it the score is the negative loss, and thresholds
            are swept.

    Guarantee:
        Scores, not a bound.

    Assumes:
        Losses are finite and not negative, NaN is refused (checked here).

    References:
        Yeom, Giacomelli, Fredrikson & Jha 2018, Adversary 2 (known threshold) and 1 (for bounded losses).

    >>> yeom([0.1, 2.0], mean_train_loss=0.5).tolist()
    [1.0, 0.0]
    """
    values = finite("losses", losses, dimensions=(1,))
    if not (values >= 0).all():
        raise InvalidArgument("losses", "...", "numbers >= 0")
    if mean_train_loss is None:
        return -values
    return (values <= check_epsilon("mean_train_loss", mean_train_loss)).astype(np.float64)


def label_only(predicted: ArrayLike, labels: ArrayLike) -> Floats:
    """Return 1 where the target's most likely class is right, else 0: the gap attack.

    Its advantage is the accuracy on members less that on others, the generalisation gap: what any attack that does
    worse could have had from labels alone.

    Guarantee:
        Scores, not a bound.

    Assumes:
        One predicted and one true class for each example (checked here).

    References:
        Yeom et al. 2018, Adversary 1; Choquette-Choo, Tramer, Carlini & Papernot 2021, Section 3.

    >>> label_only([3, 1], [3, 2]).tolist()
    [1.0, 0.0]
    """
    found, true = np.asarray(predicted), np.asarray(labels)
    if found.ndim != 1 or found.shape != true.shape or not found.size:
        raise InvalidArgument("predicted", found.shape, "as many classes as labels, and at least one")
    if {found.dtype.kind, true.dtype.kind} & {"f", "c"} and not (np.isfinite(found).all() and np.isfinite(true).all()):
        raise InvalidArgument("predicted", "...", "classes, not NaN")
    return np.asarray(found == true).astype(np.float64)
