"""Correlated noise: its factors, what they cost, and the accountant against simulated releases and exact integrals."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import binom

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, SelfComposedEvent, calibrate_noise
from hush.errors import InvalidArgument
from hush.training import Banded, BufferedToeplitz, CyclicPoisson
from hush.training.noise.correlated_noise import CorrelatedNoise, Factor, Once, Participation, PoissonTurns, Separated
from hush.training.noise.factorisation import binomial_above
from hush.training.noise.stream import NoiseStream
from oracles import closed_form
from training.noise_setups import FALSE_ALARMS, KEY, NOISES, PATTERNS, every_noise, matrix

# The matrices


@every_noise
@pytest.mark.parametrize("num_steps", [1, 2, 30])
@pytest.mark.parametrize("participation", PATTERNS, ids=repr)
def test_columns_fall_and_inverses_are_inverse(
    correlated: CorrelatedNoise, num_steps: int, participation: Participation
) -> None:
    factor = correlated.factor(num_steps, participation)
    column = factor.column
    assert len(column) == len(factor.inverse) == num_steps
    assert (np.diff(column) <= 1e-7).all()  # single precision; the sensitivity is a bound for any column
    assert (column >= 0).all()
    assert np.allclose(matrix(column) @ matrix(factor.inverse), np.eye(num_steps), atol=1e-12)
    assert factor.sensitivity(Once()) == pytest.approx(1, abs=1e-6)
    assert (factor.inverse[1:] <= 1e-12).all() or isinstance(correlated, Banded)


def test_bands_are_bands_and_windows_are_windows() -> None:
    assert (Banded(bands=5).factor(40, Once()).column[5:] == 0).all()
    assert (BufferedToeplitz(window=6).factor(40, Once()).inverse[6:] == 0).all()


def test_disjoint_bands_add_up_in_squares() -> None:
    factor = Banded(bands=5).factor(40, Separated(separation=8, times=4))
    assert factor.sensitivity(Separated(separation=8, times=4)) == pytest.approx(2, rel=1e-6)


# Utility


def noise_of_sums(correlated: CorrelatedNoise, participation: Participation, num_steps: int, epsilon: float) -> float:
    """The root mean squared error of prefix sums at a given epsilon."""
    factor = correlated.factor(num_steps, participation)
    noise = calibrate_noise(epsilon=epsilon, delta=1e-6, template=lambda noise: factor.event(noise, participation))
    return noise * factor.error(correlated.momentum)


def test_correlated_noise_beats_independent_noise_at_equal_epsilon() -> None:
    once = Once()
    stream = {name: noise_of_sums(noise, once, 1000, 2.0) for name, noise in NOISES.items() if name != "momentum"}
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
    stream = NoiseStream(factor.recursion, KEY, runs, num_steps=factor.num_steps, stddev=2.0**20)
    release = noise * 2.0**-20 * torch.stack([stream(step) for step in range(num_steps)]).numpy()
    chosen = np.random.default_rng(3).choice(len(means), size=runs, p=chances)
    release += means[chosen].T
    precision = np.linalg.inv(noise**2 * matrix(factor.inverse) @ matrix(factor.inverse).T)
    exponents = means @ precision @ release - 0.5 * np.einsum("it,ts,is->i", means, precision, means)[:, None]
    ratio = chances @ np.exp(exponents)
    values = np.maximum(0, 1 - math.exp(epsilon) / ratio)
    mean, chance = float(values.mean()), math.log(3 / FALSE_ALARMS) / runs
    slack = math.sqrt(2 * float(values.var()) * chance) + 3 * chance
    return mean - slack, mean + slack


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
    factor = NOISES[name].factor(6, participation)
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
    unsampled = PldAccountant().compose(factor.event(noise, replace(turns, sampling_rate=1.0))).delta(epsilon)
    assert unsampled > high, "without amplification it would be more"


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


@pytest.mark.parametrize("rate", [0.2, 0.6])
@pytest.mark.parametrize("correlated", [BufferedToeplitz(), BufferedToeplitz(window=2)], ids=repr)
@pytest.mark.quick_cases(1)
def test_noise_without_bands_is_paid_by_the_number_of_turns(correlated: CorrelatedNoise, rate: float) -> None:
    """Four steps, two parts: what an example of each part loses exactly is below the claim, in both directions."""
    noise, turns = 1.0, PoissonTurns(num_parts=2, sampling_rate=rate)
    factor = correlated.factor(4, turns)
    C = matrix(factor.column)
    claimed = PldAccountant().compose(factor.event(noise, turns))
    everybody = PldAccountant().compose(factor.event(noise, replace(turns, sampling_rate=1.0)))
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        worst = max(max(exact_delta(C[:, steps].T @ C[:, steps], rate, noise, epsilon)) for steps in ([0, 2], [1, 3]))
        assert worst <= claimed.delta(epsilon) * (1 + 1e-4)
        assert claimed.delta(epsilon) < everybody.delta(epsilon)


def test_noise_without_bands_is_no_sequence_of_sampled_gaussians() -> None:
    """Broken twin: the event for bands, with noise whose memory is longer than the distance of two turns."""
    noise, rate, epsilon = 1.0, 0.6, 0.5
    turns = PoissonTurns(num_parts=2, sampling_rate=rate)
    factor = BufferedToeplitz().factor(4, turns)
    C = matrix(factor.column)[:, [0, 2]]
    truth = max(exact_delta(C.T @ C, rate, noise, epsilon))
    twin = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(noise), rate), 2)
    assert PldAccountant().compose(twin).delta(epsilon) < 0.97 * truth
    assert truth < PldAccountant().compose(factor.event(noise, turns)).delta(epsilon)


@pytest.mark.parametrize(("trials", "rate"), [(1, 0.3), (7, 0.5), (40, 0.02), (1000, 0.999), (100_000, 0.1), (9, 1.0)])
def test_numbers_of_turns_are_above_binomial_ones(trials: int, rate: float) -> None:
    numbers, probabilities = binomial_above(trials, rate)
    assert math.fsum(probabilities) == pytest.approx(1, abs=1e-12)
    assert numbers == sorted(set(numbers))
    beyond = 1 - np.cumsum([0.0, *probabilities[:-1]])
    truth = binom.sf(np.array(numbers) - 1, trials, rate)
    assert (beyond >= truth - 1e-13).all()
    assert (beyond <= truth * (1 + 1e-6) + 1e-12).all()


def test_long_memory_pays_where_turns_are_many() -> None:
    """10,000 examples in batches of 50 of 50 parts, 2,000 steps: 40 turns of an example, of which it takes 10."""
    turns = PoissonTurns(num_parts=50, sampling_rate=0.25)

    def error(noise: CorrelatedNoise) -> float:
        return noise_of_sums(noise, turns, 2000, 8.0)

    certain = noise_of_sums(BufferedToeplitz(), Separated(separation=50, times=40), 2000, 8.0)
    assert error(BufferedToeplitz()) < 0.6 * certain
    assert error(BufferedToeplitz()) < 0.4 * error(Banded(bands=1))
    # With memory for 49 vectors, bands are the better choice.
    assert error(Banded(bands=50)) < error(BufferedToeplitz())


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
