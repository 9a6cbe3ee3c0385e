"""What is measured of a fitted thing, on rows that it was not fitted to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tasks import Task

NUM_DIRECTIONS = 5  # of PCA
NUM_FEATURES = 5  # of feature selection
BINS = 8  # of densities, along each of two features


@dataclass(frozen=True)
class Fold:
    """A task, split by a seed."""

    task: Task
    seed: int

    def __post_init__(self) -> None:
        train, test = self.task.split(self.seed)
        object.__setattr__(self, "rows", {"train": train, "test": test})

    def x(self, view: str, part: str = "train") -> Any:
        """Return rows in the box or the ball."""
        return getattr(self.task, view)[self.rows[part]]  # type: ignore[attr-defined]

    def y(self, part: str = "train") -> Any:
        """Return labels or targets."""
        return self.task.y[self.rows[part]]  # type: ignore[attr-defined]

    @property
    def classes(self) -> list[int]:
        return list(range(self.task.num_classes))


def accuracy(model: Any, fold: Fold, view: str) -> float:
    """The share of test rows that are predicted right."""
    return float(np.mean(model.predict(fold.x(view, "test")) == fold.y("test")))


def r_squared(model: Any, fold: Fold, view: str) -> float:
    """1 - squared error over that of the mean of the test rows."""
    wanted = fold.y("test")
    wrong = np.asarray(model.predict(fold.x(view, "test"))) - wanted
    return float(1 - np.sum(wrong**2) / np.sum((wanted - wanted.mean()) ** 2))


def captured(model: Any, fold: Fold, view: str) -> float:
    """The share of the test rows' variance within the directions found."""
    x = fold.x(view, "test")
    x = x - x.mean(axis=0)
    inside = np.linalg.qr(np.asarray(model.components_).T)[0]
    return float(np.sum((x @ inside) ** 2) / np.sum(x**2))


def covariance_error(model: Any, fold: Fold, view: str) -> float:
    """The Frobenius norm of the matrix's error, over that of the matrix of the rows themselves."""
    exact = np.cov(fold.x(view).T, bias=True)
    return float(np.linalg.norm(np.asarray(model.covariance_) - exact) / np.linalg.norm(exact))


def inertia(model: Any, fold: Fold, view: str) -> float:
    """The mean squared distance of test rows to the nearest centre, over that to their one mean."""
    x = fold.x(view, "test")
    centres = np.asarray(model.cluster_centers_)
    squares = (x**2).sum(axis=1)[:, None] - 2 * x @ centres.T + (centres**2).sum(axis=1)
    return float(squares.min(axis=1).sum() / np.sum((x - x.mean(axis=0)) ** 2))


def scale_error(model: Any, fold: Fold, view: str) -> float:
    """Root mean square, over features, of the mean's error in standard deviations and the scale's in e-folds."""
    x = fold.x(view)
    spread = x.std(axis=0)
    varies = spread > 1e-3  # a constant feature has no scale
    means = (np.asarray(model.mean_) - x.mean(axis=0))[varies] / spread[varies]
    scales = np.log(np.asarray(model.scale_)[varies] / spread[varies])
    return float(np.sqrt(np.mean(means**2 + scales**2)))


def density_error(shares: Any, fold: Fold, view: str) -> float:
    """The L1 distance between shares of cells and the exact shares; 0 to 2."""
    exact = np.histogramdd(fold.x(view)[:, :2], bins=BINS, range=[(-1, 1)] * 2)[0]
    return float(np.abs(np.asarray(shares) - exact / exact.sum()).sum())


def selection(model: Any, fold: Fold, view: str) -> float:
    """The accuracy of a non-private logistic regression on the features chosen."""
    from sklearn.linear_model import LogisticRegression

    chosen = np.asarray(model.get_support())
    plain = LogisticRegression(C=100, max_iter=300).fit(fold.x(view)[:5000, chosen], fold.y()[:5000])
    return float(plain.score(fold.x(view, "test")[:, chosen], fold.y("test")))


@dataclass(frozen=True)
class Kind:
    """What a kind of estimator is for: where, in which view, measured how."""

    measure: Callable[[Any, Fold, str], float]
    title: str
    tasks: tuple[str, ...]
    higher_is_better: bool = True


KINDS = {
    "classify": Kind(accuracy, "accuracy", ("digits", "breast cancer", "glm binary", "mnist")),
    "regress": Kind(r_squared, "R2", ("diabetes", "glm linear")),
    "pca": Kind(captured, "captured variance, 5 directions", ("digits", "breast cancer", "diabetes", "mnist")),
    "covariance": Kind(
        covariance_error, "relative error of the matrix", ("digits", "breast cancer", "diabetes", "mnist"), False
    ),
    "cluster": Kind(inertia, "inertia over that of one centre", ("digits", "breast cancer", "mnist"), False),
    "density": Kind(density_error, "L1 error, 8 x 8 cells", ("breast cancer", "diabetes", "glm linear"), False),
    "scale": Kind(
        scale_error, "error of mean and scale", ("digits", "breast cancer", "diabetes", "glm linear", "mnist"), False
    ),
    "select": Kind(selection, "accuracy with 5 features", ("digits", "breast cancer", "glm binary")),
}
