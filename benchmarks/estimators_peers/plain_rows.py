"""Ceilings and floors: scikit-learn without privacy, and what needs no more than the commonest class or the mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from measures import BINS, NUM_DIRECTIONS, NUM_FEATURES, Fold
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from worker import Row, serve


def row(family: str, kind: str, view: str, make: Callable[[Fold, int], Any], skip: tuple[str, ...] = ()) -> Row:
    def fit(fold: Fold, epsilon: float, seed: int) -> Any:
        return make(fold, seed).fit(fold.x(view), fold.y())

    return Row(family, kind, fit, view, private=False, sound=False, true="no privacy", skip=skip)


class Nothing:
    """What is known without a look at the rows: centres and directions at random, a uniform density, no scale."""

    def __init__(self, fold: Fold, seed: int) -> None:
        rng, size = np.random.default_rng(seed), fold.x("box").shape[1]
        self.components_ = rng.normal(size=(NUM_DIRECTIONS, size))
        self.covariance_ = np.zeros((size, size))
        self.cluster_centers_ = np.zeros((1, size))
        self.mean_, self.scale_ = np.zeros(size), np.full(size, 0.5)
        self.chosen = rng.permutation(size) < NUM_FEATURES

    def fit(self, x: Any, y: Any) -> Nothing:
        return self

    def get_support(self) -> Any:
        return self.chosen


def shares(fold: Fold, epsilon: float, seed: int) -> Any:
    counts = np.histogramdd(fold.x("box", "test")[:, :2], bins=BINS, range=[(-1, 1)] * 2)[0]
    return counts / counts.sum()


def uniform(fold: Fold, epsilon: float, seed: int) -> Any:
    return np.full((BINS, BINS), BINS**-2.0)


def forest(fold: Fold, seed: int) -> Any:
    """Trees of 5,000 rows each, where there are more: for the time."""
    most = min(5000, len(fold.y()))
    return RandomForestClassifier(50, max_samples=most, random_state=seed)


FREE: dict[str, Any] = {"private": False, "sound": False, "true": "no privacy"}
ROWS = {
    "ceiling: logistic": row("logistic", "classify", "ball", lambda f, s: LogisticRegression(C=100, max_iter=500)),
    "ceiling: naive Bayes": row("naive Bayes", "classify", "box", lambda f, s: GaussianNB(var_smoothing=1e-3)),
    "ceiling: LDA": row("LDA", "classify", "ball", lambda f, s: LinearDiscriminantAnalysis()),
    "ceiling: forest": row("forest", "classify", "box", forest),
    "floor: commonest class": row("floor", "classify", "box", lambda f, s: DummyClassifier()),
    "ceiling: linear": row("linear", "regress", "ball", lambda f, s: LinearRegression()),
    "floor: mean": row("floor", "regress", "ball", lambda f, s: DummyRegressor()),
    "ceiling: PCA": row("pca", "pca", "ball", lambda f, s: PCA(NUM_DIRECTIONS)),
    "floor: any directions": row("floor", "pca", "ball", Nothing),
    "floor: no matrix": row("floor", "covariance", "ball", Nothing),
    "ceiling: k-means": row(
        "k-means", "cluster", "box", lambda f, s: KMeans(f.task.clusters, n_init=3, random_state=s)
    ),
    "floor: one centre": row("floor", "cluster", "box", Nothing),
    "ceiling: other rows' histogram": Row("density", "density", shares, **FREE),
    "floor: uniform density": Row("floor", "density", uniform, **FREE),
    "ceiling: standard scaler": row("scaler", "scale", "box", lambda f, s: StandardScaler()),
    "floor: no scaling": row("floor", "scale", "box", Nothing),
    "ceiling: feature selection": row("selection", "select", "box", lambda f, s: SelectKBest(k=NUM_FEATURES)),
    "floor: any features": row("floor", "select", "box", Nothing),
}

if __name__ == "__main__":
    serve(["scikit-learn", "numpy"], ROWS)
