"""Approximate minimisers: the gradient is small where they stop, for any data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import helmert
from scipy.special import softmax

from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.minimum import minimise, minimise_jointly
from hush.estimators.linear.objective import TOLERANCE
from hush.estimators.linear.sums import clip_rows

LOSSES = [LogisticLoss(), HuberHinge(), HuberHinge(0.1)]


@pytest.mark.parametrize("loss", LOSSES)
def test_minima_have_small_gradients_for_any_data(loss: MarginLoss) -> None:
    chance = np.random.default_rng(1)
    for size, ridge, tilt in ((1, 1e-3, 50.0), (300, 1e-2, 3.0), (300, 10.0, 0.0), (0, 1.0, 2.0)):
        rows = chance.normal(size=(size, 5))
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1)
        aim = tilt * np.ones(5)
        weights = minimise(loss, rows, ridge=ridge, tilt=aim, tolerance=TOLERANCE)
        gradient = loss.slope(rows @ weights) @ rows + ridge * weights + aim
        assert np.linalg.norm(gradient) <= TOLERANCE


def test_joint_minima_have_small_gradients_for_any_data() -> None:
    chance, basis = np.random.default_rng(1), helmert(4)
    for size, ridge, tilt in ((0, 1.0, 2.0), (1, 1e-2, 50.0), (200, 0.1, 3.0)):
        rows = clip_rows(chance.normal(size=(size, 5)), 1.0, intercept=False)
        chosen = np.eye(4)[chance.integers(0, 4, size)]
        aim = np.full((3, 5), tilt)
        weights = minimise_jointly(rows, chosen, basis, ridge=ridge, tilt=aim, tolerance=TOLERANCE)
        off = softmax(rows @ weights.T @ basis, axis=1) - chosen
        assert np.linalg.norm(basis @ off.T @ rows + ridge * weights + aim) <= TOLERANCE
