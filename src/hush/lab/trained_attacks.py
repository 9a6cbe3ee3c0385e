"""Attacks that train a model: a classifier on shadow models (Shokri), or a regression on public non-members."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership import Bools, Floats, classes, finite, mask, refuse_target
from hush.errors import InvalidArgument, Unsupported, check_probability

__all__ = ["quantile_gaussian", "quantile_pinball", "shokri"]

_PENALTIES = tuple(10.0**power for power in range(-4, 3))  # relative to the variance of a feature
_MIN_VARIANCE = 1e-12


def shokri(
    target: ArrayLike,
    shadows: ArrayLike,
    included: ArrayLike,
    labels: ArrayLike,
    *,
    classifier: Callable[[], Any] | None = None,
) -> Floats:
    """Return membership probabilities from attack classifiers trained on the predictions of shadow models.

    There is one classifier for each class. It learns to tell predictions for members from predictions for non-members.
    Several targets share them, such as repeated runs of one training.

    Args:
        target: The target's class probabilities: (examples, classes), or (targets, examples, classes).
        shadows: Those of each shadow model: (models, examples, classes).
        included: Which models were trained on which example: (models, examples).
        labels: The true class of each example, counted from 0.
        classifier: A function that returns a new classifier with ``fit(x, y)`` and ``predict_proba(x)``. By default
            scikit-learn's network with 64 hidden units and 100 epochs.

    Returns:
        One probability per example: (examples,), or (targets, examples). It is 1/2 for a class in which the shadow
        models saw only members, or none.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The target is not a shadow model (checked here). Its sample was drawn independently of theirs (the caller's
        duty).

    References:
        Shokri, Stronati, Song & Shmatikov 2017, Section V.E; the network as in Jayaraman & Evans 2019.
    """
    given = finite("target", target, dimensions=(2, 3))
    targets, shadow_tables = given.reshape(-1, *given.shape[-2:]), finite("shadows", shadows, dimensions=(3,))
    if shadow_tables.shape[1:] != targets.shape[1:]:
        raise InvalidArgument("shadows", shadow_tables.shape, f"one table of shape {targets.shape[1:]} for each model")
    for table in targets:
        refuse_target(table, shadow_tables)
    in_models = mask("included", included, shadow_tables.shape[:2])
    num_classes = targets.shape[-1]
    true_classes = classes(labels, *targets.shape[1:])
    new_classifier = _default_network if classifier is None else classifier
    scores = np.full(targets.shape[:2], 0.5)
    for label in np.unique(true_classes):
        of_class = true_classes == label
        predictions = shadow_tables[:, of_class].reshape(-1, num_classes)
        members = in_models[:, of_class].ravel()
        if members.all() or not members.any():
            continue  # only one kind of example: there is nothing to learn about this class
        answers = targets[:, of_class].reshape(-1, num_classes)
        probability = _member_probability(new_classifier(), predictions, members, answers)
        scores[:, of_class] = probability.reshape(len(targets), -1)
    return np.asarray(scores.reshape(given.shape[:-1]))


def quantile_gaussian(public_x: ArrayLike, public_statistic: ArrayLike, x: ArrayLike, statistic: ArrayLike) -> Floats:
    """Return how many standard deviations an example's statistic lies above that of similar non-members.

    The mean and the log-variance of the statistic are linear in the features (ridge regressions). Both are learned from
    public non-members alone, so no shadow models are needed.

    Args:
        public_x: Features of examples that were not in the target's training: (public, features). Include the class if
            the statistic depends on it.
        public_statistic: The target's `logit_confidence` on these: (public,).
        x: Features of the examples to score.
        statistic: The target's `logit_confidence` on those.

    Returns:
        One score per example. Scores above the normal quantile of 1 - alpha have a false positive rate of alpha, if the
        regression is right.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The public examples were not in the training, and are distributed like the other non-members (the caller's
        duty).

    References:
        Bertran, Tang, Roth, Kearns, Morgenstern & Wu 2023, "Scalable membership inference attacks via quantile
        regression", Section 3 (the Gaussian variant, with linear regressions).
    """
    public_features, public_values, features, values = _checked_regression(public_x, public_statistic, x, statistic)
    mean = _Ridge(public_features, public_values)
    # Leave-one-out residuals: those of rows that the regression was fitted on are too small.
    log_squares = _Ridge(public_features, np.log(np.maximum(np.square(mean.residuals), _MIN_VARIANCE)))
    # E ln Z^2 = -(ln 2 + Euler's gamma) for a standard normal Z. Uncorrected, variances would be 3.56 times too small.
    log_variance = np.clip(log_squares(features) + np.log(2) + np.euler_gamma, -600.0, 600.0)
    return np.asarray((values - mean(features)) * np.exp(-log_variance / 2))


def quantile_pinball(
    public_x: ArrayLike,
    public_statistic: ArrayLike,
    x: ArrayLike,
    statistic: ArrayLike,
    *,
    fpr: float,
    regressor: Callable[[float], Any] | None = None,
) -> Floats:
    """Return how far an example's statistic exceeds the (1 - fpr)-quantile of similar non-members.

    A score above 0 means "member", at the target false positive rate.

    Args:
        public_x: Features of public non-members, as for `quantile_gaussian`.
        public_statistic: The target's `logit_confidence` on these.
        x: Features of the examples to score.
        statistic: The target's `logit_confidence` on those.
        fpr: The target false positive rate, in (0, 1).
        regressor: A function of a quantile that returns a model with ``fit(x, y)`` and ``predict(x)``. By default
            scikit-learn's boosted trees with pinball loss.

    Returns:
        One score per example; higher means more like a member.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The public examples were not in the training, and are distributed like the other non-members (the caller's
        duty).

    References:
        Bertran et al. 2023, Algorithm 1.
    """
    public_features, public_values, features, values = _checked_regression(public_x, public_statistic, x, statistic)
    rate = check_probability("fpr", fpr)
    if not rate < 1:
        raise InvalidArgument("fpr", fpr, "a number in (0, 1)")
    # The (1 - fpr)-quantile minimises the pinball loss, so a share fpr of non-members lies above it.
    model = (_default_trees if regressor is None else regressor)(1 - rate)
    model.fit(public_features, public_values)
    return np.asarray(values - np.asarray(model.predict(features), dtype=np.float64))


def _member_probability(classifier: Any, predictions: Floats, members: Bools, target_predictions: Floats) -> Floats:
    with warnings.catch_warnings():  # the published recipe has 100 epochs, whether it converges or not
        warnings.filterwarnings("ignore", message=".*(C|c)onverge.*")
        warnings.filterwarnings("ignore", message=".*Maximum iterations.*")
        classifier.fit(predictions, members.astype(np.int64))
    table = np.asarray(classifier.predict_proba(target_predictions), dtype=np.float64)
    return np.asarray(table[:, list(classifier.classes_).index(1)])


def _default_network() -> Any:
    try:
        from sklearn.neural_network import MLPClassifier
    except ModuleNotFoundError:
        raise Unsupported(
            "classifier=None: the default classifier needs scikit-learn", "Install it, or pass classifier="
        ) from None
    return MLPClassifier(hidden_layer_sizes=(64,), max_iter=100, random_state=0)


def _default_trees(level: float) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ModuleNotFoundError:
        raise Unsupported(
            "regressor=None: the default regressor needs scikit-learn", "Install it, or pass regressor="
        ) from None
    return HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0)


def _checked_regression(
    public_x: ArrayLike, public_statistic: ArrayLike, x: ArrayLike, statistic: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    public_features = finite("public_x", public_x, dimensions=(2,))
    public_values = finite("public_statistic", public_statistic, dimensions=(1,))
    features, values = finite("x", x, dimensions=(2,)), finite("statistic", statistic, dimensions=(1,))
    if (
        len(public_features) != len(public_values)
        or len(features) != len(values)
        or public_features.shape[1] != features.shape[1]
    ):
        raise InvalidArgument(
            "x",
            (public_features.shape, features.shape),
            "as many features as public_x has, and one statistic for each row",
        )
    if len(public_features) < 2:
        raise InvalidArgument("public_x", len(public_features), "at least two rows", "A single row has no spread")
    return public_features, public_values, features, values


class _Ridge:
    """A ridge regression whose penalty minimises the leave-one-out error.

    Attributes:
        residuals: The leave-one-out residual of each row.
    """

    def __init__(self, x: Floats, y: Floats) -> None:
        self._centre, self._scale, self._mean = x.mean(0), np.maximum(x.std(0), 1e-9), float(y.mean())
        # One decomposition serves all penalties.
        u, s, vt = np.linalg.svd((x - self._centre) / self._scale, full_matrices=False)
        projected = u.T @ (y - self._mean)
        candidates = [self._leave_one_out(u, s, projected, y, penalty) for penalty in _PENALTIES]
        best = int(np.argmin([float(np.square(residuals).mean()) for residuals in candidates]))
        self.residuals = candidates[best]
        # Ridge by the singular value decomposition: weights = V diag(s / (s^2 + penalty n)) U' y.
        self._weights = vt.T @ (s / (np.square(s) + _PENALTIES[best] * len(x)) * projected)

    def __call__(self, x: Floats) -> Floats:
        return np.asarray((x - self._centre) / self._scale @ self._weights + self._mean)

    def _leave_one_out(self, u: Floats, s: Floats, projected: Floats, y: Floats, penalty: float) -> Floats:
        """Return the residual of each row under the regression on all other rows: residual / (1 - leverage)."""
        # The hat matrix is 1 / n + U diag(shrinkage) U', and a leverage is an entry of its diagonal.
        shrinkage = np.square(s) / (np.square(s) + penalty * len(y))
        leverage = 1 / len(y) + np.square(u) @ shrinkage
        # Allen 1974 (PRESS). The floor keeps a row that determines its own prediction finite.
        return np.asarray((y - self._mean - u @ (shrinkage * projected)) / np.maximum(1 - leverage, 1e-6))
