"""Attacks that are learned: a classifier on shadow models, and a regression on the public."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hush.audit.membership.lira import refuse_target
from hush.audit.membership.signals import Floats, classes, finite, mask
from hush.errors import InvalidArgument, Unsupported, check_probability

_PENALTIES = tuple(10.0**power for power in range(-4, 3))  # relative to the variance of a feature
_LEAST_VARIANCE = 1e-12


def shokri(
    target: ArrayLike,
    shadows: ArrayLike,
    included: ArrayLike,
    labels: ArrayLike,
    *,
    classifier: Callable[[], Any] | None = None,
) -> Floats:
    """Return membership probabilities from one attack classifier per class, trained on shadow models' answers.

    Args:
        target: The target's probabilities: (examples, classes).
        shadows: Those of each shadow model: (models, examples, classes).
        included: Which models were trained on which example: (models, examples).
        labels: The class of each example, from 0 on.
        classifier: Makes one that has ``fit(x, y)`` and ``predict_proba(x)``; scikit-learn's network with 64 hidden
            units and 100 epochs, if none is given.

    Guarantee:
        Scores, not a bound. Examples of a class in which the shadow models saw only members, or none, score 1/2.

    Assumes:
        The target is not a shadow model (checked here), and its sample was drawn independently of theirs (the caller's
        duty).

    References:
        Shokri, Stronati, Song & Shmatikov 2017, Section V.E; the network as in Jayaraman & Evans 2019.
    """
    own, others = finite("target", target, dimensions=(2,)), finite("shadows", shadows, dimensions=(3,))
    if others.shape[1:] != own.shape:
        raise InvalidArgument("shadows", others.shape, f"one table of shape {own.shape} for each model")
    refuse_target(own, others)
    who, of = mask("included", included, others.shape[:2]), classes(labels, *own.shape)
    make = _network if classifier is None else classifier
    scores = np.full(len(own), 0.5)
    for one in np.unique(of):
        here = of == one
        answers, inside = others[:, here].reshape(-1, own.shape[1]), who[:, here].ravel()
        if inside.all() or not inside.any():
            continue  # nothing to tell apart: the attacker knows nothing of this class
        scores[here] = _member_probability(make(), answers, inside, own[here])
    return scores


def quantile_gaussian(public_x: ArrayLike, public_statistic: ArrayLike, x: ArrayLike, statistic: ArrayLike) -> Floats:
    """Return by how many standard deviations an example's statistic exceeds what is usual for non-members like it.

    Mean and logarithm of the variance are linear in x (ridge regressions), learned from the public alone.

    Args:
        public_x: Features of people who were not in the target's training: (public, features). Those of the class
            belong to them, if the statistic depends on it.
        public_statistic: The target's `logit_confidence` of them: (public,).
        x: Features of the examples that are scored.
        statistic: The target's `logit_confidence` of those.

    Guarantee:
        Scores, not a bound; score above the normal quantile of 1 - alpha: false positives at rate alpha, if the
        regression is right.

    Assumes:
        The public was not in the training and is distributed like those who were not (the caller's duty).

    References:
        Bertran, Tang, Roth, Kearns, Morgenstern & Wu 2023, "Scalable membership inference attacks via quantile
        regression", Section 3 (the Gaussian variant, with linear regressions).
    """
    known, learned, new, own = _regression(public_x, public_statistic, x, statistic)
    predict = _Ridge(known, learned)
    # Residuals of rows that the regression has not seen: those that it has seen are too small.
    spread = _Ridge(known, np.log(np.maximum(np.square(predict.residuals), _LEAST_VARIANCE)))
    # E ln Z^2 = -(ln 2 + Euler's gamma) for a standard normal Z: without it variances would be 3.56 times too small.
    log_variance = np.clip(spread(new) + np.log(2) + np.euler_gamma, -600.0, 600.0)
    return np.asarray((own - predict(new)) * np.exp(-log_variance / 2))


def quantile_pinball(
    public_x: ArrayLike,
    public_statistic: ArrayLike,
    x: ArrayLike,
    statistic: ArrayLike,
    *,
    fpr: float,
    regressor: Callable[[float], Any] | None = None,
) -> Floats:
    """Return how far an example's statistic exceeds the quantile 1 - fpr of non-members like it; above 0: a member.

    Args:
        public_x: As for `quantile_gaussian`.
        public_statistic: As for `quantile_gaussian`.
        x: As for `quantile_gaussian`.
        statistic: As for `quantile_gaussian`.
        fpr: The false positive rate that is aimed at.
        regressor: From a quantile to something with ``fit(x, y)`` and ``predict(x)``; scikit-learn's boosted trees with
            pinball loss, if none is given.

    Guarantee:
        Scores, not a bound.

    Assumes:
        The public was not in the training and is distributed like those who were not (the caller's duty).

    References:
        Bertran et al. 2023, Algorithm 1.
    """
    known, learned, new, own = _regression(public_x, public_statistic, x, statistic)
    rate = check_probability("fpr", fpr)
    if not rate < 1:
        raise InvalidArgument("fpr", fpr, "a number in (0, 1)")
    model = (_trees if regressor is None else regressor)(1 - rate)
    model.fit(known, learned)
    return np.asarray(own - np.asarray(model.predict(new), dtype=np.float64))


def _member_probability(model: Any, answers: Floats, inside: Any, asked: Floats) -> Floats:
    with warnings.catch_warnings():  # a hundred epochs are what was published, converged or not
        warnings.filterwarnings("ignore", message=".*(C|c)onverge.*")
        warnings.filterwarnings("ignore", message=".*Maximum iterations.*")
        model.fit(answers, inside.astype(np.int64))
    table = np.asarray(model.predict_proba(asked), dtype=np.float64)
    return np.asarray(table[:, list(model.classes_).index(1)])


def _network() -> Any:
    try:
        from sklearn.neural_network import MLPClassifier
    except ModuleNotFoundError:
        raise Unsupported("the default classifier is scikit-learn's", "Install it, or pass classifier=") from None
    return MLPClassifier(hidden_layer_sizes=(64,), max_iter=100, random_state=0)


def _trees(level: float) -> Any:
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
    except ModuleNotFoundError:
        raise Unsupported("the default regressor is scikit-learn's", "Install it, or pass regressor=") from None
    return HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=0)


def _regression(
    public_x: ArrayLike, public_statistic: ArrayLike, x: ArrayLike, statistic: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    known, learned = (
        finite("public_x", public_x, dimensions=(2,)),
        finite("public_statistic", public_statistic, dimensions=(1,)),
    )
    new, own = finite("x", x, dimensions=(2,)), finite("statistic", statistic, dimensions=(1,))
    if len(known) != len(learned) or len(new) != len(own) or known.shape[1] != new.shape[1]:
        raise InvalidArgument(
            "x", (known.shape, new.shape), "as many features as public_x has, and one statistic for each row"
        )
    if len(known) < 2:
        raise InvalidArgument("public_x", len(known), "two rows or more", "One alone has no spread")
    return known, learned, new, own


class _Ridge:
    """A linear function of features, with the penalty whose leave-one-out error is smallest."""

    def __init__(self, x: Floats, y: Floats) -> None:
        self._centre, self._scale, self._mean = x.mean(0), np.maximum(x.std(0), 1e-9), float(y.mean())
        u, s, vt = np.linalg.svd((x - self._centre) / self._scale, full_matrices=False)
        inside = u.T @ (y - self._mean)
        candidates = [self._left_out(u, s, inside, y, penalty) for penalty in _PENALTIES]
        best = int(np.argmin([float(np.square(each).mean()) for each in candidates]))
        self.residuals = candidates[best]
        self._weights = vt.T @ (s / (np.square(s) + _PENALTIES[best] * len(x)) * inside)

    def __call__(self, x: Floats) -> Floats:
        return np.asarray((x - self._centre) / self._scale @ self._weights + self._mean)

    def _left_out(self, u: Floats, s: Floats, inside: Floats, y: Floats, penalty: float) -> Floats:
        """Return the residual of each row under a regression on all others (Allen 1974)."""
        shrink = np.square(s) / (np.square(s) + penalty * len(y))
        leverage = 1 / len(y) + np.square(u) @ shrink
        return np.asarray((y - self._mean - u @ (shrink * inside)) / np.maximum(1 - leverage, 1e-6))
