"""k-means by noisy Lloyd iterations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.metrics import pairwise_distances, pairwise_distances_argmin
from sklearn.utils.validation import check_is_fitted

from hush.accounting import Event, SelfComposed
from hush.accounting.budget import Budget
from hush.errors import check_count
from hush.estimators._bounds import check_bounds, fitted_bounds, scaled
from hush.estimators._gram import STEPS
from hush.estimators._moments import class_totals, moments_blocks
from hush.estimators._private import Floats, PrivateEstimator
from hush.randomness import Source
from hush.statistics import Gaussian, Laplace, NoisePlan, plan_noise

_CANDIDATES = 64


class PrivateKMeans(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    ClusterMixin,  # type: ignore[misc]
    PrivateEstimator,
):
    """k-means: Lloyd's iterations with noisy counts and sums, from centres that are spread out in the bounds.

    For few clusters in few dimensions, with thousands of rows in each. The first centres are chosen without the data,
    far from each other; in each of a fixed number of iterations every cluster's count and sum get noise. A cluster
    that is no more than noise starts again beside the largest one. Neither labels of the rows that it was fitted to nor
    their inertia are stored: both are exact functions of the data. ``predict`` is for whoever has the rows.

    Args:
        n_clusters: How many centres.
        epsilon: For everything that fit releases.
        delta: 0 for Laplace noise; above it, whichever of Laplace and Gaussian noise is smaller.
        bounds: (lower, upper) of each feature, or of all; public: values are clamped.
        n_iter: How many iterations; fixed in advance, and each has its part of the budget.
        budget: What each fit is charged to.
        source: Of randomness, for tests.

    Attributes:
        cluster_centers_: The centres.
        n_iter_: How many iterations there were.
        guarantee_: What fit gave away.
        event_: The same for accountants.

    Guarantee:
        (epsilon, delta)-differential privacy for one row, added or removed; delta = 0 with Laplace noise.

    Assumes:
        Rows are clamped, and those with something missing left out (checked here: done here). Bounds are public (the
        caller's duty). Each person has one row (the caller's duty).

    References:
        Blum, Dwork, McSherry & Nissim 2005 (noisy Lloyd); Su, Cao, Li, Bertino & Jin 2016 (DPLloyd; spread-out centres,
        Section 3.2; here by greedy choice among random points instead of a search for a radius).

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
        n_iter: int = 5,
        budget: Budget | None = None,
        source: Source | None = None,
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
        check_count("n_iter", self.n_iter)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find centres."""
        self._check()
        rows = self._rows(X)
        lower, upper = fitted_bounds("bounds", self.bounds, self.n_features_in_)
        plan, event = self._plan()
        source = self._start(event, spent=(float(self.epsilon), plan.delta))
        units, complete = scaled(rows, lower, upper)
        units = units[complete]
        centres = _spread(int(self.n_clusters), self.n_features_in_, source)
        for _ in range(int(self.n_iter)):
            centres = _moved(units, centres, plan, source)
        half = (upper - lower) / 2
        self.cluster_centers_ = lower + half + centres * half
        self.n_iter_ = int(self.n_iter)
        self._n_features_out = len(centres)
        return self

    def _plan(self) -> tuple[NoisePlan, Event]:
        """Return the noise of one iteration and the event of all: epsilons add up; Gaussians, by their squares."""
        blocks = moments_blocks(self.n_features_in_, squares=False)
        rounds, epsilon, delta = int(self.n_iter), float(self.epsilon), float(self.delta)
        laplace = plan_noise(blocks, max_groups=1, epsilon=epsilon / rounds, noise=Laplace())
        if delta > 0:
            gaussian = plan_noise(blocks, max_groups=rounds, epsilon=epsilon, delta=delta, noise=Gaussian())
            if gaussian.block_scales[1] ** 2 < 2 * laplace.block_scales[1] ** 2:
                return gaussian, gaussian.event
        return replace(laplace, epsilon=epsilon), SelfComposed(laplace.event, rounds)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the number of the nearest centre to each row."""
        check_is_fitted(self)
        nearest: NDArray[np.int64] = pairwise_distances_argmin(self._rows(X, reset=False), self.cluster_centers_)
        return nearest

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Find centres and return the nearest one to each row: not private, for whoever has the rows."""
        return self.fit(X).predict(np.nan_to_num(np.asarray(X, dtype=np.float64)))

    def transform(self, X: Any) -> Floats:
        """Return the distance of each row to each centre."""
        check_is_fitted(self)
        distances: Floats = pairwise_distances(self._rows(X, reset=False), self.cluster_centers_)
        return distances


def uniform(source: Source, size: int) -> Floats:
    """Return numbers between 0 and 1, for choices that no privacy depends on."""
    return (source.words(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _spread(count: int, dimension: int, source: Source) -> Floats:
    """Return points far from each other in the middle of the box: each the farthest of some random ones."""
    centres = np.empty((count, dimension))
    for place in range(count):
        candidates = uniform(source, _CANDIDATES * dimension).reshape(-1, dimension) * 1.6 - 0.8
        if place == 0:
            centres[0] = candidates[0] * 0.5
            continue
        distances = pairwise_distances(candidates, centres[:place]).min(axis=1)
        centres[place] = candidates[np.argmax(distances)]
    return centres


def _nearest(units: Floats, centres: Floats) -> NDArray[np.int64]:
    """Return the nearest centre to each row, from that row alone: a matrix product may round it by its place."""
    distances = np.stack([((units - centre) ** 2).sum(axis=1) for centre in centres])
    return np.asarray(distances.argmin(axis=0), dtype=np.int64)


def _moved(units: Floats, centres: Floats, plan: NoisePlan, source: Source) -> Floats:
    """Return noisy means of the rows nearest to each centre."""
    nearest = _nearest(units, centres)
    noisy = plan.release(class_totals(units, nearest, len(centres), squares=False), source) / STEPS
    counts = noisy[:, 0]
    # Fewer rows than the noise of a sum: where the mean is cannot be told.
    weak = counts < 2 * max(plan.block_scales[1] / STEPS, 1.0)
    moved = np.where(weak[:, None], centres, noisy[:, 1:] / np.maximum(counts, 1.0)[:, None])
    moved = np.clip(moved, -1.0, 1.0)
    if weak.any() and not weak.all():
        largest = moved[np.argmax(counts)]
        jitter = uniform(source, int(weak.sum()) * centres.shape[1]).reshape(-1, centres.shape[1]) - 0.5
        moved[weak] = np.clip(largest + 0.5 * jitter, -1.0, 1.0)
    return moved
