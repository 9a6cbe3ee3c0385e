"""Means of groups, tested and compared from noisy totals: the statistic, its null distribution, and intervals.

Totals have one row per group, and two columns (failures, successes) or three: with s = (x - lower) / (upper - lower),
the sums of ((1 - s)^2, 2 s (1 - s), s^2). Either way the columns add up to the number of rows, and one row adds 1 in
all. With m the common mean, U = sum(s - m) is linear in the totals, so the variance of its noise is known exactly:

    d = U / n           the distance of a group's mean from m
    v = (n variance + noise variance * |c(m)|^2) / n^2, where c(m) are the coefficients of U
    T = sum over groups of (d - weighted mean of d)^2 / v

T has the form of Welch's statistic (1951), with the variance of the noise in its weights. A p-value takes the variance
to be common to all groups, as analysis of variance does, and simulates T both with a common variance and with that of
each group, and takes the larger p-value. Nothing about T needs to have a known distribution. But its distribution is
simulated from values of the variances that were seen: where a small group has rare large values that were not drawn,
and a large group has none, both variances are too small, and so is the p-value. Welch's test fails there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.statistics.hypotheses.simulation import NoiseModel, RowValues, totals_of

Floats = NDArray[np.float64]

_FURTHER = 1.5  # standard deviations of the noise by which nuisances are moved
_SEEN = 2.0  # standard deviations of the noise by which the size of a group must exceed 0


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """What one release, or many simulated ones, say about each group. The last axis has one entry per group.

    Attributes:
        sizes: The number of rows, at least 1.
        is_seen: Whether the number of rows stands out from the noise.
        centre: The mean over all groups, on [0, 1].
        means: The distance of each group's mean from the centre.
        variances: The variance of the values within each group.
        errors: The variance of ``means``: that of the sample and of the noise.
    """

    sizes: Floats
    is_seen: NDArray[np.bool_]
    centre: Floats
    means: Floats
    variances: Floats
    errors: Floats

    def heterogeneity(self) -> Floats:
        """Return T; 0 if some group does not stand out from the noise."""
        weights = 1 / self.errors
        middle = (weights * self.means).sum(-1, keepdims=True) / weights.sum(-1, keepdims=True)
        total = (weights * (self.means - middle) ** 2).sum(-1)
        return np.where(self.is_seen.all(-1), total, 0.0)

    def difference(self) -> tuple[Floats, Floats]:
        """Return the difference of two means, and its standard error."""
        return self.means[..., 1] - self.means[..., 0], np.sqrt(self.errors.sum(-1))


def group_statistics(totals: Floats, noise_variance: float, *, pooled: bool) -> GroupStatistics:
    """Return sizes, means and variances of groups.

    Args:
        totals: An array (..., groups, columns).
        noise_variance: The variance of the noise on each total.
        pooled: Whether variances are those under the null hypothesis that all means are equal.
    """
    columns = totals.shape[-1]
    points = np.arange(columns) / (columns - 1)  # s in terms of the weights
    raw_sizes = totals.sum(-1)
    sizes = np.maximum(raw_sizes, 1.0)
    centre = np.clip((totals @ points).sum(-1) / sizes.sum(-1), 0.0, 1.0)
    coefficients = points - centre[..., None]  # those of U
    sums = np.einsum("...gc,...c->...g", totals, coefficients)
    means = sums / sizes
    own = centre[..., None] + (0.0 if pooled else np.clip(means, -centre[..., None], 1 - centre[..., None]))
    largest = np.broadcast_to(own * (1 - own), sizes.shape)
    variances = largest
    if columns == 3:
        squares = np.stack([own**2, own**2 - own, (1 - own) ** 2], axis=-1)  # of (s - own)^2
        variances = np.clip((totals * squares).sum(-1) / sizes, 0.0, largest)
    noise = noise_variance * np.square(coefficients).sum(-1)[..., None]
    # A small group has no say of its own on its variance, as rare values may not have been drawn there: tests take the
    # common variance, and intervals the larger one.
    common = (variances * sizes).sum(-1, keepdims=True) / sizes.sum(-1, keepdims=True)
    expected = common if pooled else np.maximum(variances, common)
    errors = (expected * sizes + noise + 1e-9) / sizes**2
    is_seen = raw_sizes > _SEEN * np.sqrt(columns * noise_variance)
    return GroupStatistics(sizes, is_seen, centre, means, variances, errors)


@dataclass(frozen=True, slots=True)
class GroupModel:
    """Rows at random in groups of given sizes, means and variances, and the noise on their totals.

    Attributes:
        sizes: The number of rows in each group.
        means: The mean of each group, on [0, 1].
        variances: The variance of each group; None for values of 0 and 1.
        noise: The noise.
    """

    sizes: Floats
    means: Floats
    variances: Floats | None
    noise: NoiseModel

    @property
    def columns(self) -> int:
        """The number of totals of each group."""
        return 2 if self.variances is None else 3

    def _atoms(self) -> list[RowValues]:
        if self.variances is None:
            return [RowValues.coin(float(mean)) for mean in self.means]
        return [
            RowValues.beta(float(mean), float(value)) for mean, value in zip(self.means, self.variances, strict=True)
        ]

    def expected(self) -> Floats:
        """Return the expected totals, an array (groups, columns)."""
        return np.stack(
            [
                size * atoms.chances @ atoms.weights(self.columns)
                for size, atoms in zip(self.sizes, self._atoms(), strict=True)
            ]
        )

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Return noisy totals, an array (draws, groups, columns)."""
        exact = np.stack(
            [
                totals_of(int(size), atoms.chances, atoms.weights(self.columns), draws, rng)
                for size, atoms in zip(self.sizes, self._atoms(), strict=True)
            ],
            axis=1,
        )
        return np.asarray(exact + self.noise.draw(exact.shape, rng))


def models(totals: Floats, noise: NoiseModel, *, pooled: bool) -> Iterator[GroupModel]:
    """Yield models with the nuisances as estimated, and further out than their noise is likely to go."""
    observed = group_statistics(totals, noise.variance, pooled=pooled)
    sizes = np.rint(observed.sizes)
    means = np.clip(observed.centre + (0.0 if pooled else observed.means), 0.0, 1.0)
    means = np.broadcast_to(means, sizes.shape)
    if totals.shape[-1] == 2:
        yield from _shares_models(sizes, means, noise)
        return
    # The variance of each group; and their common one, which stands in for a group whose rare values were not drawn.
    common = (observed.variances * sizes).sum() / sizes.sum()
    for variances, counted in ((observed.variances, sizes), (np.full(len(sizes), common), sizes.sum())):
        for drift in (0.0, _FURTHER):
            moved = variances + drift * np.sqrt(noise.variance / 2) / counted
            yield GroupModel(sizes, means, np.minimum(moved, means * (1 - means)), noise)


def _shares_models(sizes: Floats, means: Floats, noise: NoiseModel) -> Iterator[GroupModel]:
    """Yield models of values 0 and 1, whose variance follows from the mean."""
    reach = _FURTHER * np.sqrt(2 * noise.variance)
    spread = _FURTHER * np.sqrt(noise.variance * len(sizes) / 2) / sizes.sum()
    yield GroupModel(sizes, means, None, noise)
    for sign in (-1.0, 1.0):
        yield GroupModel(sizes, np.clip(means + sign * spread, 0.0, 1.0), None, noise)
        yield GroupModel(np.maximum(np.rint(sizes + sign * reach), 2.0), means, None, noise)


def null_draws(model: GroupModel) -> Callable[[int, np.random.Generator], Floats]:
    """Return a function that draws T from a model."""

    def draw(draws: int, rng: np.random.Generator) -> Floats:
        return group_statistics(model.draw(draws, rng), model.noise.variance, pooled=True).heterogeneity()

    return draw


def studentised_draws(model: GroupModel, draws: int, rng: np.random.Generator) -> Floats:
    """Return draws of the distance of an estimated difference of two means from the true one, in standard errors."""
    drawn = group_statistics(model.draw(draws, rng), model.noise.variance, pooled=False)
    distance, error = drawn.difference()
    return np.asarray(np.abs(distance - (model.means[1] - model.means[0])) / error)
