"""A private density estimate: a histogram on a public grid."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, feature_bounds, scale_to_unit
from hush.estimators.base.estimator import Floats, PrivateEstimator, blame_epsilon
from hush.randomness import RandomSource
from hush.statistics import Block, CalibratedPlan, plan_noise

_MAX_CELLS = 1 << 22


class PrivateHistogramDensity(DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """A piecewise constant density on a public grid, from noisy counts.

    Use it for one to three features. Every row falls into exactly one cell, so the noise per cell does not grow with
    the number of features. But the number of cells does, and cells with fewer rows than the noise carry no information.
    Negative noisy counts are set to 0, and the counts are normalised to integrate to 1.

    Args:
        epsilon: Privacy budget of one fit.
        delta: 0 for Laplace noise. Above 0, the smaller of Laplace and Gaussian noise is drawn.
        bounds: Public (lower, upper) of each feature, or one pair for all. Values are clamped to it.
        bins: Number of bins along each feature.
        budget: Every fit is charged to it, such as ``hush.Ledger(...).budget(...)``. Default: no charge.
        source: Random source, for tests only. Default: cryptographic randomness.

    Attributes:
        density_: Density of each cell, with one axis per feature. It integrates to 1 over the bounds.
        n_features_in_: Number of features in X.
        feature_names_in_: Names of the features, if X has them.
        guarantee_: Privacy guarantee of this fit.
        event_: The same guarantee as an accounting event, for composition.

    Guarantee:
        (epsilon, delta)-differential privacy when one row is added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped to the bounds, and rows with a missing value are dropped (checked here). Bounds and bins are
        public (the caller's duty). Each person has one row (the caller's duty).

    References:
        Dwork, McSherry, Nissim & Smith 2006, Example 2 (histograms).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.linspace(0, 1, 4000)[:, None] ** 2
    >>> density = PrivateHistogramDensity(epsilon=1.0, bounds=(0, 1), bins=4, source=TestSource(1)).fit(x)
    >>> density.density_.round(1).tolist()
    [2.0, 0.8, 0.6, 0.5]
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        bins: int = 16,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.bins = bins
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        check_count("bins", self.bins)
        self._plan(1)  # refuses an unusable epsilon in the constructor

    def _plan(self, num_cells: int) -> CalibratedPlan:
        # A row is in one cell, so the sensitivity is 1 in both norms, for any number of cells.
        block = Block(columns=num_cells, l1=1, l2=1.0, whole=True)
        epsilon, delta = float(self.epsilon), float(self.delta)
        return blame_epsilon(epsilon, lambda: plan_noise((block,), groups_per_unit=1, epsilon=epsilon, delta=delta))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count the rows in each cell, with noise."""
        self._check()
        rows = self._rows(X)
        bins, d = int(self.bins), self.n_features_in_
        if not bins**d <= _MAX_CELLS:
            raise InvalidArgument(
                "bins", bins, f"at most 2^22 cells with {d} features", "Use fewer bins or fewer features"
            )
        self._bounds = feature_bounds("bounds", self.bounds, d)
        plan = self._plan(bins**d)
        source = self._charge(plan.event, spent=(plan.epsilon, plan.delta))
        cells, complete = self._cells(rows, bins)
        totals = np.bincount(cells[complete], minlength=bins**d).astype(np.int64)[None, :]
        # Negative counts cannot be a density. Setting them to 0 is post-processing, as is all that follows.
        counts = np.maximum(plan.release(totals, source)[0].astype(np.float64), 0.0)
        if not counts.sum() > 0:  # noise hid all rows: fall back to a uniform density
            counts[:] = 1.0
        lower, upper = self._bounds
        # The counts become probabilities, and divided by the volume of a cell, densities.
        volume = float(np.prod((upper - lower) / bins))
        self.density_ = (counts / counts.sum() / volume).reshape((bins,) * d)
        return self

    def _cells(self, rows: Floats, bins: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the cell index of each row, and which rows have no missing value."""
        d = rows.shape[1]
        unit_rows, complete = scale_to_unit(rows, *self._bounds)
        # Rows are in [-1, 1]; the upper end belongs to the last bin.
        bin_indices = np.clip((np.nan_to_num(unit_rows) + 1) * (bins / 2), 0, bins - 1).astype(np.int64)
        # Row-major order: the same as that of reshape, with one digit in base ``bins`` for each feature.
        cells: NDArray[np.int64] = bin_indices @ bins ** np.arange(d - 1, -1, -1)
        return cells, complete

    def score_samples(self, X: Any) -> Floats:
        """Return the log-density at each row; -inf outside the bounds and in empty cells."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        lower, upper = self._bounds
        inside = ((rows >= lower) & (rows <= upper)).all(axis=1)
        with np.errstate(divide="ignore"):
            logs: Floats = np.log(
                np.where(inside, self.density_.ravel()[self._cells(rows, len(self.density_))[0]], 0.0)
            )
        return logs

    def score(self, X: Any, y: Any = None) -> float:
        """Return the total log-likelihood of rows."""
        return float(self.score_samples(X).sum())
