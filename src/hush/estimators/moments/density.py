"""Densities from noisy histograms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import DensityMixin
from sklearn.utils.validation import check_is_fitted

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, fitted_bounds, scaled
from hush.estimators.base.estimator import Floats, PrivateEstimator, planned
from hush.randomness import RandomSource
from hush.statistics import Block, NoisePlan, plan_noise

_MOST_CELLS = 1 << 22


class PrivateHistogramDensity(DensityMixin, PrivateEstimator):  # type: ignore[misc]
    """A density that is constant in each cell of a public grid, from noisy counts.

    For one to three features. Each row is in one cell, so the noise does not grow with their number; but cells that
    hold fewer rows than the noise say nothing.

    Args:
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        bins: How many there are along each feature.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        density_: Of each cell, one axis for each feature; it integrates to 1 over the bounds.
        n_features_in_: How many features there are.
        feature_names_in_: Their names, where X has some.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped, and those with something missing left out (checked here: done here). Bounds and bins are
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
        self._plan(1)  # what is wrong with epsilon is said here

    def _plan(self, num_cells: int) -> NoisePlan:
        block = Block(columns=num_cells, l1=1, l2=1.0, whole=True)
        epsilon, delta = float(self.epsilon), float(self.delta)
        return planned(epsilon, lambda: plan_noise((block,), groups_per_unit=1, epsilon=epsilon, delta=delta))

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count rows in cells."""
        self._check()
        rows = self._rows(X)
        bins, d = int(self.bins), self.n_features_in_
        if not bins**d <= _MOST_CELLS:
            raise InvalidArgument("bins", bins, f"at most 2^22 cells for {d} features", "Take fewer bins or features")
        self._bounds = fitted_bounds("bounds", self.bounds, d)
        plan = self._plan(bins**d)
        source = self._start(plan.event, spent=(plan.epsilon, plan.delta))
        cells, complete = self._cells(rows, bins)
        totals = np.bincount(cells[complete], minlength=bins**d).astype(np.int64)[None, :]
        counts = np.maximum(plan.release(totals, source)[0].astype(np.float64), 0.0)
        if not counts.sum() > 0:
            counts[:] = 1.0
        lower, upper = self._bounds
        volume = float(np.prod((upper - lower) / bins))
        self.density_ = (counts / counts.sum() / volume).reshape((bins,) * d)
        return self

    def _cells(self, rows: Floats, bins: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the number of each row's cell, and which rows are complete."""
        d = rows.shape[1]
        units, complete = scaled(rows, *self._bounds)
        places = np.clip((np.nan_to_num(units) + 1) * (bins / 2), 0, bins - 1).astype(np.int64)
        cells: NDArray[np.int64] = places @ bins ** np.arange(d - 1, -1, -1)
        return cells, complete

    def score_samples(self, X: Any) -> Floats:
        """Return the logarithm of the density at each row; -inf outside the bounds and in empty cells."""
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
