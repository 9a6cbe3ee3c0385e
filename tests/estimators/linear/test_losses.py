"""Losses of margins: slopes and curvatures within the bounds that proofs rest on."""

from __future__ import annotations

import numpy as np

from hush.estimators.linear.losses import HuberHinge, LogisticLoss

LOSSES = [LogisticLoss(), HuberHinge(), HuberHinge(0.1)]


def test_slopes_are_those_of_the_losses() -> None:
    at = np.linspace(-3, 3, 601)
    for loss in LOSSES:
        slope = loss.slope(at)
        assert ((slope >= -1) & (slope <= 0)).all(), "one sign: the proof for normal noise rests on it"
        steepest = np.diff(slope) / np.diff(at)
        assert (steepest >= -1e-12).all()
        assert (steepest <= loss.curvature + 1e-9).all()
        assert (loss.second_derivative(at) <= loss.curvature).all()
