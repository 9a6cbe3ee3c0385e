"""Correlated noise: the matrices, what an example can do to them, the noise, and its accounting by simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import toeplitz
from scipy.stats import chi2, t

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, SelfComposedEvent, calibrate_noise
from hush.errors import InvalidArgument, Unsupported
from hush.training.noise.correlated import (
    Banded,
    BufferedToeplitz,
    CorrelatedNoise,
    Factor,
    Once,
    Participation,
    PoissonTurns,
    Separated,
    _recursion,
)
from hush.training.noise.factorisation import (
    NoiseObjective,
    inverse,
    inverse_series,
    mean_error,
    sensitivity,
    square_root,
)
from hush.training.noise.gaussian import gaussian
from hush.training.noise.stream import NoiseStream
from hush.training.plan.samplers import CyclicPoisson
from oracles import closed_form

KEY = bytes(range(32))
OTHER = bytes(32)
WAYS: dict[str, CorrelatedNoise] = {
    "independent": Banded(bands=1),
    "banded": Banded(bands=5),
    "buffered": BufferedToeplitz(buffers=3),
    "windowed": BufferedToeplitz(buffers=3, window=6),
    "momentum": BufferedToeplitz(buffers=2, momentum=0.9),
}
PATTERNS: list[Participation] = [Once(), Separated(separation=7, times=3), Separated(separation=1, times=2)]

ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)

# Simulations: how often each comparison with a true claim fails by chance. There are fewer than 100 in this file.
FALSE_ALARMS = 1e-9


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors: on a busy machine, threads would mostly wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def matrix(column: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(toeplitz(column, np.zeros(len(column))))


def steps_of(num_steps: int, separation: int, times: int) -> Iterator[tuple[int, ...]]:
    """All sets of steps in which an example may take part."""
    for count in range(1, times + 1):
        for steps in itertools.combinations(range(num_steps), count):
            if all(b - a >= separation for a, b in itertools.pairwise(steps)):
                yield steps


def lower_bound(num_steps: int) -> float:
    """No factorisation has a smaller root mean squared error: the nuclear norm of prefix sums, over their number.

    |B|_F |C|_F is at least the nuclear norm of B C, and |C|_F at most sqrt(T) times its largest column. The singular
    values of prefix sums are 1 / (2 sin((2 j - 1) pi / (4 T + 2))).
    """
    angles = (2 * np.arange(1, num_steps + 1) - 1) * math.pi / (4 * num_steps + 2)
    return float((0.5 / np.sin(angles)).sum() / num_steps)


# The matrices


@ways
@pytest.mark.parametrize("num_steps", [1, 2, 30])
@pytest.mark.parametrize("participation", PATTERNS, ids=repr)
def test_columns_fall_and_inverses_are_inverse(
    way: CorrelatedNoise, num_steps: int, participation: Participation
) -> None:
    factor = way.factor(num_steps, participation)
    column = factor.column
    assert len(column) == len(factor.inverse) == num_steps
    assert (np.diff(column) <= 1e-7).all()  # single precision; the sensitivity is a bound for any column
    assert (column >= 0).all()
    assert np.allclose(matrix(column) @ matrix(factor.inverse), np.eye(num_steps), atol=1e-12)
    assert factor.sensitivity(Once()) == pytest.approx(1, abs=1e-6)
    assert (factor.inverse[1:] <= 1e-12).all() or isinstance(way, Banded)


def test_bands_are_bands_and_windows_are_windows() -> None:
    assert (Banded(bands=5).factor(40, Once()).column[5:] == 0).all()
    assert (BufferedToeplitz(window=6).factor(40, Once()).inverse[6:] == 0).all()


@given(
    st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4),
    st.lists(st.floats(0.0, 0.999), min_size=4, max_size=4),
    st.integers(1, 30),
)
@settings(max_examples=100, deadline=None)
def test_cutting_the_inverse_of_moments_leaves_falling_columns(
    weights: list[float], decays: list[float], window: int
) -> None:
    """As `optimal_buffers` says; whatever the weights and decays are."""
    shares = np.array(weights) / max(sum(weights), 1.0)
    column = np.concatenate([[1.0], shares @ np.array(decays[: len(shares)])[:, None] ** np.arange(1, 60)])
    cut = inverse(inverse_series(column)[:window], 60)
    assert (np.diff(cut) <= 1e-12).all()
    assert (cut >= -1e-12).all()


@ways
def test_the_optimum_is_the_same_whenever_it_is_found(way: CorrelatedNoise) -> None:
    first = way.factor(30, Once())
    _recursion.cache_clear()
    assert way.factor(30, Once()) == first


@pytest.mark.parametrize("window", [None, 8])
@pytest.mark.parametrize("pattern", [(60, 1), (15, 3)])
def test_gradients_are_those_of_the_objective(window: int | None, pattern: tuple[int, int], monkeypatch: Any) -> None:
    from hush.training.noise import factorisation as factorisation_module

    def check(loss: Any, start: NDArray[np.float64]) -> NDArray[np.float64]:
        for place, slope in enumerate(loss(start)[1]):
            nudge = 1e-5 * np.eye(len(start))[place]
            found = (loss(start + nudge)[0] - loss(start - nudge)[0]) / 2e-5
            assert found == pytest.approx(slope, abs=1e-7)
        return start

    monkeypatch.setattr(factorisation_module, "_minimum", check)
    objective = NoiseObjective(60, *pattern, 0.5)
    factorisation_module.optimal_buffers(3, objective, window)
    factorisation_module.optimal_bands(5, objective)


# What an example can do


@pytest.mark.parametrize(("separation", "times"), [(7, 1), (3, 3), (2, 2), (2, 4), (1, 3)])
def test_sensitivities_are_those_of_all_patterns(separation: int, times: int) -> None:
    """Of falling columns exactly: over all steps, and all signs; and no vectors in the plane do more."""
    random = np.random.default_rng(1)
    for _ in range(5):
        column = np.sort(random.exponential(size=7))[::-1]
        C = matrix(column)
        worst, planar = 0.0, 0.0
        for steps in steps_of(7, separation, times):
            for signs in itertools.product((-1, 1), repeat=len(steps)):
                worst = max(worst, float(np.linalg.norm(C[:, steps] @ np.array(signs))))
            angles = random.uniform(0, 2 * math.pi, (50, len(steps)))
            vectors = np.stack([np.cos(angles), np.sin(angles)], -1)
            planar = max(planar, float(np.linalg.norm(C[:, steps] @ vectors, axis=(1, 2)).max()))
        claimed = sensitivity(column, separation, min(times, -(-7 // separation)))
        assert worst <= claimed <= worst * (1 + 1e-8)
        assert planar <= claimed


def test_sensitivities_are_bounds_for_any_column() -> None:
    random = np.random.default_rng(2)
    for _ in range(20):
        column = random.normal(size=7)
        C = matrix(column)
        worst = max(
            float(np.linalg.norm(C[:, steps] @ np.array(signs)))
            for steps in steps_of(7, 2, 3)
            for signs in itertools.product((-1, 1), repeat=len(steps))
        )
        assert worst <= sensitivity(column, 2, 3)


@ways
@pytest.mark.parametrize("participation", PATTERNS, ids=repr)
def test_factors_have_these_sensitivities(way: CorrelatedNoise, participation: Participation) -> None:
    factor = way.factor(12, participation)
    C = matrix(factor.column)
    worst = max(float(np.linalg.norm(C[:, steps].sum(1))) for steps in steps_of(12, *participation.pattern(12)))
    assert worst <= factor.sensitivity(participation) <= worst * (1 + 1e-6)


def test_disjoint_bands_add_up_in_squares() -> None:
    factor = Banded(bands=5).factor(40, Separated(separation=8, times=4))
    assert factor.sensitivity(Separated(separation=8, times=4)) == pytest.approx(2, rel=1e-6)


# The noise


def explicit(factor: Factor, num_steps: int, size: int) -> NDArray[np.float64]:
    draws = np.stack([gaussian(KEY, step, size).double().numpy() for step in range(num_steps)])
    return matrix(factor.inverse) @ draws


@ways
@pytest.mark.parametrize("num_steps", [1, 12, 300])
def test_the_stream_is_the_product_with_the_inverse(way: CorrelatedNoise, num_steps: int) -> None:
    factor = way.factor(num_steps, Once())
    stream = NoiseStream(factor.recursion, KEY, 37, num_steps=num_steps)
    found = [stream(step) for step in range(num_steps)]
    assert all(each.dtype is torch.float32 for each in found)
    assert np.allclose(torch.stack(found).double().numpy(), explicit(factor, num_steps, 37), atol=2e-6)


@ways
def test_a_step_is_the_same_whenever_it_is_asked_for(way: CorrelatedNoise) -> None:
    """In any order, from a new stream, and whatever is done with what was returned."""
    recursion = way.factor(20, Once()).recursion
    stream = NoiseStream(recursion, KEY, 11, num_steps=20)
    in_order = [stream(step) for step in range(20)]
    for step in (7, 7, 3, 19, 0, 8):
        assert torch.equal(stream(step).clone(), in_order[step])
        stream(step).zero_()
    assert torch.equal(NoiseStream(recursion, KEY, 11, num_steps=20)(13), in_order[13])


@ways
def test_a_resumed_run_continues_one_mechanism_under_a_new_key(way: CorrelatedNoise) -> None:
    factor = way.factor(20, Once())
    stream = NoiseStream(factor.recursion, [(0, KEY), (9, OTHER)], 11, num_steps=20)
    first = NoiseStream(factor.recursion, KEY, 11, num_steps=20)
    assert all(torch.equal(stream(step), first(step)) for step in range(9))
    draws = [gaussian(KEY if step < 9 else OTHER, step, 11).double().numpy() for step in range(20)]
    found = torch.stack([stream(step) for step in range(20)]).double().numpy()
    assert np.allclose(found, matrix(factor.inverse) @ np.stack(draws), atol=2e-6)


def test_a_failed_step_leaves_nothing_behind(monkeypatch: Any) -> None:
    from hush.training.noise import stream as noise_stream_module

    recursion = Banded(bands=4).factor(9, Once()).recursion
    stream, expected = (NoiseStream(recursion, KEY, 5, num_steps=9) for _ in range(2))
    stream(3)

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(noise_stream_module, "gaussian", fail)
        with pytest.raises(MemoryError):
            stream(4)
    assert torch.equal(stream(4), expected(4))


def covariance_p_values(noise: NDArray[np.float64], column: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of the hypothesis that the columns of ``noise`` are independent, each C^-1 times a standard normal vector.

    Whitened by C: two-sided, exact p-values of the variances (chi squared) and of the correlations (Student's t).
    """
    white = matrix(column) @ noise
    size = white.shape[1]
    squares = (white**2).sum(1)
    tails = [2 * min(chi2.cdf(each, size), chi2.sf(each, size)) for each in squares]
    for i, j in itertools.combinations(range(len(white)), 2):
        r = float(white[i] @ white[j]) / math.sqrt(squares[i] * squares[j])
        tails.append(2 * t.sf(abs(r) * math.sqrt((size - 1) / (1 - r * r)), size - 1))
    return np.array(tails)


@ways
def test_the_noise_has_the_covariance_of_the_inverse(way: CorrelatedNoise) -> None:
    """21 p-values, one of them below 1e-9 / 21 once in 1e9 times; controls: 3 % off, and no correlation."""
    factor = way.factor(6, Once())
    stream = NoiseStream(factor.recursion, KEY, 50_000, num_steps=6)
    noise = torch.stack([stream(step) for step in range(6)]).double().numpy()
    limit = FALSE_ALARMS / 21
    assert covariance_p_values(noise, factor.column).min() > limit
    assert covariance_p_values(0.97 * noise, factor.column).min() < limit
    assert covariance_p_values(1.03 * noise, factor.column).min() < limit
    if factor.recursion.bands != 1:
        assert covariance_p_values(noise, np.eye(1, 6)[0]).min() < limit


# Utility


def test_buffers_are_near_the_best_possible() -> None:
    """One epoch of 1,000 steps, as ratios to a lower bound of 2.902 that no factorisation attains."""
    bound, once = lower_bound(1000), Once()
    root = square_root(1000)
    square = mean_error(inverse_series(root)) * sensitivity(root, 1000, 1) / bound
    assert square == pytest.approx(1.069, abs=1e-3)
    expected: list[tuple[CorrelatedNoise, float]] = [
        (BufferedToeplitz(buffers=1), 1.187),
        (BufferedToeplitz(buffers=2), 1.060),
        (BufferedToeplitz(buffers=4), 1.051),
        (BufferedToeplitz(buffers=3, window=128), 1.057),
        (BufferedToeplitz(buffers=3, window=32), 1.110),
        (Banded(bands=64), 1.391),
        (Banded(bands=1), 7.709),
    ]
    for way, ratio in expected:
        factor = way.factor(1000, once)
        assert factor.error() * factor.sensitivity(once) / bound == pytest.approx(ratio, abs=3e-3), way


def test_optimised_bands_beat_the_square_roots() -> None:
    root = np.where(np.arange(1000) < 16, square_root(1000), 0.0)
    square = mean_error(inverse_series(root)) * sensitivity(root, 1000, 1)
    factor = Banded(bands=16).factor(1000, Once())
    assert factor.error() * factor.sensitivity(Once()) < 0.9 * square


def noise_of_sums(way: CorrelatedNoise, participation: Participation, num_steps: int, epsilon: float) -> float:
    """The root mean squared error of prefix sums at a given epsilon."""
    factor = way.factor(num_steps, participation)
    noise = calibrate_noise(epsilon=epsilon, delta=1e-6, template=lambda noise: factor.event(noise, participation))
    return noise * factor.error(way.momentum)


def test_correlated_noise_beats_independent_noise_at_equal_epsilon() -> None:
    once = Once()
    stream = {name: noise_of_sums(way, once, 1000, 2.0) for name, way in WAYS.items() if name != "momentum"}
    assert stream["buffered"] < stream["independent"] / 7
    assert stream["windowed"] < stream["independent"] / 5
    assert stream["banded"] < stream["independent"] / 2
    epochs = Separated(separation=100, times=4)
    best = noise_of_sums(BufferedToeplitz(), epochs, 400, 2.0)
    assert best < noise_of_sums(Banded(bands=1), epochs, 400, 2.0) / 3


def test_bands_beat_sampling_alone_at_equal_epsilon() -> None:
    """10,000 examples, batches of 100, four epochs: b bands are sampled at b times the rate, and yet do better."""

    def error(bands: int, epsilon: float) -> float:
        turns = PoissonTurns(num_parts=bands, sampling_rate=bands * 100 / 10_000)
        return noise_of_sums(Banded(bands=bands), turns, 400, epsilon)

    assert error(2, 0.5) < 0.98 * error(1, 0.5)
    assert error(8, 2.0) < 0.75 * error(1, 2.0)
    assert error(16, 8.0) < 0.52 * error(1, 8.0)


def test_ten_thousand_steps_are_found_quickly() -> None:
    """Seconds, not minutes; and within 5 % of the bound."""
    factor = BufferedToeplitz().factor(10_000, Once())
    assert factor.error() * factor.sensitivity(Once()) < 1.05 * lower_bound(10_000)


# Accounting


@pytest.mark.parametrize("num_steps", [0, 1, 3, 8])
def test_fewer_steps_cost_no_more(num_steps: int) -> None:
    for participation in (*PATTERNS, PoissonTurns(num_parts=5, sampling_rate=0.3)):
        factor = Banded(bands=5).factor(20, participation)
        spent = [
            PldAccountant().compose(factor.event(1.0, participation, steps)).epsilon(1e-5)
            for steps in (num_steps, num_steps + 5, 20)
        ]
        assert spent == sorted(spent)
        assert num_steps > 0 or spent[0] == 0


def test_one_band_is_private_gradient_descent() -> None:
    event = Banded(bands=1).event(2.0, PoissonTurns(num_parts=1, sampling_rate=0.1), 50)
    assert isinstance(event, SelfComposedEvent)
    assert isinstance(event.event, PoissonSampledEvent)
    assert isinstance(event.event.event, GaussianEvent)
    assert (event.count, event.event.sampling_rate) == (50, 0.1)
    assert event.event.event.noise_multiplier == pytest.approx(2, rel=1e-8)


def test_turns_of_everybody_are_separated_steps() -> None:
    factor = Banded(bands=4).factor(40, Once())
    turns = PldAccountant().compose(factor.event(3.0, PoissonTurns(num_parts=5, sampling_rate=1.0)))
    apart = PldAccountant().compose(factor.event(3.0, Separated(separation=5, times=8)))
    assert turns.epsilon(1e-5) == pytest.approx(apart.epsilon(1e-5), rel=1e-6)


def simulated_delta(
    factor: Factor, means: NDArray[np.float64], chances: NDArray[np.float64], noise: float, epsilon: float
) -> tuple[float, float]:
    """Bounds on delta(P, Q) that hold but for one time in 1e9: from releases, made of the stream's noise.

    Many one-dimensional runs: each element of the noise is one. Q is noise alone; P adds one of the rows of
    ``means``, with its chance. The likelihood ratio is exact, as both are normal mixtures of a known covariance, that
    of the release itself. Delta is the mean of (1 - e^epsilon Q / P)_+ over P; its distance from the runs' mean is
    bounded by the empirical Bernstein inequality (Audibert, Munos & Szepesvari 2009, Theorem 1).
    """
    runs, num_steps = 100_000, means.shape[1]
    stream = NoiseStream(factor.recursion, KEY, runs, num_steps=factor.num_steps)
    release = noise * torch.stack([stream(step) for step in range(num_steps)]).double().numpy()
    chosen = np.random.default_rng(3).choice(len(means), size=runs, p=chances)
    release += means[chosen].T
    precision = np.linalg.inv(noise**2 * matrix(factor.inverse) @ matrix(factor.inverse).T)
    exponents = means @ precision @ release - 0.5 * np.einsum("it,ts,is->i", means, precision, means)[:, None]
    ratio = chances @ np.exp(exponents)
    values = np.maximum(0, 1 - math.exp(epsilon) / ratio)
    found, chance = float(values.mean()), math.log(3 / FALSE_ALARMS) / runs
    slack = math.sqrt(2 * float(values.var()) * chance) + 3 * chance
    return found - slack, found + slack


CASES: list[tuple[str, Participation, list[int]]] = [
    ("banded", Once(), [0]),
    ("buffered", Once(), [0]),
    ("windowed", Once(), [0]),
    ("banded", Separated(separation=2, times=3), [0, 2, 4]),
    ("buffered", Separated(separation=2, times=3), [0, 2, 4]),
    ("windowed", Separated(separation=1, times=2), [0, 1]),
]


@pytest.mark.parametrize(("name", "participation", "steps"), CASES, ids=[f"{case[0]}, {case[1]}" for case in CASES])
def test_the_accountant_agrees_with_releases(name: str, participation: Participation, steps: list[int]) -> None:
    """A whole run of 6 steps, one example worst placed: the exact loss of what was really released; and a broken twin.

    The twin forgets that columns add up, and takes the largest column for the sensitivity of several participations.
    """
    noise, epsilon = 2.0, 0.5
    factor = WAYS[name].factor(6, participation)
    means = np.zeros((1, 6))
    means[0, steps] = 1.0
    low, high = simulated_delta(factor, means, np.ones(1), noise, epsilon)
    event = factor.event(noise, participation)
    assert isinstance(event, GaussianEvent)
    claimed = PldAccountant().compose(event).delta(epsilon)
    exact = closed_form.gaussian(noise / float(np.linalg.norm(matrix(factor.column)[:, steps].sum(1))))(epsilon)
    assert exact <= claimed <= 1.001 * exact
    assert low <= claimed <= high
    twin = PldAccountant().compose(factor.event(noise, Once())).delta(epsilon)
    assert (twin < low) == (len(steps) > 1)


def exact_delta(gram: NDArray[np.float64], rate: float, noise: float, epsilon: float) -> tuple[float, float]:
    """delta(P, Q) and delta(Q, P) for two steps, each with its chance, whose columns have these inner products.

    Only the plane of the two columns matters; there, by a fine sum over a grid.
    """
    points = np.linspace(-8 * noise, 8 * noise + 2, 1201)
    area = (points[1] - points[0]) ** 2
    first, second = np.linalg.cholesky(gram)
    x, y = points[:, None], points[None, :]

    def density(mean: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-((x - mean[0]) ** 2 + (y - mean[1]) ** 2) / (2 * noise**2)) / (2 * math.pi * noise**2)

    q = density(np.zeros(2))
    p = (1 - rate) ** 2 * q + rate**2 * density(first + second)
    p += rate * (1 - rate) * (density(first) + density(second))
    bare = math.exp(epsilon)
    return float(np.maximum(0, p - bare * q).sum() * area), float(np.maximum(0, q - bare * p).sum() * area)


@pytest.mark.parametrize("rate", [0.2, 0.6])
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_amplification_is_a_bound_and_nearly_tight(rate: float, epsilon: float) -> None:
    """Four steps, two bands, two parts: an example of the first part is exactly what is accounted for."""
    noise, turns = 1.0, PoissonTurns(num_parts=2, sampling_rate=rate)
    factor = Banded(bands=2).factor(4, turns)
    C = matrix(factor.column)
    claimed = PldAccountant().compose(factor.event(noise, turns)).delta(epsilon)
    first = max(exact_delta(C[:, [0, 2]].T @ C[:, [0, 2]], rate, noise, epsilon))
    second = max(exact_delta(C[:, [1, 3]].T @ C[:, [1, 3]], rate, noise, epsilon))
    assert second < first <= claimed * (1 + 1e-4)
    assert claimed <= first * (1 + 2e-3)


def test_amplification_agrees_with_releases() -> None:
    noise, rate, epsilon = 1.0, 0.3, 0.5
    turns = PoissonTurns(num_parts=2, sampling_rate=rate)
    factor = Banded(bands=2).factor(4, turns)
    means = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0], [1, 0, 1, 0]], dtype=float)
    chances = np.array([(1 - rate) ** 2, rate * (1 - rate), rate * (1 - rate), rate**2])
    low, high = simulated_delta(factor, means, chances, noise, epsilon)
    claimed = PldAccountant().compose(factor.event(noise, turns)).delta(epsilon)
    assert low <= claimed <= high
    whole = PldAccountant().compose(factor.event(noise, replace(turns, sampling_rate=1.0))).delta(epsilon)
    assert whole > high  # without amplification it would be much


def test_more_bands_than_parts_would_break_amplification() -> None:
    """What is refused: the same event for a factor whose columns overlap claims too little."""
    noise, rate, epsilon = 1.0, 0.6, 0.5
    turns = PoissonTurns(num_parts=2, sampling_rate=rate)
    factor = Banded(bands=4).factor(4, turns)
    with pytest.raises(InvalidArgument, match="^num_parts=2"):
        factor.event(noise, turns)
    C = matrix(factor.column)[:, [0, 2]]
    twin = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), 2)
    assert max(exact_delta(C.T @ C, rate, noise, epsilon)) > 1.01 * PldAccountant().compose(twin).delta(epsilon)


# Who takes part


def test_parts_take_turns() -> None:
    cyclic = CyclicPoisson(16, parts=3)  # of 96: a rate of a half
    counts, parts = np.zeros(96), np.full(96, -1)
    for step in range(300):
        sample = cyclic.sample(lambda step: KEY, step, 96, 16)
        assert np.isin(parts[sample], (-1, step % 3)).all(), "everyone stays in one part"
        parts[sample] = step % 3
        counts[sample] += 1
    assert (parts >= 0).all()
    assert abs(counts.sum() - 4800) < 6.2 * math.sqrt(9600 / 4)  # of 9,600 fair coins: 6e-10


# Refusals


@pytest.mark.parametrize("way", [BufferedToeplitz(), BufferedToeplitz(window=4)], ids=repr)
def test_no_amplification_without_a_proof(way: CorrelatedNoise) -> None:
    with pytest.raises(Unsupported, match="amplification"):
        way.event(1.0, PoissonTurns(num_parts=4, sampling_rate=0.1), 20)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Banded(bands=0),
        lambda: Banded(bands=4, momentum=math.nan),
        lambda: Banded(bands=4, momentum=1.0),
        lambda: BufferedToeplitz(buffers=21),
        lambda: BufferedToeplitz(window=0),
        lambda: Separated(separation=0, times=1),
        lambda: Separated(separation=1, times=True),
        lambda: PoissonTurns(num_parts=2, sampling_rate=math.nan),
        lambda: Banded(bands=4).factor(0, Once()),
        lambda: Banded(bands=4).factor(10**6, Once()),
        lambda: Banded(bands=4).factor(10, "once"),  # type: ignore[arg-type]
        lambda: Banded(bands=4).event(math.nan, Once(), 10),
        lambda: Banded(bands=4).factor(10, Once()).event(1.0, Once(), 11),
    ],
)
def test_wrong_arguments_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidArgument):
        wrong()


def test_steps_beyond_what_is_accounted_for_are_refused() -> None:
    stream = NoiseStream(Banded(bands=2).factor(5, Once()).recursion, KEY, 3, num_steps=5)
    for step in (5, -1, True):
        with pytest.raises(InvalidArgument, match="^step="):
            stream(step)
    for keys in ([], [(1, KEY)], [(0, KEY), (0, OTHER)]):
        with pytest.raises(InvalidArgument, match="^keys="):
            NoiseStream(stream.recursion, keys, 3, num_steps=5)
