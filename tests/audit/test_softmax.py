"""Softmax regression: it recovers known probabilities, and its gradient is that of its loss."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from hush.audit.softmax import fit_softmax


def test_known_probabilities_are_recovered() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2))
    weights, bias = np.array([[1.0, 0.0, -1.0], [0.5, -1.0, 0.5]]), np.array([0.2, 0.0, -0.2])
    targets = softmax(x @ weights + bias, axis=1)
    fitted = fit_softmax(x, targets, ridge=1e-9)
    assert softmax(fitted.logits(x), axis=1) == pytest.approx(targets, abs=1e-3)
    assert np.array_equal(fitted.predict(x), targets.argmax(1))


def test_the_solution_is_stationary() -> None:
    """At the minimum, residuals are orthogonal to the design, up to the ridge."""
    rng = np.random.default_rng(1)
    x, labels, ridge = rng.normal(size=(100, 3)), rng.integers(0, 4, 100), 0.1
    targets = np.eye(4)[labels]
    fitted = fit_softmax(x, targets, ridge=ridge)
    residuals = softmax(fitted.logits(x), axis=1) - targets
    assert x.T @ residuals / 100 + ridge * fitted.weights == pytest.approx(np.zeros((3, 4)), abs=1e-4)
    assert residuals.mean(0) + ridge * fitted.bias == pytest.approx(np.zeros(4), abs=1e-4)


def test_inputs_of_any_shape_are_flattened() -> None:
    images = np.random.default_rng(2).normal(size=(20, 2, 3))
    fitted = fit_softmax(images, np.eye(2)[np.arange(20) % 2])
    assert fitted.weights.shape == (6, 2)
    assert fitted.logits(images).shape == (20, 2)
