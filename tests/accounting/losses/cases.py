"""Events with the exact distributions that they stand for, to test profiles, lattices and Renyi divergences against."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from hush.accounting import ApproximateDPEvent as Claim
from hush.accounting import (
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PoissonSampledEvent,
)
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    NoisyMaxEvent,
    RandomizedResponseEvent,
)
from hush.accounting.losses.pairs import Change, alternatives, changes
from hush.accounting.losses.profile import DominatingPair
from hush.guarantee import Relation

ADD_REMOVE, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE
Measure = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Truth:
    """Two distributions: their densities (or masses) at points with weights."""

    points: np.ndarray
    weights: np.ndarray
    p: Measure
    q: Measure

    def delta(self, epsilon: float, *, swapped: bool = False) -> float:
        first, second = (self.q, self.p) if swapped else (self.p, self.q)
        gap = first(self.points) - math.exp(epsilon) * second(self.points)
        return float(np.dot(self.weights, np.maximum(gap, 0.0)))

    def log_moment(self, order: float, *, swapped: bool = False) -> float:
        first, second = (self.q, self.p) if swapped else (self.p, self.q)
        top, bottom = first(self.points), second(self.points)
        ratio = np.where(top > 0, top * np.power(top / np.maximum(bottom, 1e-300), order - 1), 0.0)
        return math.log(float(np.dot(self.weights, ratio)))


def on_the_line(p: Measure, q: Measure, reach: float, centre: float = 0.0, num_points: int = 200_001) -> Truth:
    points = np.linspace(centre - reach, centre + reach, num_points)
    return Truth(points, np.full(len(points), points[1] - points[0]), p, q)


def on_the_integers(p: Measure, q: Measure, reach: int) -> Truth:
    points = np.arange(-reach, reach + 1).astype(float)
    return Truth(points, np.ones(len(points)), p, q)


def normal(centre: float, sigma: float) -> Measure:
    return lambda x: np.exp(-0.5 * ((x - centre) / sigma) ** 2) / (sigma * math.sqrt(2 * math.pi))


def laplace(centre: float, scale: float) -> Measure:
    return lambda x: np.exp(-np.abs(x - centre) / scale) / (2 * scale)


def mix(*parts: tuple[float, Measure]) -> Measure:
    return lambda x: sum(weight * part(x) for weight, part in parts)


def discrete(kernel: Callable[[np.ndarray], np.ndarray], shift: int) -> Measure:
    total = float(kernel(np.arange(-3000, 3001).astype(float)).sum())
    return lambda x: kernel(x - shift) / total


def discrete_gaussian(sigma: float, shift: int) -> Measure:
    return discrete(lambda x: np.exp(-0.5 * (x / sigma) ** 2), shift)


def discrete_laplace(scale: float, shift: int) -> Measure:
    return discrete(lambda x: np.exp(-np.abs(x) / scale), shift)


def binomial_group(sigma: float, rate: float, size: int) -> Measure:
    return mix(*((math.comb(size, k) * rate**k * (1 - rate) ** (size - k), normal(k, sigma)) for k in range(size + 1)))


def finite(p: list[float], q: list[float]) -> Truth:
    points = np.arange(len(p)).astype(float)
    return Truth(points, np.ones(len(p)), lambda x: np.array(p), lambda x: np.array(q))


def response(epsilon: float, values: int) -> Truth:
    true, other = math.exp(epsilon) / (math.exp(epsilon) + values - 1), 1 / (math.exp(epsilon) + values - 1)
    return finite([true, other] + [other] * (values - 2), [other, true] + [other] * (values - 2))


def claim(epsilon: float, delta: float) -> Truth:
    keep, lose = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    return finite([delta, keep, lose, 0.0], [0.0, lose, keep, delta])


@dataclass(frozen=True)
class Case:
    event: Event
    relation: Relation
    truth: Truth | None
    """None if the pair bounds many mechanisms; such pairs have separate tests."""


CASES = {
    "gaussian": Case(GaussianEvent(1.2), ADD_REMOVE, on_the_line(normal(1, 1.2), normal(0, 1.2), 16)),
    "gaussian-small": Case(GaussianEvent(0.3), ADD_REMOVE, on_the_line(normal(1, 0.3), normal(0, 0.3), 6)),
    "gaussian-large": Case(GaussianEvent(40.0), ADD_REMOVE, on_the_line(normal(1, 40.0), normal(0, 40.0), 500)),
    "gaussian-replace": Case(GaussianEvent(1.2), REPLACE, on_the_line(normal(1, 1.2), normal(-1, 1.2), 16)),
    "laplace": Case(LaplaceEvent(0.7), ADD_REMOVE, on_the_line(laplace(1, 0.7), laplace(0, 0.7), 30, 0.5)),
    "laplace-replace": Case(LaplaceEvent(2.0), REPLACE, on_the_line(laplace(1, 2.0), laplace(-1, 2.0), 80)),
    "removed": Case(
        PoissonSampledEvent(GaussianEvent(0.8), 0.1),
        ADD_REMOVE,
        on_the_line(mix((0.9, normal(0, 0.8)), (0.1, normal(1, 0.8))), normal(0, 0.8), 12),
    ),
    "removed-rarely": Case(
        PoissonSampledEvent(GaussianEvent(0.5), 0.001),
        ADD_REMOVE,
        on_the_line(mix((0.999, normal(0, 0.5)), (0.001, normal(1, 0.5))), normal(0, 0.5), 9),
    ),
    "removed-often": Case(
        PoissonSampledEvent(GaussianEvent(2.0), 0.9),
        ADD_REMOVE,
        on_the_line(mix((0.1, normal(0, 2.0)), (0.9, normal(1, 2.0))), normal(0, 2.0), 25),
    ),
    "removed-laplace": Case(
        PoissonSampledEvent(LaplaceEvent(0.5), 0.2),
        ADD_REMOVE,
        on_the_line(mix((0.8, laplace(0, 0.5)), (0.2, laplace(1, 0.5))), laplace(0, 0.5), 25, 0.5),
    ),
    "removed-discrete": Case(
        PoissonSampledEvent(DiscreteGaussianEvent(1.5), 0.2),
        ADD_REMOVE,
        on_the_integers(
            mix((0.8, discrete_gaussian(1.5, 0)), (0.2, discrete_gaussian(1.5, 1))), discrete_gaussian(1.5, 0), 60
        ),
    ),
    "sampled-twice": Case(
        PoissonSampledEvent(PoissonSampledEvent(GaussianEvent(0.8), 0.5), 0.2),
        ADD_REMOVE,
        on_the_line(mix((0.9, normal(0, 0.8)), (0.1, normal(1, 0.8))), normal(0, 0.8), 12),
    ),
    "replaced": Case(
        PoissonSampledEvent(GaussianEvent(0.8), 0.1),
        REPLACE,
        on_the_line(
            mix((0.9, normal(0, 0.8)), (0.1, normal(1, 0.8))), mix((0.9, normal(0, 0.8)), (0.1, normal(-1, 0.8))), 12
        ),
    ),
    "group": Case(
        GroupEvent(PoissonSampledEvent(GaussianEvent(1.5), 0.2), 3),
        ADD_REMOVE,
        on_the_line(binomial_group(1.5, 0.2, 3), normal(0, 1.5), 20),
    ),
    "response": Case(RandomizedResponseEvent(1.0), REPLACE, response(1.0, 2)),
    "response-of-4": Case(RandomizedResponseEvent(1.0, 4), REPLACE, response(1.0, 4)),
    "claim": Case(Claim(0.8, 0.01), ADD_REMOVE, claim(0.8, 0.01)),
    "only-delta": Case(Claim(0.0, 0.01), ADD_REMOVE, claim(0.0, 0.01)),
    "discrete-gaussian": Case(
        DiscreteGaussianEvent(2.0),
        ADD_REMOVE,
        on_the_integers(discrete_gaussian(2.0, 1), discrete_gaussian(2.0, 0), 80),
    ),
    "discrete-gaussian-3": Case(
        DiscreteGaussianEvent(2.5, 3),
        ADD_REMOVE,
        on_the_integers(discrete_gaussian(2.5, 3), discrete_gaussian(2.5, 0), 100),
    ),
    "discrete-gaussian-small": Case(
        DiscreteGaussianEvent(0.4),
        ADD_REMOVE,
        on_the_integers(discrete_gaussian(0.4, 1), discrete_gaussian(0.4, 0), 14),
    ),
    "discrete-gaussian-wide": Case(
        DiscreteGaussianEvent(70.0, 9),
        ADD_REMOVE,
        on_the_integers(discrete_gaussian(70.0, 9), discrete_gaussian(70.0, 0), 2500),
    ),
    "discrete-gaussian-replace": Case(
        DiscreteGaussianEvent(2.0), REPLACE, on_the_integers(discrete_gaussian(2.0, 1), discrete_gaussian(2.0, -1), 80)
    ),
    "discrete-laplace": Case(
        DiscreteLaplaceEvent(1.5), ADD_REMOVE, on_the_integers(discrete_laplace(1.5, 1), discrete_laplace(1.5, 0), 120)
    ),
    "discrete-laplace-4": Case(
        DiscreteLaplaceEvent(3.0, 4),
        ADD_REMOVE,
        on_the_integers(discrete_laplace(3.0, 4), discrete_laplace(3.0, 0), 250),
    ),
    "noisy-max": Case(NoisyMaxEvent(1.3), ADD_REMOVE, None),
    "exponential": Case(ExponentialMechanismEvent(1.3), ADD_REMOVE, None),
    "fixed-size": Case(FixedSizeSampledEvent(GaussianEvent(1.5), 2, 5), REPLACE, None),
    "fixed-size-laplace": Case(FixedSizeSampledEvent(LaplaceEvent(2.0), 2, 5), REPLACE, None),
    "parallel": Case(ParallelEvent((GaussianEvent(1.0), LaplaceEvent(1.2))), ADD_REMOVE, None),
}

EVERY_CASE = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
KNOWN = {name: case for name, case in CASES.items() if case.truth}
EVERY_KNOWN_CASE = pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN)


def pair_of(event: Event, change: Change) -> DominatingPair:
    (option,) = alternatives(event, change)
    ((pair, count),) = option.items()
    assert count == 1
    return pair


def pairs(case: Case) -> list[DominatingPair]:
    return [pair_of(case.event, change) for change in changes(case.relation)]


def directions(case: Case) -> list[tuple[DominatingPair, bool]]:
    """Return each pair, and whether its P is the truth's Q (the record is added)."""
    return [(pair, index == 1) for index, pair in enumerate(pairs(case))]
