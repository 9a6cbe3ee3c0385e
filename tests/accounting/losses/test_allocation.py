"""Balls-in-bins sampling, compared with integrals, transforms and simulations that do not use its grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from cases import first_quick
from hush.accounting import (
    AllocatedEvent,
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    GdpAccountant,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
)
from hush.accounting.losses.allocation import MIN_NOISE, AllocationProfile, _curve, _sum_law
from hush.accounting.losses.noise_profiles import GaussianProfile
from hush.errors import Unsupported
from hush.guarantee import Relation

SHARP = 1e-4  # how far an epsilon may be above the truth, relatively
SHARP_DELTA = 1e-3  # how far a delta may be, which is some power of e^epsilon
REACH = 14.0


def epsilon(event: Event, delta: float) -> float:
    return PldAccountant().compose(event).epsilon(delta)


def epochs(sigma: float, bins: int, count: int = 1) -> Event:
    return SelfComposedEvent(BallsInBinsEvent(GaussianEvent(sigma), bins), count)


def summand(normal: float | np.ndarray, sigma: float) -> np.ndarray:
    """Return W = N(1) / N(0) at a point drawn from N(0), with noise sigma."""
    return np.exp(np.asarray(normal) / sigma - 0.5 / sigma**2)


def call(strike: float, sigma: float) -> float:
    """Return E (W - strike)_+ (Black & Scholes)."""
    if strike <= 0:
        return 1 - strike
    point = sigma * math.log(strike)
    return float(ndtr(0.5 / sigma - point) - strike * ndtr(-0.5 / sigma - point))


def put(strike: float, sigma: float) -> float:
    if strike <= 0:
        return 0.0
    point = sigma * math.log(strike)
    return float(strike * ndtr(0.5 / sigma + point) - ndtr(point - 0.5 / sigma))


def two_bins(at: float, sigma: float, *, reverse: bool) -> float:
    """Return the profile of two bins. Given one summand, the other's part is known in closed form."""

    def integrand(normal: float) -> float:
        first = float(summand(normal, sigma))
        value = (
            put(2 * math.exp(-at) - first, sigma) * math.exp(at) if reverse else call(2 * math.exp(at) - first, sigma)
        )
        return math.exp(-0.5 * normal**2) / math.sqrt(2 * math.pi) * value / 2

    kink = sigma * (math.log(2) + (-at if reverse else at)) + 0.5 / sigma
    pieces = sorted({-REACH, REACH + 1 / sigma, *(kink + shift for shift in (-4, -1, 0, 1, 4))})
    return sum(
        quad(integrand, low, high, epsabs=0, epsrel=1e-10, limit=400)[0] for low, high in itertools.pairwise(pieces)
    )


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("sigma", "points"),
    [(0.4, (0.0, 1.0, 6.0, 12.0)), (1.0, (0.0, 0.3, 1.0, 3.0)), (3.0, (0.0, 0.1, 0.5, 0.9)), (10.0, (0.0, 0.05, 0.3))],
)
def test_two_bins_are_their_integral(sigma: float, points: tuple[float, ...], reverse: bool) -> None:
    profile = AllocationProfile(sigma, 2, reverse)
    for at in points:
        truth = two_bins(at, sigma, reverse=reverse)
        assert truth > 1e-12
        assert truth * (1 - 1e-8) <= float(profile.delta(np.array([at]))[0]) <= truth * (1 + SHARP_DELTA), at


@pytest.mark.parametrize("sigma", [0.1, 0.4, 1.0, 5.0, 10.0, 1000.0])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_single_summand_is_a_gaussian(sigma: float, reverse: bool) -> None:
    # One bin has the Gaussian's own profile. The grid of one summand must give the same.
    points = np.concatenate([[0.0], np.linspace(0.01, 6.0, 50) / sigma])
    exact = GaussianProfile(1 / sigma).delta(points)
    ratio = AllocationProfile(sigma, 1, reverse).delta(points) / exact
    assert (ratio >= 1 - 1e-10).all()
    assert (ratio <= 1 + SHARP_DELTA).all()


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("sigma", [0.4, 1.0, 10.0])
def test_one_bin_is_a_gaussian(sigma: float, count: int) -> None:
    for delta in (1e-12, 1e-6, 1e-3):
        assert epsilon(epochs(sigma, 1, count), delta) == epsilon(SelfComposedEvent(GaussianEvent(sigma), count), delta)


def test_with_hardly_any_noise_bins_do_not_help() -> None:
    assert epsilon(epochs(MIN_NOISE / 2, 100), 1e-6) == epsilon(GaussianEvent(MIN_NOISE / 2), 1e-6)
    assert epsilon(epochs(MIN_NOISE, 100), 1e-6) < epsilon(GaussianEvent(MIN_NOISE), 1e-6)


SUMS = [(0.4, 10), (0.4, 10_000), (0.7, 777), (1.0, 100), (1.0, 9_999), (2.0, 31), (5.0, 1_000), (10.0, 10_000)]


def atoms(sigma: float, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return L - 1 and its masses."""
    law = _sum_law(sigma, bins)
    offsets = np.concatenate([np.ldexp(run.indices, level) for level, run in law.runs.items()])
    masses = np.concatenate([run.masses for run in law.runs.values()])
    assert law.zero < 1e-27
    assert law.excess / bins < 1e-27
    return (offsets + law.centre - bins) / bins, masses


@pytest.mark.parametrize(("sigma", "bins"), SUMS)
@pytest.mark.quick_cases(2)
def test_the_sum_has_its_mass_its_mean_and_hardly_more_spread(sigma: float, bins: int) -> None:
    offsets, masses = atoms(sigma, bins)
    variance = math.expm1(sigma**-2) / bins
    assert masses.sum() == pytest.approx(1, rel=1e-11)
    assert np.dot(masses, offsets) == pytest.approx(0, abs=1e-11 * math.sqrt(1 + variance))
    assert 1 - 1e-8 <= np.dot(masses, offsets**2) / variance <= 1 + SHARP


@pytest.mark.parametrize(("sigma", "bins"), [case for case in SUMS if case[0] >= 1])
@pytest.mark.quick_cases(1)
def test_the_sum_has_its_fourth_moment(sigma: float, bins: int) -> None:
    # Another convex function, decided in the right tail.
    offsets, masses = atoms(sigma, bins)
    normal = np.linspace(-REACH, REACH + 4 / sigma, 20_001)
    weights = np.exp(-0.5 * normal**2)
    weights /= weights.sum()
    second, fourth = (float(np.dot(weights, (summand(normal, sigma) - 1) ** power)) for power in (2, 4))
    exact = (fourth / bins + 3 * (1 - 1 / bins) * second**2) / bins**2
    assert 1 - 1e-8 <= np.dot(masses, offsets**4) / exact <= 1 + 5 * SHARP


@pytest.mark.parametrize(("sigma", "bins"), SUMS)
@pytest.mark.quick_cases(2)
def test_the_sum_has_the_transform_of_a_sum(sigma: float, bins: int) -> None:
    # E e^(-r S) is the T-th power of one summand's: a convex function, decided in the left tail the more the larger r.
    offsets, masses = atoms(sigma, bins)
    normal = np.linspace(-REACH, REACH, 20_001)
    weights = np.exp(-0.5 * normal**2)
    weights /= weights.sum()
    for spreads in (1.0, 4.0, 8.0):
        rate = spreads * math.sqrt(bins) * min(sigma, 1.0)  # of L
        exact = bins * math.log(np.dot(weights, np.exp(-rate / bins * (summand(normal, sigma) - 1))))
        transform = math.log(np.dot(masses, np.exp(-rate * offsets)))
        assert exact * (1 - 1e-9) <= transform <= exact * (1 + 3 * SHARP), spreads


# Simulations. False alarms: a right bound is called wrong with probability at most 1e-8 each time, by Bernstein's
# inequality for numbers in [0, 1] of a mean (hence a variance) at most m; six times at most in a test.
FALSE_ALARM = math.log(1e8)
SIMULATIONS = [(1.0, 10, 1, 400_000), (1.0, 10, 5, 400_000), (0.6, 100, 1, 200_000)]
SLOW_SIMULATION = pytest.param(0.8, 100, 5, 160_000, marks=pytest.mark.slow)


def slack(mean: float, draws: int) -> float:
    rate = FALSE_ALARM / draws
    return math.sqrt(2 * mean * rate) + rate


def simulate(sigma: float, bins: int, count: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the losses of complete runs: of P against Q under P (removed), and of Q against P under Q (added)."""
    rng = np.random.default_rng([bins, count])
    removed, added = np.zeros(draws), np.zeros(draws)
    for _, start in itertools.product(range(count), range(0, draws, 20_000)):
        normal = rng.standard_normal((min(20_000, draws - start), bins), dtype=np.float32)
        ratios = np.exp(normal / np.float32(sigma) - np.float32(0.5 / sigma**2), dtype=np.float32)
        total, first = ratios.sum(axis=1, dtype=float), ratios[:, 0].astype(float)
        added[start : start + len(total)] -= np.log(total / bins)
        # The record is in the first bin, without loss of generality: its noise is shifted by 1.
        removed[start : start + len(total)] += np.log((total + first * math.expm1(sigma**-2)) / bins)
    return removed, added


def mean_excess(losses: np.ndarray, at: float) -> float:
    return float(np.mean(-np.expm1(np.minimum(at - losses, 0.0))))


@pytest.mark.parametrize(("sigma", "bins", "count", "draws"), [*SIMULATIONS, SLOW_SIMULATION])
@pytest.mark.quick_cases(1)
def test_simulated_losses_lie_below_the_bound_and_close_to_it(sigma: float, bins: int, count: int, draws: int) -> None:
    accountant = PldAccountant().compose(epochs(sigma, bins, count))
    samples = simulate(sigma, bins, count, draws)
    for delta in (0.1, 0.01, 0.003):
        at = accountant.epsilon(delta)
        assert max(mean_excess(losses, at) for losses in samples) <= delta + slack(delta, draws)
        # The truth is not much smaller: at a tenth less epsilon, delta is exceeded by nine standard deviations.
        closer = max(mean_excess(losses, 0.9 * at - 0.05) for losses in samples)
        assert closer > delta + slack(delta, draws)


def test_a_bound_that_is_too_small_is_noticed() -> None:
    # The negative control of the test above: noise that is a tenth too large. It exceeds by 40 standard deviations.
    sigma, bins, count, draws = SIMULATIONS[0]
    at = PldAccountant().compose(epochs(1.1 * sigma, bins, count)).epsilon(0.01)
    assert max(mean_excess(losses, at) for losses in simulate(sigma, bins, count, draws)) > 0.01 + slack(0.01, draws)


class TestPoissonTwin:
    """A broken twin: T batches accounted for as T steps of Poisson sampling at rate 1 / T, which is no upper bound."""

    sigma, bins, delta = 0.3, 10, 0.4

    def test_a_simulation_refutes_it(self) -> None:
        draws = 100_000
        claimed = epsilon(
            SelfComposedEvent(PoissonSampledEvent(GaussianEvent(self.sigma), 1 / self.bins), self.bins), self.delta
        )
        samples = simulate(self.sigma, self.bins, 1, draws)
        # 0.536, with a standard deviation of 0.0016.
        assert max(mean_excess(losses, claimed) for losses in samples) > self.delta + slack(self.delta, draws)
        right = epsilon(epochs(self.sigma, self.bins), self.delta)
        assert max(mean_excess(losses, right) for losses in samples) <= self.delta + slack(self.delta, draws)

    def test_the_certified_lower_bound_refutes_it(self) -> None:
        claimed = epsilon(
            SelfComposedEvent(PoissonSampledEvent(GaussianEvent(self.sigma), 1 / self.bins), self.bins), self.delta
        )
        lower, _ = PldAccountant().compose(epochs(self.sigma, self.bins)).interval(self.delta)
        assert lower > 1.5 * claimed

    @pytest.mark.parametrize(
        ("sigma", "bins", "count"), [(1.0, 100, 1), (1.0, 100, 10), (0.5, 1000, 1), (2.0, 100, 100)]
    )
    def test_at_small_deltas_it_is_looser(self, sigma: float, bins: int, count: int) -> None:
        steps = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(sigma), 1 / bins), bins * count)
        binned = epsilon(epochs(sigma, bins, count), 1e-6)
        assert binned <= epsilon(steps, 1e-6)
        assert binned <= epsilon(SelfComposedEvent(GaussianEvent(sigma), count), 1e-6)
        assert binned >= 0.85 * epsilon(steps, 1e-6)


DELTAS = pytest.mark.parametrize(
    "delta", [1e-6, *(pytest.param(delta, marks=pytest.mark.slow) for delta in (1e-12, 1e-3))]
)


class TestLaws:
    @DELTAS
    @pytest.mark.parametrize("count", [1, 30])
    def test_more_noise_means_less_epsilon(self, count: int, delta: float) -> None:
        values = [epsilon(epochs(sigma, 60, count), delta) for sigma in (0.4, 0.5, 0.75, 1.0, 1.6, 3.0, 10.0)]
        assert all(later <= earlier * (1 + SHARP) for earlier, later in itertools.pairwise(values)), values

    @DELTAS
    @pytest.mark.parametrize(("sigma", "count"), [(0.4, 1), (1.0, 1), (1.0, 30), (10.0, 5)])
    @pytest.mark.quick_cases(1)
    def test_more_bins_mean_less_epsilon(self, sigma: float, count: int, delta: float) -> None:
        # The mean of T summands is, in the convex order, at most that of T - 1.
        values = [epsilon(epochs(sigma, bins, count), delta) for bins in (1, 2, 3, 7, 8, 100, 1023, 10_000)]
        assert all(later <= earlier * (1 + SHARP) for earlier, later in itertools.pairwise(values)), values

    @pytest.mark.parametrize(("sigma", "bins"), [(0.4, 10), (1.0, 100), (10.0, 10_000)])
    def test_more_epochs_mean_more_epsilon(self, sigma: float, bins: int) -> None:
        values = [epsilon(epochs(sigma, bins, count), 1e-6) for count in (1, 2, 10, 1000)]
        assert all(earlier < later for earlier, later in itertools.pairwise(values)), values

    @pytest.mark.parametrize(("sigma", "bins", "count"), [(0.4, 10_000, 1000), (1.0, 100, 1), (10.0, 10_000, 1000)])
    @pytest.mark.parametrize("delta", [1e-12, 1e-3])
    def test_the_interval_is_narrow_at_the_ends_of_the_range(
        self, sigma: float, bins: int, count: int, delta: float
    ) -> None:
        lower, upper = PldAccountant().compose(epochs(sigma, bins, count)).interval(delta)
        assert 0 < lower <= upper <= lower * 1.001

    def test_neither_direction_is_left_out(self) -> None:
        # Swapping remove and add changes which pair comes first, not the worst of both.
        forward, backward = AllocationProfile(1.0, 20), AllocationProfile(1.0, 20, reverse=True)
        points = np.linspace(0.0, 2.0, 20)
        assert (forward.delta(points) >= backward.delta(points) * (1 - 1e-12)).all()
        assert forward.delta(np.zeros(1)) == pytest.approx(backward.delta(np.zeros(1)), rel=1e-11)  # total variation

    def test_profiles_fall_and_are_convex(self) -> None:
        for reverse in (False, True):
            profile = AllocationProfile(0.7, 40, reverse)
            ratios = np.linspace(1.0, 8.0, 400)
            values = profile.delta(np.log(ratios))
            assert (np.diff(values) <= 0).all()
            assert (np.diff(values, 2) >= -1e-15).all()
            assert profile.delta(np.array([profile.max_loss, 1e15])).tolist() == [profile.failure] * 2

    def test_the_error_bound_is_small_throughout_the_range(self) -> None:
        for sigma, bins in itertools.product((0.1, 0.4, 10.0), (2, 10_000)):
            assert _curve(sigma, bins).relative_error < 1e-7


class TestRefusals:
    EVENT = BallsInBinsEvent(GaussianEvent(1.0), 10)

    @pytest.mark.parametrize("accountant", [RdpAccountant, ZcdpAccountant, GdpAccountant])
    def test_other_accountants(self, accountant: type) -> None:
        with pytest.raises(Unsupported, match="balls-in-bins"):
            accountant().compose(self.EVENT)

    def test_replacement_and_groups(self) -> None:
        with pytest.raises(Unsupported, match="balls-in-bins gaussian under the relation 'replace'"):
            PldAccountant(relation=Relation.REPLACE).compose(self.EVENT)
        with pytest.raises(Unsupported, match="a group of 2"):
            PldAccountant().compose(GroupEvent(self.EVENT, 2))

    @pytest.mark.parametrize(
        "inner",
        [LaplaceEvent(1.0), ComposedEvent((GaussianEvent(1.0),)), PoissonSampledEvent(GaussianEvent(1.0), 0.1)],
        ids=lambda e: e.kind,
    )
    def test_other_mechanisms(self, inner: Event) -> None:
        with pytest.raises(Unsupported, match=f"balls-in-bins {inner.kind}"):
            PldAccountant().compose(BallsInBinsEvent(inner, 10))

    def test_a_part_is_left_and_entered_even_when_records_are_replaced(self) -> None:
        # Staying in one's part is a replacement, which is refused.
        with pytest.raises(Unsupported, match="balls-in-bins"):
            PldAccountant(relation=Relation.REPLACE).compose(ParallelEvent((self.EVENT, GaussianEvent(1.0))))


def allocation_delta(sigma: float, steps: int, times: int, at: float, *, reverse: bool) -> tuple[float, float]:
    """Return the delta of a uniformly random choice of steps, by simulation, and its standard error."""
    normals = np.random.default_rng(7).standard_normal((200_000, steps))
    # Symmetric polynomials: products of W over all choices of k of the steps seen so far.
    products = np.zeros((times + 1, len(normals)))
    products[0] = 1
    for column in summand(normals, sigma).T:
        products[1:] += column * products[:-1]
    ratios = products[times] / math.comb(steps, times)
    losses = 1 - math.exp(at) * ratios if reverse else ratios - math.exp(at)
    values = np.maximum(losses, 0)
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


class TestAllocation:
    """k of T steps, drawn uniformly at random."""

    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize(("steps", "times"), first_quick([(5, 2), (12, 5), (4, 2), (20, 2), (9, 9)], 2))
    @pytest.mark.quick_cases(1)
    def test_it_is_above_a_simulation(self, steps: int, times: int, reverse: bool) -> None:
        # Fixed key. Six standard errors.
        sigma = 1.5
        bound = PldAccountant().compose(AllocatedEvent(GaussianEvent(sigma), steps, times))
        for at in (0.1, 0.5, 1.5):
            mean, error = allocation_delta(sigma, steps, times, at, reverse=reverse)
            assert mean - 6 * error <= bound.delta(at), at

    def test_it_is_close_to_a_simulation(self) -> None:
        for steps, times in ((20, 2), (12, 3)):
            bound = PldAccountant().compose(AllocatedEvent(GaussianEvent(1.0), steps, times))
            mean, error = allocation_delta(1.0, steps, times, 0.5, reverse=False)
            assert bound.delta(0.5) < 1.2 * (mean + 6 * error)

    def test_broken_twin_with_independent_choices(self) -> None:
        # Twin: k independent choices among all T steps, which may coincide, in place of k different steps.
        def holds(event: Event) -> bool:
            mean, error = allocation_delta(1.0, 4, 3, 1.0, reverse=False)
            return PldAccountant().compose(event).delta(1.0) >= mean - 6 * error

        assert holds(AllocatedEvent(GaussianEvent(1.0), 4, 3))
        assert not holds(epochs(1.0, 4, 3))

    def test_special_cases(self) -> None:
        gaussian = GaussianEvent(1.3)
        assert epsilon(AllocatedEvent(gaussian, 30, 1), 1e-6) == epsilon(BallsInBinsEvent(gaussian, 30), 1e-6)
        assert epsilon(AllocatedEvent(gaussian, 4, 4), 1e-6) == epsilon(SelfComposedEvent(gaussian, 4), 1e-6)
        assert epsilon(AllocatedEvent(gaussian, 60, 2), 1e-6) == epsilon(epochs(1.3, 30, 2), 1e-6)
        uneven = ComposedEvent((epochs(1.3, 30), epochs(1.3, 31)))
        assert epsilon(AllocatedEvent(gaussian, 61, 2), 1e-6) == epsilon(uneven, 1e-6)

    def test_laws(self) -> None:
        by_times = [epsilon(AllocatedEvent(GaussianEvent(1.0), 24, times), 1e-6) for times in (1, 2, 5, 12, 24)]
        assert by_times == sorted(by_times)
        by_steps = [epsilon(AllocatedEvent(GaussianEvent(1.0), steps, 3), 1e-6) for steps in (3, 5, 12, 60)]
        assert by_steps == sorted(by_steps, reverse=True)

    def test_refusals(self) -> None:
        event = AllocatedEvent(GaussianEvent(1.0), 10, 2)
        for accountant in (RdpAccountant, ZcdpAccountant, GdpAccountant):
            with pytest.raises(Unsupported, match="allocated"):
                accountant().compose(event)
        with pytest.raises(Unsupported, match="allocated gaussian under the relation 'replace'"):
            PldAccountant(relation=Relation.REPLACE).compose(event)
        with pytest.raises(Unsupported, match="a group of 2"):
            PldAccountant().compose(GroupEvent(event, 2))
        with pytest.raises(Unsupported, match="allocated laplace"):
            PldAccountant().compose(AllocatedEvent(LaplaceEvent(1.0), 10, 2))
