"""Losses of margins: slopes and curvatures within the bounds that proofs rest on."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import InvalidArgument
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


def test_the_huber_hinge_is_the_hinge_away_from_its_corner() -> None:
    hinge = HuberHinge(0.25)
    assert hinge.slope(np.array([0.7, 1.3, 5.0, -9.0])).tolist() == [-1, 0, 0, -1]
    assert hinge.slope(np.array([1.0]))[0] == pytest.approx(-0.5)
    assert hinge.second_derivative(np.array([0.7, 1.0, 1.3])).tolist() == [0, 2, 0]


@pytest.mark.parametrize("width", [0.0, -1.0, math.nan])
def test_a_hinge_without_a_parabola_is_refused(width: float) -> None:
    with pytest.raises(InvalidArgument, match="width"):
        HuberHinge(width)
