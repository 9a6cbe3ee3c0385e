"""Profiles against the integral that defines them, and lattices against profiles: above, below, and whole."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from scipy.stats import norm

from hush.accounting import ApproximateDPEvent as Claim
from hush.accounting import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    Event,
    ExponentialMechanismEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PoissonSampledEvent,
    RandomizedResponseEvent,
)
from hush.accounting.losses.lattice import Atoms, dominated, dominating, loss_range, rounded_down
from hush.accounting.losses.pairs import Change, alternatives, changes
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.renyi import renyi_curve
from hush.guarantee import Relation

ADD_REMOVE, REPLACE = Relation.ADD_OR_REMOVE, Relation.REPLACE
Measure = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Truth:
    """Two distributions, by their densities (or masses) at points with weights."""

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
    """None where the pair is a bound on many: it has tests of its own."""


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
    "exponential": Case(ExponentialMechanismEvent(1.3), ADD_REMOVE, None),
    "fixed-size": Case(FixedSizeSampledEvent(GaussianEvent(1.5), 2, 5), REPLACE, None),
    "fixed-size-laplace": Case(FixedSizeSampledEvent(LaplaceEvent(2.0), 2, 5), REPLACE, None),
    "parallel": Case(ParallelEvent((GaussianEvent(1.0), LaplaceEvent(1.2))), ADD_REMOVE, None),
}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
KNOWN = {name: case for name, case in CASES.items() if case.truth}
EACH_KNOWN = pytest.mark.parametrize("case", KNOWN.values(), ids=KNOWN)


def pair_of(event: Event, change: Change) -> DominatingPair:
    (option,) = alternatives(event, change)
    ((pair, count),) = option.items()
    assert count == 1
    return pair


def pairs(case: Case) -> list[DominatingPair]:
    return [pair_of(case.event, change) for change in changes(case.relation)]


def directions(case: Case) -> list[tuple[DominatingPair, bool]]:
    """Each pair with whether it looks at the truth the other way round (P: the record is added)."""
    return [(pair, index == 1) for index, pair in enumerate(pairs(case))]


@EACH_KNOWN
def test_the_profile_is_the_integral_that_defines_it(case: Case) -> None:
    assert case.truth is not None
    for pair, swapped in directions(case):
        for epsilon in (0.0, 1e-3, 0.05, 0.3, 0.77, 1.0, 2.0, 3.5, 6.0):
            for profile, other in ((pair.forward, swapped), (pair.backward, not swapped)):
                truth = case.truth.delta(epsilon, swapped=other)
                found = float(profile.delta(np.array([epsilon]))[0])
                assert found == pytest.approx(truth, rel=1e-5, abs=1e-13), (epsilon, other)


@EACH_KNOWN
def test_the_renyi_divergence_is_the_integral_that_defines_it(case: Case) -> None:
    assert case.truth is not None
    if "claim" in str(case.event).lower() or isinstance(case.event, Claim):
        return
    for pair, swapped in directions(case):
        for order in (1.3, 2.0, 3.0):
            truth = case.truth.log_moment(order, swapped=swapped) / (order - 1)
            found = float(renyi_curve(pair)(np.array([order]))[0])
            assert truth * (1 - 3e-6) - 1e-12 <= found, f"order {order}: below the truth"
            if not isinstance(case.event, DiscreteGaussianEvent):  # its closed form is a bound
                assert found <= truth * (1 + 1e-5) + 1e-9, f"order {order}: not tight"


@EACH
def test_the_profile_falls_from_below_one_and_is_convex(case: Case) -> None:
    for pair in pairs(case):
        for profile in (pair.forward, pair.backward):
            epsilon = np.linspace(0, 8, 4001)
            values = profile.delta(epsilon)
            assert np.all((values >= 0) & (values <= 1))
            assert np.all(np.diff(values) <= 1e-14)
            slopes = np.diff(values) / np.diff(np.exp(epsilon))
            assert np.all(np.diff(slopes) >= -1e-9)
            if profile.max_loss < math.inf:
                beyond = profile.delta(profile.max_loss + np.array([0.0, 0.5, 5.0]))
                assert np.ptp(beyond) <= 1e-15, "the profile is constant from its largest loss on"


def test_the_worst_bounded_range_mechanism() -> None:
    # Dong, Durfee & Rogers 2020: losses t and t - range; the worst t for each epsilon, by brute force.
    (pair, _) = pairs(CASES["exponential"])
    range_, t = 1.3, np.linspace(0, 1.3, 200_001)
    chance = np.expm1(range_ - t) / np.expm1(range_) * np.exp(t)
    for epsilon in np.linspace(0, 1.3, 14):
        truth = float(np.max(chance * np.maximum(-np.expm1(epsilon - t), 0.0)))
        assert float(pair.forward.delta(np.array([epsilon]))[0]) == pytest.approx(truth, rel=1e-8, abs=1e-15)


def test_an_exponential_mechanism_lies_below_its_bound() -> None:
    (pair, _) = pairs(CASES["exponential"])
    rng = np.random.default_rng(5)
    for _ in range(200):
        scores = rng.uniform(0, 3, 6)
        shifted = scores + rng.uniform(-1, 1, 6)
        p, q = (np.exp(0.65 * each) / np.exp(0.65 * each).sum() for each in (scores, shifted))
        for epsilon in (0.0, 0.2, 0.6, 1.0):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
            assert truth <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-12


# The real mechanism on tiny data sets, every batch listed: its own profile may nowhere exceed the pair's.
OTHERS = [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (-1.0, -1.0, -1.0), (1.0, -1.0, 0.0), (1.0, 1.0, -1.0), (0.3, -0.8, 0.5)]
CHANGES = [(1.0, -1.0), (1.0, 0.0), (-1.0, 1.0), (0.5, -0.5)]


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
def test_fixed_size_sampling_by_brute_force(others: tuple[float, ...], change: tuple[float, float], noise: str) -> None:
    sigma, batch, size = 1.1, 2, 4
    density = normal if noise == "gaussian" else laplace
    event = GaussianEvent(sigma) if noise == "gaussian" else LaplaceEvent(sigma)
    first, second = (
        mix(
            *(
                (1 / math.comb(size, batch), density(sum(chosen), sigma))
                for chosen in itertools.combinations((*others, one), batch)
            )
        )
        for one in change
    )
    truth = on_the_line(first, second, 30 if noise == "laplace" else 14, num_points=20_001)
    (pair,) = [pair_of(FixedSizeSampledEvent(event, batch, size), each) for each in changes(REPLACE)]
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert truth.delta(epsilon) <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-6
        assert truth.delta(epsilon, swapped=True) <= float(pair.backward.delta(np.array([epsilon]))[0]) + 1e-6


@pytest.mark.parametrize("others", OTHERS)
@pytest.mark.parametrize("change", [*CHANGES, (1.0, None), (-0.4, None)])
def test_poisson_sampling_by_brute_force(others: tuple[float, ...], change: tuple[float, float | None]) -> None:
    sigma, rate = 0.9, 0.3

    def mechanism(records: tuple[float, ...]) -> Measure:
        batches = itertools.product((0, 1), repeat=len(records))
        return mix(
            *(
                (
                    rate ** sum(chosen) * (1 - rate) ** (len(records) - sum(chosen)),
                    normal(float(np.dot(chosen, records)), sigma),
                )
                for chosen in batches
            )
        )

    with_it, other = change
    truth = on_the_line(
        mechanism((*others, with_it)),
        mechanism(others if other is None else (*others, other)),
        14,
        num_points=20_001,
    )
    relation = ADD_REMOVE if other is None else REPLACE
    pair = pair_of(PoissonSampledEvent(GaussianEvent(sigma), rate), changes(relation)[0])
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0):
        assert truth.delta(epsilon) <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-6
        assert truth.delta(epsilon, swapped=True) <= float(pair.backward.delta(np.array([epsilon]))[0]) + 1e-6


def lattice_delta(atoms: Atoms | list[Atoms], epsilon: np.ndarray) -> np.ndarray:
    """The profile of a lattice; of several lower ones, each of which must hold, the largest."""
    if isinstance(atoms, list):
        return np.max([lattice_delta(each, epsilon) for each in atoms], axis=0)
    gaps = -np.expm1(np.minimum(epsilon[:, None] - atoms.losses[None, :], 0.0))
    return atoms.infinite + np.where(gaps > 0, gaps, 0.0) @ atoms.masses


def points(pair: DominatingPair, spacing: float, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    low, high = loss_range(pair, 1e-13)
    indices = np.arange(-math.ceil((offset - low) / spacing), math.ceil((high - offset) / spacing) + 1)
    return offset + indices * spacing, np.full(len(indices) - 1, spacing)


def lattices(pair: DominatingPair, spacing: float) -> tuple[Atoms, list[Atoms]]:
    """The lattice from above, and all that are offered from below: with a point at 0, and at the smallest loss."""
    smallest = -pair.backward.max_loss
    offsets = [0.0, smallest] if -math.inf < smallest < 0 else [0.0]
    below = []
    for offset in offsets:
        below += [*dominated(pair, *points(pair, spacing, offset)), rounded_down(pair, *points(pair, spacing, offset))]
    return dominating(pair, *points(pair, spacing)), below


def curve(pair: DominatingPair, epsilon: np.ndarray) -> np.ndarray:
    """The whole profile, also at negative epsilon, where it follows from the other direction's."""
    right = pair.forward.delta(np.maximum(epsilon, 0.0))
    left = -np.expm1(epsilon) + np.exp(epsilon) * pair.backward.delta(np.maximum(-epsilon, 0.0))
    return np.where(epsilon >= 0, right, left)


SPACINGS = pytest.mark.parametrize("spacing", [0.3, 0.01])


@EACH
@SPACINGS
def test_dominated_below_profile_below_dominating(case: Case, spacing: float) -> None:
    for pair in pairs(case):
        above, below = lattices(pair, spacing)
        for epsilon in (np.linspace(-3, 0, 400), np.linspace(0, 9, 1200), np.geomspace(1e-6, 0.3, 300)):
            truth = curve(pair, epsilon)
            assert np.all(truth <= lattice_delta(above, epsilon) + 1e-13 + 1e-9 * truth)
            for one in below:
                assert np.all(lattice_delta(one, epsilon) <= truth + 1e-13 + 1e-12 * truth)


@EACH
def test_the_tails_are_bounded_relatively_too(case: Case) -> None:
    # Far out, where delta is 1e-10: an absolute error of 1e-13 would be no bound.
    for pair in pairs(case):
        above, below = lattices(pair, 0.02)
        high = loss_range(pair, 1e-10)[1]
        epsilon = np.linspace(0.3 * high, 0.98 * high, 200)
        truth = curve(pair, epsilon)
        assert np.all(truth * (1 - 1e-9) - 1e-16 <= lattice_delta(above, epsilon))
        for one in below:
            assert np.all(lattice_delta(one, epsilon) <= truth * (1 + 1e-9) + 1e-16)


@EACH
@SPACINGS
def test_masses_are_a_distribution_under_both(case: Case, spacing: float) -> None:
    for pair in pairs(case):
        above, below = lattices(pair, spacing)
        assert np.all(above.masses >= -1e-11)  # rounding of the curve, over the spacing
        other = float(np.dot(above.masses, np.exp(-above.losses)))
        assert other <= 1 + 1e-9, "Q's probabilities, e^-loss times P's, sum to at most 1"
        assert below
        assert float(above.masses.sum()) + above.infinite == pytest.approx(1, abs=1e-12)
        for atoms in below:
            assert np.all(atoms.masses >= 0)
            assert float(atoms.masses.sum()) + atoms.infinite <= 1 + 1e-12 + float(atoms.mass_noise.sum())


@EACH
def test_finer_is_closer(case: Case) -> None:
    for pair in pairs(case):
        epsilon = np.linspace(0.01, 3, 200)
        widths = []
        for spacing in (0.1, 0.01):
            above, below = lattices(pair, spacing)
            best = np.max([lattice_delta(one, epsilon) for one in below], axis=0)
            widths.append(float(np.max(lattice_delta(above, epsilon) - best)))
        assert widths[1] <= 0.5 * widths[0] + 1e-11  # a corner between points costs the first order


@pytest.mark.parametrize(
    ("sigma", "sensitivity"),
    [(0.1, 1), (0.05, 1), (0.03, 1), (0.02, 1), (1.0, 50), (2.0, 60), (100.0, 5000), (100.0, 10_000), (64.0, 3000)],
)
def test_discrete_gaussians_with_little_noise(sigma: float, sensitivity: int) -> None:
    """delta = P(X >= t - D) - e^eps P(X >= t), the best integer t: in logs, where nothing underflows."""
    reach = int(3 * sensitivity + 60 * sigma) + 3
    points = np.arange(-reach, reach + 1).astype(float)
    logs = -0.5 * (points / sigma) ** 2
    log_tail = np.logaddexp.accumulate(logs[::-1])[::-1]
    log_tail = log_tail - log_tail[0]
    (pair, _) = [pair_of(DiscreteGaussianEvent(sigma, sensitivity), change) for change in changes(ADD_REMOVE)]
    middle = 0.5 * (sensitivity / sigma) ** 2
    for epsilon in middle + (sensitivity / sigma) * np.array([-8.0, -4.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0]):
        if epsilon < 0:
            continue
        here, there = log_tail[:-sensitivity], log_tail[sensitivity:]
        truth = float(np.max(np.exp(here) * -np.expm1(np.minimum(epsilon + there - here, 0.0))))
        found = float(pair.forward.delta(np.array([epsilon]))[0])
        assert found == pytest.approx(truth, rel=1e-8, abs=1e-18), f"epsilon {epsilon:.5g}"


def test_scipy_agrees_on_the_gaussian() -> None:
    (pair, _) = pairs(CASES["gaussian"])
    sigma = 1.2
    for epsilon in (0.0, 0.5, 1.0, 4.0):
        truth = norm.sf(sigma * epsilon - 0.5 / sigma) - math.exp(epsilon) * norm.sf(sigma * epsilon + 0.5 / sigma)
        assert float(pair.forward.delta(np.array([epsilon]))[0]) == pytest.approx(truth, rel=1e-9)
