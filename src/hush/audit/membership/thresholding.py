"""The attack that needs the target model's losses alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.signals import Floats, finite
from hush.errors import InvalidArgument, check_epsilon


def yeom(losses: ArrayLike, *, mean_train_loss: float | None = None) -> Floats:
    """Return scores from losses: members tend to have a low loss.

    This is the simplest membership inference attack.

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
