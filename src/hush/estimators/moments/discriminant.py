"""Linear discriminant analysis from noisy moments."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.estimators.base.bounds import check_public_norm
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin, PrivateEstimator
from hush.estimators.moments.gram import STEPS, check_noise, clipped_gram, noisy, noisy_symmetric, spectral_norm
from hush.estimators.moments.naive_bayes import check_priors, priors_of
from hush.randomness import RandomSource

_SECOND, _FIRST, _COUNT = 0.5, 0.45, 0.05  # shares of the squared sensitivity
_WRONG = 0.05
_TYPICAL = 0.5  # the noise's eigenvalues lie on a semicircle, whose standard deviation is half its radius


class PrivateLDA(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear discriminant analysis: class means and one covariance matrix, from one noisy release.

    For classes whose features depend on each other and are many rows each; with few rows, `PrivateGaussianNB` has fewer
    parameters. The covariance gets half the norm of its noise on the diagonal.

    Args:
        epsilon: For everything that fit releases.
        delta: The same; above 0.
        data_norm: L2 norm of a row, public: longer rows are scaled down. Subtract a public centre first.
        classes: All labels that there may be; public. Rows of another class are left out.
        priors: Public class probabilities; None to learn them (at no further cost).
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        classes_: The labels, sorted.
        means_: Of each class.
        covariance_: Within classes, regularised.
        priors_: Class probabilities.
        coef_: Weights, a row for each class; for two classes one row, of the second against the first.
        intercept_: Constant terms, as many as rows of weights.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed.

    Assumes:
        Rows are clipped, and those with something missing left out (checked here: done here). ``data_norm`` and classes
        are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014 (the matrix); Balle & Wang 2018 (the noise).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(-1, 1, 4000)[:, None]
    >>> model = PrivateLDA(epsilon=1.0, delta=1e-6, data_norm=1.0, classes=[0, 1], source=TestSource(1))
    >>> model.fit(x, x[:, 0] > 0).predict([[-0.5], [0.5]]).tolist()
    [0, 1]
    """

    _needs_delta = True

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        data_norm: float,
        classes: Any,
        priors: Any = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.data_norm = data_norm
        self.classes = classes
        self.priors = priors
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_public_norm("data_norm", self.data_norm)
        self._check_classes()
        check_priors(self.priors, len(self.classes))
        check_noise(self.epsilon, self.delta, _COUNT)

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and labels."""
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        multiplier = check_noise(self.epsilon, self.delta, _COUNT)
        source = self._start(events.GaussianEvent(multiplier))
        columns = np.arange(len(self.classes_))

        def fill(out: Floats, part: slice) -> NDArray[np.bool_]:
            # A class is a column of 0 and 1: products with it are the class's sum and count.
            np.multiply(places[part, None] == columns, float(STEPS), out=out)
            return places[part] >= 0

        totals = clipped_gram(rows, float(self.data_norm), len(columns), fill)
        self._store(totals, multiplier, source)
        return self

    def _store(self, totals: Any, multiplier: float, source: RandomSource) -> None:
        size, spread = self.n_features_in_, multiplier / math.sqrt(_SECOND)
        second = noisy_symmetric(totals[:size, :size], spread, source)
        sums = noisy(totals[size:, :size], multiplier / math.sqrt(_FIRST), source)
        counts = noisy(np.diagonal(totals)[size:].copy(), multiplier / math.sqrt(_COUNT), source)
        sizes = np.maximum(counts, multiplier)[:, None]  # a class with fewer rows than noise has a mean near 0
        means = sums / sizes
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
        within = (second - (means * sizes).T @ means) / sizes.sum()
        values, vectors = np.linalg.eigh(within)
        least = _TYPICAL * spectral_norm(size, spread, _WRONG) / float(sizes.sum())
        values = np.maximum(values, 0.0) + least
        norm = float(self.data_norm)
        self.means_ = means * norm
        self.covariance_ = (vectors * values) @ vectors.T * norm**2
        self.priors_ = priors_of(self.priors, self.classes, counts)
        weights = (means @ vectors / values) @ vectors.T / norm
        constants = np.log(self.priors_) - 0.5 * np.einsum("ij,ij->i", weights, self.means_)
        two = len(weights) == 2
        self.coef_ = weights[1:] - weights[:1] if two else weights
        self.intercept_ = constants[1:] - constants[:1] if two else constants

    def decision_function(self, X: Any) -> Floats:
        """Return each class's score; for two classes, by how much the second one's is higher."""
        scores = self._scores(X)
        return scores[:, 1] if len(self.coef_) == 1 else scores

    def _scores(self, X: Any) -> Floats:
        """Return a score for each class; that of the first of two is 0."""
        check_is_fitted(self)
        scores: Floats = self._rows(X, reset=False) @ self.coef_.T + self.intercept_
        return np.column_stack([np.zeros(len(scores)), scores]) if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return logarithms of class probabilities."""
        scores = self._scores(X)
        logs: Floats = scores - logsumexp(scores, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities."""
        return np.exp(self.predict_log_proba(X))
