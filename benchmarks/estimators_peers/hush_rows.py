"""hush: every estimator with its defaults, one line each. Its guarantee is checked after each fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from measures import BINS, NUM_DIRECTIONS, NUM_FEATURES, Fold
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading
from worker import DELTA, Row, serve

from hush import estimators as he
from hush.accounting import calibrate_noise
from hush.estimators.pate import GNMax, PATEClassifier

PURE = 0.0
TEACHERS, QUERIES = 100, 100


def checked(model: Any, epsilon: float, delta: float) -> Any:
    """Return a model whose guarantee is what was asked for."""
    guarantee = model.guarantee_
    if not (guarantee.epsilon <= epsilon * (1 + 1e-9) and guarantee.delta <= delta):
        raise ValueError(f"the guarantee is {guarantee}, not ({epsilon:g}, {delta:g})")
    return model


def row(
    family: str,
    kind: str,
    view: str,
    delta: float,
    make: Callable[[Fold, dict[str, Any]], Any],
    after: Callable[[Any], Any] = lambda model: model,
    skip: tuple[str, ...] = (),
    slow: bool = False,
) -> Row:
    """Return a row; ``make`` gets (fold, {epsilon, delta, and the view's bound})."""

    def fit(fold: Fold, epsilon: float, seed: int) -> Any:
        bound: dict[str, Any] = {"bounds": (-1, 1)} if view == "box" else {"data_norm": 1.0}
        model = make(fold, {"epsilon": epsilon, "delta": delta, **bound})
        return after(checked(model.fit(fold.x(view), fold.y()), epsilon, delta))

    return Row(family, kind, fit, view, delta, skip=skip, slow=slow)


def linear(estimator: Any, delta: float, method: Any = None, **more: Any) -> Row:
    """Return the row of a linear classifier; Frank-Wolfe's ``data_norm`` is about the largest entry."""
    view = "box" if isinstance(method, he.FrankWolfe) else "ball"

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        privacy = {name: given[name] for name in ("epsilon", "delta")}
        return estimator(classes=fold.classes, method=method, data_norm=1.0, **privacy)

    return row("svm" if estimator is he.PrivateLinearSVC else "logistic", "classify", view, delta, make, **more)


def classifier(family: str, estimator: Any, view: str, delta: float, **more: Any) -> Row:
    """Return the row of another classifier."""
    return row(family, "classify", view, delta, lambda fold, given: estimator(classes=fold.classes, **given), **more)


def regressor(family: str, estimator: Any, delta: float, **more: Any) -> Row:
    """Return the row of a regressor."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        given = given if delta > 0 else {name: value for name, value in given.items() if name != "delta"}
        return estimator(target_bounds=(-1, 1), **given, **more)

    return row(family, "regress", "ball", delta, make)


def network(hidden: int) -> Callable[[int, int], Any]:
    """Return a linear module, or one with a hidden layer."""

    def module(inputs: int, outputs: int) -> Any:
        from torch import nn

        if not hidden:
            return nn.Linear(inputs, outputs)
        return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs))

    return module


def networks(kind: str, hidden: int) -> Row:
    """Return the row of a network; batches are an eighth of the rows, which are public here."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        shared = {**given, "batch_size": max(64, len(fold.y()) // 8)}
        if kind == "classify":
            return he.PrivateClassifier(network(hidden), classes=fold.classes, **shared)
        return he.PrivateRegressor(network(hidden), target_bounds=(-1, 1), **shared)

    return row("network", kind, "ball", DELTA, make, slow=True)


def pate() -> Row:
    """Return the row of a vote of teachers about public rows; a student spreads the answers."""

    def fit(fold: Fold, epsilon: float, seed: int) -> Any:
        sigma = math.sqrt(2 * QUERIES) * calibrate_noise(epsilon=epsilon, delta=DELTA) * (1 + 1e-6)
        student = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.8, max_iter=60)
        model = PATEClassifier(
            LogisticRegression(C=10, max_iter=100),
            _Padded(student, fold.task.public_ball, seed),
            num_teachers=TEACHERS,
            aggregator=GNMax(sigma=sigma),
            epsilon=epsilon,
            delta=DELTA,
            classes=fold.classes,
        )
        asked = np.random.default_rng(seed).permutation(fold.task.public_ball)[:QUERIES]
        return checked(model.fit(fold.x("ball"), fold.y(), public=asked), epsilon, DELTA)

    return Row("pate", "classify", fit, "ball", DELTA, skip=("digits", "breast cancer", "glm binary"))


class _Padded:
    """A student that has all public rows, also those that were not asked about."""

    def __init__(self, student: Any, public: Any, seed: int) -> None:
        self.student, self.public, self.seed = student, public, seed

    def __sklearn_clone__(self) -> _Padded:
        return self

    def fit(self, x: Any, y: Any) -> _Padded:
        labels = np.concatenate([y, np.full(len(self.public), -1)])
        self.student.fit(np.concatenate([x, self.public]), labels)
        self.classes_ = self.student.classes_
        return self

    def predict(self, x: Any) -> Any:
        return self.student.predict(x)


def density(delta: float) -> Row:
    """Return the row of a density of the first two features."""

    def fit(fold: Fold, epsilon: float, seed: int) -> Any:
        model = he.PrivateHistogramDensity(epsilon=epsilon, delta=delta, bounds=(-1, 1), bins=BINS)
        return checked(model.fit(fold.x("box")[:, :2]), epsilon, delta).density_ * (2 / BINS) ** 2

    return Row("density", "density", fit, "box", delta)


def selected(delta: float) -> Row:
    """Return the row of feature selection."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        given = {name: value for name, value in given.items() if name != "bounds"}
        return he.PrivateSelectBest(k=NUM_FEATURES, data_bound=1.0, classes=fold.classes, **given)

    return row("selection", "select", "box", delta, make)


def kmeans(delta: float) -> Row:
    """Return the row of k-means."""
    make = lambda fold, given: he.PrivateKMeans(fold.task.clusters, **given)  # noqa: E731
    return row("k-means", "cluster", "box", delta, make)


def scaler(delta: float, **more: Any) -> Row:
    """Return the row of a scaler."""
    return row("scaler", "scale", "box", delta, lambda fold, given: he.PrivateStandardScaler(**{**given, **more}))


def local(estimator: Any, kind: str) -> Row:
    """Return the row of a learner from rows that were perturbed one by one; epsilon is for a row that is replaced."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        public = {"classes": fold.classes} if kind == "classify" else {"target_bounds": (-1, 1)}
        return estimator(epsilon=given["epsilon"], bounds=(-1, 1), **public)

    return row("local", kind, "box", PURE, make)


def searched() -> Row:
    """Return the row of three settings, of which the best on held-out rows is kept; each fit has a third of epsilon."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        base = LOGISTIC(epsilon=given["epsilon"] / 3, classes=fold.classes, data_norm=1.0, method=OBJECTIVE)
        grid = {"regularization": [1.0, 10.0, 100.0]}
        return he.PrivateGridSearch(base, grid, score_epsilon=given["epsilon"])

    return row("logistic", "classify", "ball", PURE, make, skip=("mnist",))


def covariance(method: Any) -> Row:
    """Return the row of a covariance matrix."""
    return row("covariance", "covariance", "ball", DELTA, lambda _, given: he.PrivateCovariance(method=method, **given))


def pca(delta: float, *, skip: tuple[str, ...] = (), **more: Any) -> Row:
    """Return the row of principal components; the view's public centre is 0."""

    def make(fold: Fold, given: dict[str, Any]) -> Any:
        return he.PrivatePCA(NUM_DIRECTIONS, **given, **more)

    return row("pca", "pca", "ball", delta, make, skip=skip)


LOGISTIC, SVM = he.PrivateLogisticRegression, he.PrivateLinearSVC
OBJECTIVE = he.ObjectivePerturbation()
ROWS = {
    "logistic, objective, pure": linear(LOGISTIC, PURE, OBJECTIVE),
    "logistic, objective": linear(LOGISTIC, DELTA, OBJECTIVE),
    "logistic, objective, searched, pure": searched(),
    "logistic, output, pure": linear(LOGISTIC, PURE, he.OutputPerturbation()),
    "logistic, output": linear(LOGISTIC, DELTA, he.OutputPerturbation()),
    "logistic, bolt-on, pure": linear(LOGISTIC, PURE, he.BoltOnSGD()),
    "logistic, bolt-on": linear(LOGISTIC, DELTA, he.BoltOnSGD()),
    "logistic, noisy gradients": linear(LOGISTIC, DELTA, he.NoisyGradients()),
    "logistic, Frank-Wolfe, pure": linear(LOGISTIC, PURE, he.FrankWolfe(), skip=("mnist",)),
    "logistic, Frank-Wolfe": linear(LOGISTIC, DELTA, he.FrankWolfe(), skip=("mnist",)),
    "logistic, functional, pure": linear(LOGISTIC, PURE, he.FunctionalMechanism(), skip=("mnist",)),
    "SVM, objective, pure": linear(SVM, PURE, OBJECTIVE),
    "SVM, objective": linear(SVM, DELTA, OBJECTIVE),
    "SVM, noisy gradients": linear(SVM, DELTA, he.NoisyGradients()),
    "naive Bayes, pure": classifier("naive Bayes", he.PrivateGaussianNB, "box", PURE),
    "naive Bayes": classifier("naive Bayes", he.PrivateGaussianNB, "box", DELTA),
    "LDA": classifier("LDA", he.PrivateLDA, "ball", DELTA),
    "forest, pure": classifier("forest", he.PrivateRandomForestClassifier, "box", PURE),
    "forest": classifier("forest", he.PrivateRandomForestClassifier, "box", DELTA),
    "one tree, pure": classifier("one tree", he.PrivateDecisionTreeClassifier, "box", PURE),
    "one tree": classifier("one tree", he.PrivateDecisionTreeClassifier, "box", DELTA),
    "local naive Bayes": local(he.LocalNaiveBayes, "classify"),
    "network, linear": networks("classify", 0),
    "network, 64 hidden": networks("classify", 64),
    "PATE, 100 teachers": pate(),
    "linear (AdaSSP)": regressor("linear", he.PrivateLinearRegression, DELTA),
    "ridge": regressor("linear", he.PrivateRidge, DELTA),
    "linear, functional, pure": regressor("linear", he.FunctionalRegression, PURE),
    "local linear regression": local(he.LocalLinearRegression, "regress"),
    "network regression, linear": networks("regress", 0),
    "network regression, 64 hidden": networks("regress", 64),
    "PCA, Analyze Gauss": pca(DELTA),
    "PCA, Wishart": pca(DELTA, method=he.Wishart(), skip=("digits", "mnist")),  # refused: too many features
    "PCA, exponential, pure": pca(PURE, center=0.0, method=he.ExponentialPCA()),
    "covariance, Analyze Gauss": covariance(he.AnalyzeGauss()),
    "k-means, pure": kmeans(PURE),
    "k-means": kmeans(DELTA),
    "histogram density, pure": density(PURE),
    "histogram density": density(DELTA),
    "standard scaler, pure": scaler(PURE),
    "standard scaler": scaler(DELTA),
    "standard scaler, bounds learned": scaler(DELTA, bounds=he.LearnBounds()),
    "feature selection, pure": selected(PURE),
    "feature selection": selected(DELTA),
}

if __name__ == "__main__":
    serve(["hush", "scikit-learn", "numpy", "torch"], ROWS)
