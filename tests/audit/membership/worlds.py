"""Synthetic worlds in which the best membership attack is known, and a model that memorises."""

from __future__ import annotations

from typing import Any

import numpy as np

from hush.audit import roc

Floats = Any


def auc(scores: Floats, member: Floats) -> float:
    return float(roc(scores[member], scores[~member]).auc)


def gaussian_world(
    rng: np.random.Generator, *, shift: float, models: int, examples: int = 4000, spread: Floats = 1.0
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a target's values, its members, shadow models' values, and their members.

    Membership adds ``shift`` standard deviations to an example's own mean.
    """
    means = rng.normal(0, 2, examples)
    halves = np.argsort(rng.random((models, examples)), axis=0) < models // 2
    member = rng.random(examples) < 0.5
    scale = np.broadcast_to(spread, examples)
    target = means + scale * (shift * member + rng.normal(size=examples))
    shadows = means + scale * (shift * halves + rng.normal(size=(models, examples)))
    return target, member, shadows, halves


def memorising_fit(num_classes: int, penalty: float, noise: float = 0.0) -> Any:
    """Return a training function: ridge regression on many binary features, which memorises; with noise on weights."""
    rng = np.random.default_rng(99)

    def fit(x: Any, labels: Any) -> Any:
        weights = np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ np.eye(num_classes)[labels])
        weights += noise * rng.normal(size=weights.shape)

        def predict(new: Any) -> Any:
            odds = np.exp(5 * (new @ weights))
            return odds / odds.sum(1, keepdims=True)

        return predict

    return fit


def binary_examples(rng: np.random.Generator, count: int = 600) -> tuple[Any, Any]:
    """Return examples with 400 features of +-1, whose frequencies depend on one of five classes."""
    labels = rng.integers(0, 5, count)
    frequencies = rng.random((5, 400)) * 0.4 + 0.3
    return (rng.random((count, 400)) < frequencies[labels]) * 2.0 - 1, labels
