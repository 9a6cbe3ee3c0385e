"""Private linear discriminant analysis."""

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
from hush.estimators.moments.gram import STEPS, add_noise, add_symmetric_noise, check_noise, clipped_gram, spectral_norm
from hush.estimators.moments.naive_bayes import check_priors, class_priors
from hush.randomness import RandomSource

_SECOND, _FIRST, _COUNT = 0.5, 0.45, 0.05  # shares of the squared sensitivity: x x', class sums, class counts
_EXCEEDANCE = 0.05  # probability with which the noise is larger than its bound
_TYPICAL = 0.5  # eigenvalues of the noise follow a semicircle law, whose standard deviation is half its radius


class PrivateLDA(PrivateClassifierMixin, ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Linear discriminant analysis: class means and a shared covariance matrix, from a single noisy release.

    Use it if features are correlated and each class has many rows. With few rows, `PrivateGaussianNB` has fewer
    parameters to learn. The release holds the sum of x x' over clipped rows, and the sum and the number of rows of each
    class. To regularise, half the norm of the noise is added to the diagonal of the within-class covariance.

    Args:
        epsilon: Privacy budget of one fit.
        delta: Failure probability of the guarantee, in (0, 1).
        data_norm: Public clip norm: bound on the L2 norm of a row. Longer rows are scaled down, so subtract a public
            centre first.
        classes: All class labels, public. Rows of any other class are dropped.
        priors: Public class probabilities, in the order of ``classes``. Default: learned, at no further cost.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        classes_: The declared class labels, sorted.
        means_: Mean of each class.
        covariance_: Covariance within classes, regularised.
        priors_: Class probabilities.
        coef_: Weights, one row per class; with two classes a single row, for the second class.
        intercept_: Intercepts, one for each row of ``coef_``.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed.

    Assumes:
        Rows are clipped to ``data_norm``, and rows with a missing value are dropped (checked here). ``data_norm`` and
        ``classes`` are public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Dwork, Talwar, Thakurta & Zhang 2014 (noise on second moments); Balle & Wang 2018 (its calibration).

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
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))
        multiplier = check_noise(self.epsilon, self.delta, _COUNT)
        source = self._charge(events.GaussianEvent(multiplier))
        class_columns = np.arange(len(self.classes_))

        def fill(out: Floats, part: slice) -> NDArray[np.bool_]:
            # One indicator column per class: its products with the rows are the class sum, with itself the class count.
            np.multiply(class_indices[part, None] == class_columns, float(STEPS), out=out)
            return class_indices[part] >= 0

        totals = clipped_gram(rows, float(self.data_norm), len(class_columns), fill)
        self._set_fitted(totals, multiplier, source)
        return self

    def _set_fitted(self, totals: Any, multiplier: float, source: RandomSource) -> None:
        """Add noise to the exact totals and derive means, covariance, priors and weights from them."""
        size, second_stddev = self.n_features_in_, multiplier / math.sqrt(_SECOND)
        second = add_symmetric_noise(totals[:size, :size], second_stddev, source)
        sums = add_noise(totals[size:, :size], multiplier / math.sqrt(_FIRST), source)
        counts = add_noise(np.diagonal(totals)[size:].copy(), multiplier / math.sqrt(_COUNT), source)
        sizes = np.maximum(counts, multiplier)[:, None]  # a class smaller than the noise gets a mean near 0
        means = sums / sizes
        # Rows have norm at most 1, so their mean has, too.
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1.0)
        # Within classes: (sum of x x' - sum over classes of n_c m_c m_c') / n.
        covariance = (second - (means * sizes).T @ means) / sizes.sum()
        values, vectors = np.linalg.eigh(covariance)
        ridge = _TYPICAL * spectral_norm(size, second_stddev, _EXCEEDANCE) / float(sizes.sum())
        values = np.maximum(values, 0.0) + ridge
        norm = float(self.data_norm)
        self.means_ = means * norm
        self.covariance_ = (vectors * values) @ vectors.T * norm**2
        self.priors_ = class_priors(self.priors, self.classes, counts)
        # The discriminant of a class: m' C^-1 x - m' C^-1 m / 2 + ln(prior).
        weights = (means @ vectors / values) @ vectors.T / norm
        constants = np.log(self.priors_) - 0.5 * np.einsum("ij,ij->i", weights, self.means_)
        binary = len(weights) == 2
        self.coef_ = weights[1:] - weights[:1] if binary else weights
        self.intercept_ = constants[1:] - constants[:1] if binary else constants

    def decision_function(self, X: Any) -> Floats:
        """Return the score of each class; with two classes, the score of the second minus that of the first."""
        scores = self._scores(X)
        return scores[:, 1] if len(self.coef_) == 1 else scores

    def _scores(self, X: Any) -> Floats:
        """Return a score for each class. With two classes, the first one scores 0."""
        check_is_fitted(self)
        scores: Floats = self._rows(X, reset=False) @ self.coef_.T + self.intercept_
        return np.column_stack([np.zeros(len(scores)), scores]) if len(self.coef_) == 1 else scores

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row."""
        indices = np.argmax(self._scores(X), axis=1)
        return self.classes_[indices]

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the log-probability of each class."""
        scores = self._scores(X)
        logs: Floats = scores - logsumexp(scores, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        return np.exp(self.predict_log_proba(X))
