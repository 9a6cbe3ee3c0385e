"""Lloyd's iterations with noise, how many there are, and how far their means are trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import Steps
from hush.estimators.partitions.cube_noise import cube_deviation, cube_noise
from hush.estimators.partitions.kmeans_start import Overview, complete, projected, shrunk
from hush.numerics import down
from hush.randomness import RandomSource
from hush.statistics import Block, GaussianNoise, NoisePlan, plan_noise

_MOST_ROUNDS = 7
_PRECISE = 0.015  # noise in a mean, over the spread of the rows, that still allows another iteration
_HOPELESS = 2.0  # the same, where one mean of all rows is better than clusters
_WEAK = 0.25  # a mean of which less than this is kept starts again


@dataclass(frozen=True, slots=True)
class KMeansPlan:
    """How many iterations, of how many clusters, with which noise.

    Attributes:
        rounds: At least 1.
        clusters: As many as were asked for, or 1: all rows together.
        deviation: Of noise in each count and sum; a row adds 1 at most to each.
        epsilon: Of all iterations.
        gaussian: Their noise, if it is Gaussian; else it is uniform in a cube (`cube_noise`).
    """

    rounds: int
    clusters: int
    deviation: float
    epsilon: float
    gaussian: NoisePlan | None

    @staticmethod
    def chosen(
        seen: Overview, dimension: int, clusters: int, *, epsilon: float, delta: float, rounds: int | None
    ) -> KMeansPlan:
        """Return as many rounds, 7 at most, as leave a mean's noise small beside the spread; or what is given."""

        def plan(number: int, groups: int) -> KMeansPlan:
            gaussian, deviation = None, cube_deviation(number / epsilon, dimension + 1)
            if delta > 0:
                width = dimension + 1
                block = Block(columns=width, l1=width * STEPS, l2=math.sqrt(width) * STEPS)
                found = plan_noise(
                    (block,), groups_per_unit=number, epsilon=epsilon, delta=delta, noise=GaussianNoise()
                )
                if found.block_scales[0] / STEPS < deviation:
                    gaussian, deviation = found, found.block_scales[0] / STEPS
            return KMeansPlan(number, groups, deviation, epsilon, gaussian)

        def error(one: KMeansPlan) -> float:
            return dimension * (one.deviation * clusters / seen.count) ** 2

        if clusters == 1:  # the mean of all rows stays what it is
            return plan(1, 1)
        if rounds is not None:
            return plan(rounds, clusters)
        if error(plan(1, clusters)) > _HOPELESS * seen.spread:
            return plan(1, 1)
        fine = [each for each in range(2, _MOST_ROUNDS + 1) if error(plan(each, clusters)) <= _PRECISE * seen.spread]
        return plan(max(fine, default=1), clusters)

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> Floats:
        """Return counts and sums of one round with noise, in units."""
        if self.gaussian is not None:
            return self.gaussian.release(totals, source) / STEPS
        scale = STEPS / down(self.epsilon / self.rounds)
        return (totals + cube_noise(source, scale, totals.shape[1], len(totals))) / STEPS


def lloyd(
    rows: Floats, start: Floats, seen: Overview, signs: Floats, steps: Steps, plan: KMeansPlan, source: RandomSource
) -> Floats:
    """Return centres after all rounds; in the first, nearness is along directions, if there are any."""
    clusters = len(start)
    if plan.clusters == 1:
        noisy = plan.release(cluster_totals(rows, start[:1], steps, signs), source)
        return np.tile(_overall(noisy, seen, plan), (clusters, 1))
    whole, along = start, signs
    for place in range(plan.rounds):
        noisy = plan.release(cluster_totals(rows, whole, steps, along), source)
        centres, kept = _means(noisy, _overall(noisy, seen, plan), plan)
        if place < plan.rounds - 1:
            centres = _again(centres, kept, noisy[:, 0], seen, source)
        whole, along = np.rint(centres * STEPS), signs[:0]
    return centres


def cluster_totals(rows: Floats, whole: Floats, steps: Steps, signs: Floats) -> NDArray[np.int64]:
    """Return the count and sum, in steps, of the rows nearest to each centre; with signs, nearest along directions.

    Which is nearest must follow from the row alone, and a matrix product may round it by its place. So centres are
    whole numbers of steps, too: products are then whole numbers below 2^53, and exact.
    """
    totals = np.zeros((len(whole), 1 + rows.shape[1]), dtype=np.int64)
    doubled, squares = -2.0 * whole.T, (whole * whole).sum(axis=1)
    for part in steps.blocks(len(rows)):
        some = complete(steps(rows[part]))
        distances = (projected(some, signs) if signs.size else some) @ doubled
        distances += squares
        members = (distances.argmin(axis=1) == np.arange(len(whole))[:, None]).astype(np.float64)
        totals[:, 0] += members.sum(axis=1).astype(np.int64) * STEPS
        totals[:, 1:] += (members @ some).astype(np.int64)
    return totals


def _overall(noisy: Floats, seen: Overview, plan: KMeansPlan) -> Floats:
    """Return the mean of all rows: that of the overview and that of a round, weighted by their errors."""
    dimension = noisy.shape[1] - 1
    deviation = plan.deviation * math.sqrt(len(noisy))
    over = max(float(noisy[:, 0].sum()), deviation, 1.0)
    error = dimension * (deviation / over) ** 2
    found = np.clip(noisy[:, 1:].sum(axis=0) / over, -1, 1)
    share = error / max(error + seen.error, 1e-300)
    mean = share * seen.raw + (1 - share) * found
    return shrunk(mean, np.zeros(dimension), share * seen.error)


def _means(noisy: Floats, overall: Floats, plan: KMeansPlan) -> tuple[Floats, Floats]:
    """Return noisy means, drawn to that of all rows by how much noise each has; and which part of them is kept."""
    over = np.maximum(noisy[:, 0], max(plan.deviation, 1.0))
    errors = overall.size * (plan.deviation / over) ** 2
    off = np.clip(noisy[:, 1:] / over[:, None], -1, 1) - overall
    kept = np.maximum(1 - errors / np.maximum((off**2).sum(axis=1), 1e-300), 0.0)
    return overall + kept[:, None] * off, kept


def _again(centres: Floats, kept: Floats, counts: Floats, seen: Overview, source: RandomSource) -> Floats:
    """Let clusters that are little more than noise start again beside the largest one."""
    weak = kept < _WEAK
    words = source.words(centres.size).reshape(centres.shape) >> np.uint64(11)
    jitter = (words.astype(np.float64) * 2.0**-52 - 1) * math.sqrt(seen.spread / centres.shape[1])
    beside = centres[np.argmax(counts)] + jitter
    return np.asarray(np.clip(np.where(weak[:, None], beside, centres), -1, 1))
