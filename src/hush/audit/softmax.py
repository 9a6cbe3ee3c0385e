"""Softmax regression, for attacks that need an ordinary classifier (`poisoning`, `attributes`, `extraction`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Softmax:
    """A linear classifier.

    >>> classifier = Softmax(weights=np.array([[1.0, -1.0]]), bias=np.zeros(2))
    >>> classifier.predict(np.array([[3.0], [-2.0]])).tolist()
    [0, 1]

    Attributes:
        weights: One column per class, [d, K].
        bias: One number per class, [K].
    """

    weights: Floats
    bias: Floats

    def logits(self, inputs: Floats) -> Floats:
        """Return the logits [n, K] of inputs [n, ...], which are flattened."""
        return np.asarray(inputs.reshape(len(inputs), -1) @ self.weights + self.bias)

    def predict(self, inputs: Floats) -> NDArray[np.int64]:
        """Return the most likely class of each input."""
        return np.asarray(self.logits(inputs).argmax(1), dtype=np.int64)


def fit_softmax(inputs: Floats, targets: Floats, *, ridge: float = 1e-4) -> Softmax:
    """Fit a softmax regression by L-BFGS.

    It minimises the mean cross-entropy to the targets plus ridge / 2 times the squared norm of weights and bias.

    Args:
        inputs: The inputs, [n, ...], which are flattened.
        targets: Target probabilities, or weights of the classes, [n, K].
        ridge: The strength of the L2 regularisation.

    Returns:
        The classifier.
    """
    features = inputs.reshape(len(inputs), -1)
    design = np.hstack([features, np.ones((len(features), 1))])
    shape = (design.shape[1], targets.shape[1])

    def loss_and_gradient(parameters: Floats) -> tuple[float, Floats]:
        weights = parameters.reshape(shape)
        log_probabilities = log_softmax(design @ weights, axis=1)
        loss = -(log_probabilities * targets).sum() / len(features) + ridge / 2 * (weights**2).sum()
        # d loss / d logits = probability * (total target) - target.
        residuals = np.exp(log_probabilities) * targets.sum(1, keepdims=True) - targets
        gradient = design.T @ residuals / len(features) + ridge * weights
        return float(loss), gradient.ravel()

    start = np.zeros(shape[0] * shape[1])
    solution = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    weights = solution.x.reshape(shape)
    return Softmax(weights[:-1], weights[-1])
