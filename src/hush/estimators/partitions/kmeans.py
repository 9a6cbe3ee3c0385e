"""k-means by noisy Lloyd iterations, from a noisy overview of the rows."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted, validate_data

from hush.accounting.budget import Budget
from hush.errors import InvalidArgument, check_count
from hush.estimators.base.bounds import check_bounds, fitted_bounds
from hush.estimators.base.estimator import Floats, PrivateEstimator
from hush.estimators.base.two_parts import TwoParts
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import Steps
from hush.estimators.partitions.kmeans_rounds import KMeansPlan, lloyd
from hush.estimators.partitions.kmeans_start import (
    Overview,
    directions,
    map_side,
    mapped_centres,
    overview,
    overview_totals,
)
from hush.numerics import down
from hush.randomness import RandomSource

_LEAST = 1e-4  # epsilon for each iteration
_LOOKING = 0.1  # the part of epsilon for the overview
_MAPPING = 0.15  # of what is left, for the map
_CANDIDATES = 64
_CELLS = 8  # of a map, for each cluster: with fewer, it shows nothing
_SCATTER = 0.7  # of first centres, in standard deviations


class PrivateKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """k-means: Lloyd's iterations with noisy counts and sums, from centres that follow a noisy look at the rows.

    For few clusters in few dimensions, with thousands of rows in each; the fewer rows and the smaller epsilon, the
    closer all centres come to one mean. First, a tenth of epsilon tells the number of rows, their mean and spread, with
    noise. From these follows whether a sixth of the rest is worth a noisy map of the rows, in up to three directions,
    in which well separated clusters are found; without one, first centres are scattered around the mean. It follows,
    too, how many iterations there are: as many, 7 at most, as leave the noise in a mean below 1/8 of the standard
    deviation of the rows. Noisy means are drawn to that of all rows by how much noise each has. Where one iteration
    would have noise above 1.4 standard deviations, all centres are the one mean. Neither labels of the rows that it was
    fitted to nor their inertia are stored: both are exact functions of the data. ``predict`` is for whoever has the
    rows.

    Args:
        n_clusters: How many centres.
        epsilon: For everything that fit releases.
        delta: 0 for noise in a cube; above it, whichever of that and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        n_iter: How many iterations; None: by the rule above.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        cluster_centers_: The centres.
        n_iter_: How many iterations there were.
        n_features_in_: How many features there are.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed: of the overview, and, given it, of the map
        and all iterations, however many.

    Assumes:
        Rows are clamped, and those with something missing left out (checked here: done here). Bounds are public (the
        caller's duty). Each person has one row (the caller's duty).

    References:
        Blum, Dwork, McSherry & Nissim 2005 (noisy Lloyd); Su, Cao, Li, Bertino & Jin 2016 (a map first, with its number
        of cells, Section 4; the number of iterations by the error of means, Section 3, here relative to the rows'
        spread); Hardt & Talwar 2010 (noise in a cube); James & Stein 1961 (means drawn together).

    >>> import numpy as np
    >>> from hush.randomness import TestSource
    >>> x = np.repeat([[-0.5], [0.5]], 2000, axis=0)
    >>> model = PrivateKMeans(2, epsilon=1.0, bounds=(-1, 1), source=TestSource(1)).fit(x)
    >>> np.sort(model.cluster_centers_[:, 0]).round(1).tolist()
    [-0.5, 0.5]
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        epsilon: float,
        delta: float = 0.0,
        bounds: Any,
        n_iter: int | None = None,
        budget: Budget | None = None,
        source: RandomSource | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.n_iter = n_iter
        self.budget = budget
        self.source = source
        self._check()

    def _check(self) -> None:
        super()._check()
        check_bounds("bounds", self.bounds)
        check_count("n_clusters", self.n_clusters)
        if self.n_iter is not None:
            check_count("n_iter", self.n_iter)
        least = _LEAST * (self.n_iter or 1)
        if not self.epsilon >= least:
            raise InvalidArgument("epsilon", self.epsilon, f"at least {least:g}", "Noise would not fit into 64 bits")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find centres."""
        self._check()
        rows = self._rows(X)
        lower, upper = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        costs = TwoParts.of(float(self.epsilon), float(self.delta), _LOOKING)
        source = self._start(costs.event)
        steps = Steps(lower, upper, len(rows))
        centres = self._centres(rows, steps, costs, source)
        half = (upper - lower) / 2
        self.cluster_centers_ = lower + half + centres * half
        self._n_features_out = len(centres)
        return self

    def _centres(self, rows: Floats, steps: Steps, costs: TwoParts, source: RandomSource) -> Floats:
        signs, clusters = directions(rows.shape[1], source), int(self.n_clusters)
        seen = overview(overview_totals(rows, signs, steps), signs, costs.first, source)
        mapping = costs.left * _MAPPING
        side = map_side(seen.count, mapping, signs.shape[1])
        useful = side ** signs.shape[1] >= _CELLS * clusters > _CELLS
        plan = self._plan(seen, down(costs.left - mapping) if useful else costs.left, costs.delta)
        self.n_iter_ = plan.rounds
        start = None
        if useful and plan.clusters > 1:
            start = mapped_centres(
                rows, seen, signs, steps, side=side, clusters=clusters, epsilon=mapping, source=source
            )
        if start is None:  # then rows are compared with centres as such, along no directions
            start, signs = _scattered(clusters, seen, source), signs[:0]
        return lloyd(rows, start, seen, signs, steps, plan, source)

    def _plan(self, seen: Overview, epsilon: float, delta: float) -> KMeansPlan:
        """Return how many iterations there are, and their noise: given the overview, of public numbers alone."""
        return KMeansPlan.chosen(
            seen,
            len(seen.mean),
            int(self.n_clusters),
            epsilon=epsilon,
            delta=delta,
            rounds=None if self.n_iter is None else int(self.n_iter),
        )

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the number of the nearest centre to each row."""
        check_is_fitted(self)
        nearest: NDArray[np.int64] = pairwise_distances_argmin(self._rows(X, reset=False), self.cluster_centers_)
        return nearest

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Find centres and return the nearest one to each row: not private, for whoever has the rows."""
        rows = np.nan_to_num(self.fit(X)._any_rows(X))
        nearest: NDArray[np.int64] = pairwise_distances_argmin(rows, self.cluster_centers_)
        return nearest

    def transform(self, X: Any) -> Floats:
        """Return the distance of each row to each centre; NaN for a row in which something is missing or infinite."""
        check_is_fitted(self)
        rows = self._any_rows(X)
        finite = np.isfinite(rows).all(axis=1)
        distances = np.full((len(rows), len(self.cluster_centers_)), np.nan)
        if finite.any():
            with np.errstate(all="ignore"):
                distances[finite] = pairwise_distances(rows[finite], self.cluster_centers_)
        return distances

    def _any_rows(self, X: Any) -> Floats:
        """Return rows, of which some may be missing: in the middle of a pipeline an error would depend on the data."""
        rows: Floats = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        return rows


def uniform(source: RandomSource, size: int) -> Floats:
    """Return numbers between 0 and 1, for choices that no privacy depends on."""
    return (source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _scattered(count: int, seen: Overview, source: RandomSource) -> Floats:
    """Return points around the mean, in steps, far from each other: each the farthest of some random ones."""
    dimension = len(seen.mean)
    chosen = np.empty((count, dimension))
    for place in range(count):
        some = uniform(source, _CANDIDATES * dimension).reshape(-1, dimension) * 2 - 1
        distances = pairwise_distances(some, chosen[:place]).min(axis=1) if place else np.zeros(1)
        chosen[place] = some[np.argmax(distances)]
    width = _SCATTER * math.sqrt(seen.spread / dimension)
    return np.asarray(np.rint(np.clip(seen.mean + width * chosen, -1, 1) * STEPS))
