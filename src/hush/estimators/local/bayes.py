"""Naive Bayes in the local model, from randomised (class, bin) pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, feature_bounds, scale_to_unit
from hush.estimators.base.estimator import Floats, PrivateClassifierMixin
from hush.estimators.local.learner import LocalLearner
from hush.estimators.local.randomizer import LocalRandomizer
from hush.randomness import RandomSource

_MIN_SHARE = 1e-9  # keeps the logarithm of an empty bin finite where there is hardly any noise


class LocalNaiveBayes(PrivateClassifierMixin, ClassifierMixin, LocalLearner):  # type: ignore[misc]
    """Naive Bayes in the local model: each row reports its class together with the value of a random feature.

    Features are cut into equal bins between public bounds. For categories, use numbers 0, ..., k - 1 with bounds (-0.5,
    k - 0.5) and k bins. A row draws one feature (more if epsilon is large) and reports (class, bin) as a single value
    through `LocalRandomizer`. Reporting the pair is far less noisy than randomising class and value separately. Shares
    of pairs are estimated without bias. Negative ones count as 0, and one standard error is added to each, so that
    features lost in the noise have no influence.

    Choose it for data you must not collect in the clear, with tens of thousands of rows; otherwise choose
    `PrivateGaussianNB`. Measured on two Gaussian classes in 4 features at epsilon 1: accuracy 0.82 takes 100,000 rows
    here and 1,000 rows there (100 times fewer); accuracy 0.80 takes about 10,000 and 600. Without privacy, accuracy is
    0.84.

    Args:
        epsilon: Privacy budget of one row and its class.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        bins: Number of bins of each feature, or one number for all; public.
        classes: All class labels, public. For any other label, and for NaN, a random pair is reported.
        budget: Every `randomize` is charged to it, and so is every fit. It must be a budget whose relation is
            replacement. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        classes_: The declared class labels, sorted.
        class_prior_: Estimated share of each class.
        feature_log_prob_: For each feature, the logarithm of each bin's share in each class.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of one row.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        epsilon-differential privacy, delta = 0, when the values and the class of one row are replaced by any others,
        against anyone who sees the reports. The number of rows is public.

    Assumes:
        Bounds, bins and classes are public (the caller's duty) and applied (checked here). Each person has one row,
        reported once (the caller's duty).

    References:
        Yilmaz, Al-Rubaie & Chang 2019, "Naive Bayes classification under local differential privacy" (features reported
        with their class). Variant: a random feature, instead of a part of epsilon for each feature.

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.tile(np.linspace(-1, 1, 2000), 10)[:, None]
    >>> model = LocalNaiveBayes(epsilon=1.0, bounds=(-1, 1), classes=[0, 1], source=TestSource(1))
    >>> model.fit(x, x[:, 0] > 0).predict([[-0.6], [0.6]]).tolist()
    [0, 1]
    """

    def __init__(
        self,
        *,
        epsilon: float,
        bounds: Any,
        bins: Any = 4,
        classes: Any,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.bins = bins
        self.classes = classes
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        self._check_classes()
        for number in np.atleast_1d(np.asarray(self.bins, dtype=object)).ravel():
            check_count("bins", number)

    def _num_bins(self, num_features: int) -> NDArray[np.int64]:
        """Return the number of bins of each feature."""
        bins = np.asarray(self.bins, dtype=np.int64)
        if bins.ndim > 1 or (bins.ndim == 1 and len(bins) != num_features):
            raise InvalidArgument("bins", self.bins, f"one number per feature ({num_features}), or one for all")
        return np.broadcast_to(bins, (num_features,))

    def _randomizer(self, num_features: int) -> LocalRandomizer:
        pairs = {
            feature: range(len(self.classes) * int(bins)) for feature, bins in enumerate(self._num_bins(num_features))
        }
        randomizer = LocalRandomizer(
            epsilon=self.epsilon, bounds=None, categories=pairs, budget=self.budget, source=self.source
        )
        return randomizer.fit(np.zeros((1, num_features)))

    def _report_table(self, rows: Floats, y: Any) -> Floats:
        class_indices = self._class_indices(self._labels(rows, y, numeric=False))[:, None]
        binning = self._binning(rows.shape[1])
        bins = _bin_indices(rows, *binning)
        # The pair (class, bin) as one code; -1 for a row that has no pair.
        return np.where((class_indices < 0) | (bins < 0), -1, class_indices * binning[-1] + bins).astype(float)

    def _binning(self, num_features: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Return the bounds and the number of bins of each feature."""
        return *feature_bounds("bounds", self.bounds, num_features), self._num_bins(num_features)

    def _learn(self, randomizer: LocalRandomizer, reports: Any) -> None:
        self._grid = self._binning(self.n_features_in_)  # remembered, since set_params may change the bounds
        self.classes_ = np.unique(np.asarray(self.classes))
        smoothed, class_shares = [], []
        for feature in range(self.n_features_in_):
            estimate = randomizer.frequencies(reports, feature)
            error = max(estimate.noise_scale, _MIN_SHARE) if math.isfinite(estimate.noise_scale) else 1.0
            shares = np.nan_to_num(np.asarray(estimate.value)).reshape(len(self.classes_), -1)
            class_shares.append(shares.sum(axis=1))  # summed before negative shares are clipped, so without bias
            smoothed.append(np.maximum(shares, 0.0) + error)
        logs = [np.log(shares / shares.sum(axis=1, keepdims=True)) for shares in smoothed]
        self.feature_log_prob_ = logs
        # Every feature gives an unbiased estimate of the class shares: average them.
        prior = np.maximum(np.mean(class_shares, axis=0), 0.5 / len(self.classes_) ** 2)
        self.class_prior_ = prior / prior.sum()

    def predict_log_proba(self, X: Any) -> Floats:
        """Return the log-probability of each class."""
        check_is_fitted(self)
        bins = _bin_indices(self._rows(X, reset=False), *self._grid)
        joint = np.log(self.class_prior_) + sum(
            log.T[column] for log, column in zip(self.feature_log_prob_, bins.T, strict=True)
        )
        logs: Floats = joint - logsumexp(joint, axis=1, keepdims=True)
        return logs

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class."""
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: Any) -> Any:
        """Return the most likely class of each row."""
        indices = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[indices]


def _bin_indices(rows: Floats, lower: Floats, upper: Floats, bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bin of each value, or -1 for NaN."""
    unit_rows, _ = scale_to_unit(rows, lower, upper)
    indices = np.minimum(np.floor(np.nan_to_num(unit_rows + 1) / 2 * bins), bins - 1)
    return np.where(np.isnan(unit_rows), -1, indices).astype(np.int64)
