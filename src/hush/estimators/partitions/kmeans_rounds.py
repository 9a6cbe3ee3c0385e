"""Noisy Lloyd iterations: their number, their noise, and the shrinkage of their means.

An iteration assigns each row to its nearest centre, releases the count and the sum of each cluster, and shrinks the
noisy means towards the overall mean (James-Stein).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.estimators.base.estimator import Floats
from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint
from hush.estimators.partitions.cube_noise import cube_deviation, cube_noise
from hush.estimators.partitions.kmeans_start import Overview, drop_missing, project, shrink
from hush.numerics import round_down
from hush.randomness import RandomSource
from hush.statistics import Block, GaussianNoise, NoisePlan, plan_noise

_MAX_ROUNDS = 7
_PRECISE = 0.015  # squared error of a mean over the spread of the rows, up to which iterations are added
_HOPELESS = 2.0  # the same ratio, above which a single mean of all rows is better than clusters
_WEAK = 0.25  # a centre is restarted if shrinkage leaves less than this of it


@dataclass(frozen=True, slots=True)
class KMeansPlan:
    """The number of iterations and clusters, and their noise.

    Attributes:
        rounds: Number of iterations, at least 1.
        clusters: Number of clusters: as requested, or 1 for all rows together.
        deviation: Standard deviation of the noise in each count and sum; a row changes each by at most 1.
        epsilon: Budget of all iterations.
        gaussian: Gaussian noise plan; None for noise in a cube (`cube_noise`).
    """

    rounds: int
    clusters: int
    deviation: float
    epsilon: float
    gaussian: NoisePlan | None

    @staticmethod
    def choose(
        overview: Overview, dimension: int, clusters: int, *, epsilon: float, delta: float, rounds: int | None
    ) -> KMeansPlan:
        """Return your number of rounds, or the largest, up to 7, whose noise in a mean is small relative to the spread.

        Args:
            overview: The noisy overview.
            dimension: Number of features.
            clusters: Number of clusters.
            epsilon: Budget of all iterations.
            delta: Failure probability of all iterations.
            rounds: Number of iterations, or None.
        """

        def plan(num_rounds: int, num_clusters: int) -> KMeansPlan:
            gaussian, deviation = None, cube_deviation(num_rounds / epsilon, dimension + 1)
            if delta > 0:
                width = dimension + 1
                # A row adds at most 1 to the count and to each sum of one cluster: L1 norm d + 1, L2 norm sqrt(d + 1).
                block = Block(columns=width, l1=width * STEPS, l2=math.sqrt(width) * STEPS)
                gaussian_plan = plan_noise(
                    (block,), groups_per_unit=num_rounds, epsilon=epsilon, delta=delta, noise=GaussianNoise()
                )
                if gaussian_plan.block_scales[0] / STEPS < deviation:
                    gaussian, deviation = gaussian_plan, gaussian_plan.block_scales[0] / STEPS
            return KMeansPlan(num_rounds, num_clusters, deviation, epsilon, gaussian)

        def error(candidate: KMeansPlan) -> float:
            # Squared error of a mean, if the rows are spread evenly over the clusters.
            return dimension * (candidate.deviation * clusters / overview.count) ** 2

        if clusters == 1:  # further iterations would not change the assignment
            return plan(1, 1)
        if rounds is not None:
            return plan(rounds, clusters)
        if error(plan(1, clusters)) > _HOPELESS * overview.spread:
            return plan(1, 1)
        precise = [
            number
            for number in range(2, _MAX_ROUNDS + 1)
            if error(plan(number, clusters)) <= _PRECISE * overview.spread
        ]
        return plan(max(precise, default=1), clusters)

    def release(self, totals: NDArray[np.int64], source: RandomSource) -> Floats:
        """Return the counts and sums of one round with noise, in units of the bounds."""
        if self.gaussian is not None:
            return self.gaussian.release(totals, source) / STEPS
        # Each round has an equal part of epsilon, and a row moves each coordinate by at most STEPS.
        scale = STEPS / round_down(self.epsilon / self.rounds)
        return (totals + cube_noise(source, scale, totals.shape[1], len(totals))) / STEPS


def lloyd(
    rows: Floats,
    start: Floats,
    overview: Overview,
    directions: Floats,
    fixed_point: FixedPoint,
    plan: KMeansPlan,
    source: RandomSource,
) -> Floats:
    """Return the centres after all rounds, in units of the bounds.

    Args:
        rows: The private rows.
        start: First centres, in steps: along the directions if there are any, otherwise of whole rows.
        overview: The noisy overview.
        directions: Directions of the first assignment, or none.
        fixed_point: Converts the rows.
        plan: Number of rounds and their noise.
        source: Random source.
    """
    clusters = len(start)
    if plan.clusters == 1:
        noisy = plan.release(cluster_totals(rows, start[:1], fixed_point, directions), source)
        return np.tile(_overall_mean(noisy, overview, plan), (clusters, 1))
    centre_steps, projection = start, directions
    for number in range(plan.rounds):
        noisy = plan.release(cluster_totals(rows, centre_steps, fixed_point, projection), source)
        centres, retained = _cluster_means(noisy, _overall_mean(noisy, overview, plan), plan)
        if number < plan.rounds - 1:
            centres = _restart_weak(centres, retained, noisy[:, 0], overview, source)
        centre_steps, projection = np.rint(centres * STEPS), directions[:0]
    return centres


def cluster_totals(
    rows: Floats, centre_steps: Floats, fixed_point: FixedPoint, directions: Floats
) -> NDArray[np.int64]:
    """Return the count and the sum, in steps, of the rows nearest to each centre; with directions, in projection.

    The nearest centre must be a function of the row alone. In general a matrix product may round a row differently
    depending on its position in the block. Centres are therefore whole numbers of steps: all products are integers
    below 2^53, and exact.
    """
    totals = np.zeros((len(centre_steps), 1 + rows.shape[1]), dtype=np.int64)
    minus_doubled, squares = -2.0 * centre_steps.T, (centre_steps * centre_steps).sum(axis=1)
    for part in fixed_point.blocks(len(rows)):
        block = drop_missing(fixed_point(rows[part]))
        distances = (project(block, directions) if directions.size else block) @ minus_doubled
        # |x - c|^2 - |x|^2 = |c|^2 - 2 x'c, which has the same minimum over centres.
        distances += squares
        members = (distances.argmin(axis=1) == np.arange(len(centre_steps))[:, None]).astype(np.float64)
        totals[:, 0] += members.sum(axis=1).astype(np.int64) * STEPS
        totals[:, 1:] += (members @ block).astype(np.int64)
    return totals


def _overall_mean(noisy: Floats, overview: Overview, plan: KMeansPlan) -> Floats:
    """Return the mean of all rows: that of the overview and that of this round, weighted by their errors."""
    dimension = noisy.shape[1] - 1
    deviation = plan.deviation * math.sqrt(len(noisy))
    count = max(float(noisy[:, 0].sum()), deviation, 1.0)
    error = dimension * (deviation / count) ** 2
    round_mean = np.clip(noisy[:, 1:].sum(axis=0) / count, -1, 1)
    # Inverse-variance weights of two independent estimates.
    overview_share = error / max(error + overview.error, 1e-300)
    mean = overview_share * overview.raw_mean + (1 - overview_share) * round_mean
    return shrink(mean, np.zeros(dimension), overview_share * overview.error)


def _cluster_means(noisy: Floats, overall: Floats, plan: KMeansPlan) -> tuple[Floats, Floats]:
    """Return noisy means, shrunk towards the overall mean by their noise, and the fraction of each that is retained."""
    counts = np.maximum(noisy[:, 0], max(plan.deviation, 1.0))
    errors = overall.size * (plan.deviation / counts) ** 2
    offsets = np.clip(noisy[:, 1:] / counts[:, None], -1, 1) - overall
    # James-Stein: 1 - (squared error) / (squared offset), at least 0.
    retained = np.maximum(1 - errors / np.maximum((offsets**2).sum(axis=1), 1e-300), 0.0)
    return overall + retained[:, None] * offsets, retained


def _restart_weak(
    centres: Floats, retained: Floats, counts: Floats, overview: Overview, source: RandomSource
) -> Floats:
    """Restart clusters that are little more than noise next to the largest cluster."""
    weak = retained < _WEAK
    words = source.words(centres.size).reshape(centres.shape) >> np.uint64(11)
    jitter = (words.astype(np.float64) * 2.0**-52 - 1) * math.sqrt(overview.spread / centres.shape[1])
    restarted = centres[np.argmax(counts)] + jitter
    return np.asarray(np.clip(np.where(weak[:, None], restarted, centres), -1, 1))
