"""diffprivlib 0.6.6, at the epsilon that it truly has: its own is chosen so that its releases cost what is asked for.

Its neighbours are replacements, and it takes the number of rows as public. Here, as for hush, one row is added or
removed, and the number of rows is granted: a row counts or not. What each of its releases costs then was found by
reading its source; where that is less than its own epsilon, it gets more (LogisticRegression: twice as much), and
where it is more, less. Bounds are symmetric, since its sums of rows in [lower, upper] have noise for upper - lower and
move by max(|lower|, |upper|). Granted as well: that all classes are in the data, that its minima are exact, that noise
in floating point is real noise. Rows without any finite epsilon say so and stand beside the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from diffprivlib import models, tools
from measures import BINS, NUM_DIRECTIONS, Fold
from scipy.optimize import brentq
from worker import Row, serve

_GRANTED = "n granted as public. "


def own_epsilon(cost: Callable[[float], float], epsilon: float) -> float:
    """Return the epsilon to ask for, of which the true cost is ``epsilon``."""
    return float(brentq(lambda declared: cost(declared) - epsilon, epsilon / 100, epsilon * 100))


# ---- what its releases cost, of its own epsilon, when one row is added or removed


def vector_cost(declared: float) -> float:
    """Objective perturbation of rows of norm 1, ridge 1: b's density falls by e^(-own'/2) per unit, one row moves it by
    1 and the Hessian by rank one. Its Vector counts two rows, so that this is half its own."""
    left = declared - 2 * math.log1p(0.25)
    ridge = 1.0 if left > 0 else 0.25 / math.expm1(declared / 4)
    return (left if left > 0 else declared / 2) / 2 + math.log1p(0.25 / ridge)


def bayes_cost(declared: float) -> float:
    """Counts of classes: a third. Sums: a third for the width, of which a row is half. Squares: a third."""
    return declared / 3 + declared / 6 + declared / 3


def lloyd_cost(declared: float, size: int) -> float:
    """Counts get the share meant for each feature, and each feature that meant for counts: _split_epsilon's pair is
    returned in another order than it is taken."""
    share = np.cbrt(4 * size * 0.225**2)
    return float(declared * (1 + size * share) / (size + share))


def directions_cost(declared: float, directions: int) -> float:
    """Bingham: e^(own' u'Cu / 4), which one row raises by own' / 4 at most; eigenvalues: L1 norm 1, noise for 2."""
    share = declared / (directions + 1)
    slope = brentq(lambda t: t + math.log(2 - math.exp(-t)) - share, 0, share)
    return directions * share / 4 + slope


def functional_cost(declared: float, size: int) -> float:
    """Coefficients: products of features, and with the target, move by 1 and have noise for 2; squares move by 1."""
    share = declared / (1 + size + size * (size + 1) / 2)
    return share * (1 + size / 2 + size + size * (size - 1) / 4)


def scaler_cost(declared: float) -> float:
    """Means: half of own, of which a row is half; variances: half of own."""
    return declared / 4 + declared / 2


# ---- rows


class WithConstant:
    """A linear model without an intercept, on rows with a constant column, all times ``scale``."""

    def __init__(self, model: Any, scale: float = 1.0) -> None:
        self.model, self.scale = model, scale

    def fit(self, x: Any, y: Any) -> WithConstant:
        self.model.fit(self._rows(x), y)
        return self

    def predict(self, x: Any) -> Any:
        return self.model.predict(self._rows(x))

    def _rows(self, x: Any) -> Any:
        return np.hstack([x, np.ones((len(x), 1))]) * self.scale


def row(
    family: str,
    kind: str,
    view: str,
    make: Callable[[Fold, float, int], Any],
    true: str,
    sound: bool = True,
    skip: tuple[str, ...] = (),
) -> Row:
    def fit(fold: Fold, epsilon: float, seed: int) -> Any:
        return make(fold, epsilon, seed).fit(fold.x(view), fold.y())

    return Row(family, kind, fit, view, true=_GRANTED * sound + true, sound=sound, skip=skip)


def logistic(fold: Fold, epsilon: float, seed: int) -> Any:
    declared = own_epsilon(lambda e: len_outputs(fold) * vector_cost(e / len_outputs(fold)), epsilon)
    model = models.LogisticRegression(epsilon=declared, data_norm=1.0, fit_intercept=False, max_iter=1000)
    return WithConstant(model, math.sqrt(0.5))  # rows with the constant have norm 1 at most


def len_outputs(fold: Fold) -> int:
    return 1 if len(fold.classes) == 2 else len(fold.classes)


def linear(fold: Fold, epsilon: float, seed: int) -> Any:
    size = fold.x("box").shape[1] + 1
    declared = own_epsilon(lambda e: functional_cost(e, size), epsilon)
    return WithConstant(
        models.LinearRegression(epsilon=declared, bounds_X=(-1, 1), bounds_y=(-1, 1), fit_intercept=False)
    )


def components(fold: Fold, epsilon: float, seed: int) -> Any:
    declared = own_epsilon(lambda e: directions_cost(e, NUM_DIRECTIONS), epsilon)
    return models.PCA(NUM_DIRECTIONS, epsilon=declared, data_norm=1.0, centered=True)


def clusters(fold: Fold, epsilon: float, seed: int) -> Any:
    declared = own_epsilon(lambda e: lloyd_cost(e, fold.x("box").shape[1]), epsilon)
    return models.KMeans(fold.task.clusters, epsilon=declared, bounds=(-1, 1))


def density(fold: Fold, epsilon: float, seed: int) -> Any:
    counts = tools.histogramdd(fold.x("box")[:, :2], epsilon=epsilon, bins=BINS, range=[(-1, 1)] * 2)[0]
    return counts / max(counts.sum(), 1) if counts.sum() > 0 else np.full(counts.shape, 1 / counts.size)


SHIPPED = "infinite: "
ROWS = {
    "LogisticRegression": row(
        "logistic",
        "classify",
        "ball",
        logistic,
        "Half its own epsilon, if there is no intercept (a constant column instead) and rows have norm 1.",
    ),
    "LogisticRegression as shipped": row(
        "logistic",
        "classify",
        "ball",
        lambda f, e, s: models.LogisticRegression(epsilon=e, data_norm=1.0, max_iter=1000),
        SHIPPED + "the intercept is not in the penalty, so the ratio of Jacobians has no bound; its curvature counts "
        "the norm instead of its square.",
        sound=False,
    ),
    "GaussianNB": row(
        "naive Bayes",
        "classify",
        "box",
        lambda f, e, s: models.GaussianNB(epsilon=own_epsilon(bayes_cost, e), bounds=(-1, 1)),
        "5/6 of its own epsilon with symmetric bounds.",
    ),
    "RandomForestClassifier": row(
        "forest",
        "classify",
        "box",
        lambda f, e, s: models.RandomForestClassifier(epsilon=e, bounds=(-1, 1), classes=f.classes, shuffle=True),
        "Its own epsilon: each row is in one tree, each leaf a permute-and-flip of counts.",
    ),
    "LinearRegression": row(
        "linear",
        "regress",
        "box",
        linear,
        "About 5/8 of its own epsilon, if there is no intercept and all bounds are symmetric.",
    ),
    "LinearRegression as shipped": row(
        "linear",
        "regress",
        "box",
        lambda f, e, s: models.LinearRegression(epsilon=e, bounds_X=(-1, 1), bounds_y=(-1, 1)),
        SHIPPED + "noise on squares is for the lower bound only, which is 0 where a noisy mean is clamped to it: none.",
        sound=False,
    ),
    "PCA": row(
        "pca",
        "pca",
        "ball",
        components,
        "unproven: its sampler of directions divides its acceptance by (u'Wu)^(d/2), where it should multiply, so that "
        "it draws from another law than the one with a theorem; and with tens of features it accepts nothing in hours. "
        "Here at (k/4 + 1/2)/(k + 1) of its own epsilon, which a right sampler would cost.",
        sound=False,
        skip=("digits", "mnist"),
    ),
    "KMeans, centres only": row(
        "k-means",
        "cluster",
        "box",
        clusters,
        "(1 + d c)/(d + c) times its own epsilon, c the cube root of 0.2025 d: shares of counts and sums are swapped. "
        "Granted: that empty clusters, which get no noise, are not noticed. labels_ and inertia_ are exact: infinite.",
    ),
    "histogramdd": Row("density", "density", density, true="Its own epsilon: counts with geometric noise."),
    "StandardScaler": row(
        "scaler",
        "scale",
        "box",
        lambda f, e, s: models.StandardScaler(epsilon=own_epsilon(scaler_cost, e), bounds=(-1, 1)),
        "3/4 of its own epsilon at most, with symmetric bounds.",
    ),
}

if __name__ == "__main__":
    serve(["diffprivlib", "scikit-learn", "numpy"], ROWS)
