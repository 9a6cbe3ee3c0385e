"""Three well separated classes, and a PATEClassifier that learns them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from hush.estimators.pate import ConfidentGNMax, PATEClassifier
from hush.randomness import TestSource

_RNG = np.random.default_rng(7)
Y = _RNG.integers(0, 3, 3000)
X = _RNG.normal(size=(3000, 2)) + 4 * np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])[Y]
PUBLIC = X[2500:]
TRAIN, LABELS = X[:2500], Y[:2500]


def pate(**changes: Any) -> PATEClassifier:
    """Return an unfitted classifier with these changes."""
    settings: dict[str, Any] = {
        "teacher": GaussianNB(),
        "student": LogisticRegression(),
        "num_teachers": 50,
        "aggregator": ConfidentGNMax(threshold=35.0, sigma_threshold=20.0, sigma=8.0),
        "epsilon": 4.0,
        "delta": 1e-5,
        "classes": [0, 1, 2],
        "source": TestSource("pate"),
    }
    settings |= changes
    return PATEClassifier(settings.pop("teacher"), settings.pop("student"), **settings)
