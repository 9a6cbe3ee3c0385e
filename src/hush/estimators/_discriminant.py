"""Linear discriminant analysis from noisy moments."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import events
from hush.accounting.budget import Budget
from hush.errors import check_positive
from hush.estimators._gram import STEPS, gram, noisy, noisy_symmetric, spectral_norm, unit_rows
from hush.estimators._naive_bayes import check_priors, priors_of
from hush.estimators._private import Floats, PrivateClassifierMixin, PrivateEstimator, noise_multiplier
from hush.randomness import Source

_SECOND, _FIRST, _COUNT = 0.5, 0.45, 0.05  # shares of the squared sensitivity
_TYPICAL, _WRONG = 0.5, 0.05  # as for linear regression


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
        coef_: Weights, one row for each class.
        intercept_: Constant terms.
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
        source: Source | None = None,
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
        check_positive("data_norm", self.data_norm, "It is public: the L2 norm that longer rows are scaled down to")
        self._check_classes()
        check_priors(self.priors, len(self.classes))

    def fit(self, X: Any, y: Any) -> Self:
        """Fit to rows and labels."""
        self._check()
        rows = self._rows(X)
        places = self._places(self._labels(rows, y, numeric=False))
        multiplier = noise_multiplier(float(self.epsilon), float(self.delta))
        source = self._start(events.Gaussian(multiplier))
        units, complete = unit_rows(rows, float(self.data_norm))
        kept = complete & (places >= 0)
        units, places = units[kept], places[kept]
        # A class is a column of 0 and 1: products with it are the class's sum and count.
        members = (places[:, None] == np.arange(len(self.classes_))) * float(STEPS)
        totals = gram(np.concatenate([units, members], axis=1))
        self._store(totals, multiplier, source)
        return self

    def _store(self, totals: Any, multiplier: float, source: Source) -> None:
        size, spread = self.n_features_in_, multiplier / math.sqrt(_SECOND)
        second = noisy_symmetric(totals[:size, :size], spread, source)
        sums = noisy(totals[size:, :size], multiplier / math.sqrt(_FIRST), source)
        counts = noisy(np.diagonal(totals)[size:].copy(), multiplier / math.sqrt(_COUNT), source)
        weights = np.maximum(counts, multiplier)[:, None]  # a class with fewer rows than noise has a mean near 0
        means = sums / weights
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
        within = (second - (means * weights).T @ means) / weights.sum()
        values, vectors = np.linalg.eigh(within)
        least = _TYPICAL * spectral_norm(size, spread, _WRONG) / float(weights.sum())
        values = np.maximum(values, 0.0) + least
        norm = float(self.data_norm)
        self.means_ = means * norm
        self.covariance_ = (vectors * values) @ vectors.T * norm**2
        self.priors_ = priors_of(self.priors, counts)
        self.coef_ = (means @ vectors / values) @ vectors.T / norm
        self.intercept_ = np.log(self.priors_) - 0.5 * np.einsum("ij,ij->i", self.coef_, self.means_)

    def decision_function(self, X: Any) -> Floats:
        """Return each class's score; for two classes, by how much the second one's is higher."""
        joint = self._scores(X)
        return joint[:, 1] - joint[:, 0] if joint.shape[1] == 2 else joint

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        scores: Floats = self._rows(X, reset=False) @ self.coef_.T + self.intercept_
        return scores

    def predict(self, X: Any) -> Any:
        """Return the most probable class of each row."""
        best = np.argmax(self._scores(X), axis=1)
        return self.classes_[best]

    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities."""
        scores = self._scores(X)
        shares: Floats = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
        return shares
