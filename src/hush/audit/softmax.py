"""Softmax regression, for attackers that need an ordinary classifier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import log_softmax

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, slots=True)
class Softmax:
    """A linear classifier: ``logits`` of inputs [n, d] are [n, K]."""

    weights: Floats
    bias: Floats

    def logits(self, inputs: Floats) -> Floats:
        """Return one number for each class."""
        return np.asarray(inputs.reshape(len(inputs), -1) @ self.weights + self.bias)

    def predict(self, inputs: Floats) -> NDArray[np.int64]:
        """Return the likeliest class."""
        return np.asarray(self.logits(inputs).argmax(1), dtype=np.int64)


def fit_softmax(inputs: Floats, wanted: Floats, *, shrinking: float = 1e-4) -> Softmax:
    """Return the classifier with the least cross entropy to ``wanted`` probabilities [n, K], and a little shrinking."""
    flat = inputs.reshape(len(inputs), -1)
    design = np.hstack([flat, np.ones((len(flat), 1))])
    shape = (design.shape[1], wanted.shape[1])

    def loss(values: Floats) -> tuple[float, Floats]:
        weights = values.reshape(shape)
        logs = log_softmax(design @ weights, axis=1)
        slope = design.T @ (np.exp(logs) * wanted.sum(1, keepdims=True) - wanted) / len(flat) + shrinking * weights
        return float(-(logs * wanted).sum() / len(flat) + shrinking / 2 * (weights**2).sum()), slope.ravel()

    found = minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B", options={"maxiter": 500})
    weights = found.x.reshape(shape)
    return Softmax(weights[:-1], weights[-1])
