"""Each sampling: its distribution, its event, and the event against simulated privacy losses."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from scipy.stats import binomtest

from hush.accounting import ComposedEvent, GaussianEvent, PldAccountant, SelfComposedEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.randomness import TestSource
from hush.training import (
    BallsInBins,
    CyclicPoisson,
    FixedSize,
    Full,
    InOrder,
    PerExample,
    Poisson,
    ShuffledEpochs,
)
from hush.training.plan.draws import poisson_sample
from training.sums import data, run

KEY = bytes(range(32))


def test_samples_are_poisson() -> None:
    """Independent inclusion of each example: rates, correlations of pairs, and the distribution of the batch size.

    False alarms: 2e-9 for 6 standard deviations, and 1e-8 for a chi-squared test (28 or more are expected in each
    class; for the rates it is conservative, as their variance is below that of a Poisson law): 3e-8 in all.
    """
    samples = [poisson_sample(KEY, step, 60, 0.2) for step in range(10_000)]
    taken = np.zeros((len(samples), 60))
    for row, sample in enumerate(samples):
        assert np.all(np.diff(sample) > 0)
        taken[row, sample] = 1
    rates = taken.sum(0)
    assert stats.chisquare(rates, np.full(60, rates.sum() / 60)).pvalue > 1e-8
    assert abs(taken.mean() - 0.2) < 6 * math.sqrt(0.16 / taken.size)
    neighbours = np.corrcoef(taken[:, :-1].ravel(), taken[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 6 / math.sqrt(taken.size)
    counts = np.bincount(taken.sum(1).astype(int), minlength=61)[4:22]
    law = stats.binom.pmf(np.arange(4, 22), 60, 0.2) * len(samples)
    assert stats.chisquare(counts, law * counts.sum() / law.sum()).pvalue > 1e-8
    assert np.array_equal(poisson_sample(KEY, 3, 60, 1.0), np.arange(60))


def test_fixed_size_samples_are_uniform_and_fast() -> None:
    taken = np.zeros(30)
    for step in range(20_000):
        sample = FixedSize(3).sample(lambda step: bytes(32), step, 30, 3)
        assert len(set(sample.tolist())) == 3
        taken[sample] += 1
    # False alarms: 3.3e-9, for 30 binomial counts.
    assert np.abs(taken - 2000).max() < 6.5 * np.sqrt(20_000 * 0.1 * 0.9)
    assert len(FixedSize(500).sample(lambda step: bytes(32), 0, 10_000_000, 500)) == 500


def test_shuffled_epochs_state_that_they_are_not_amplified() -> None:
    x, y = data()
    promised = run(x, y, sampling=ShuffledEpochs(8), num_steps=10).plan.guarantee()
    assert "not amplified" in promised.method
    assert promised.epsilon == pytest.approx(run(x, y, sampling=Full(), num_steps=2).plan.guarantee().epsilon)
    assert promised.relation is Relation.ZERO_OUT


FALSE_ALARMS = 1e-8  # of each comparison that should hold; at most 32 in a test


NOISE, STEPS, UNITS_OF_TOY = 1.0, 4, 8


TOYS = [
    (Poisson(2), Relation.ADD_OR_REMOVE, "tight"),
    (Full(), Relation.ADD_OR_REMOVE, "tight"),
    (FixedSize(2), Relation.REPLACE, "bound"),
    (ShuffledEpochs(2), Relation.ZERO_OUT, "bound"),
    (InOrder(2), Relation.ZERO_OUT, "tight"),
    (BallsInBins(2), Relation.ADD_OR_REMOVE, "tight"),
    (CyclicPoisson(2, parts=2), Relation.ADD_OR_REMOVE, "bound"),
]


PATTERNS = np.array(list(product((0, 1), repeat=STEPS)))


def pattern_probabilities(sampling: Any) -> np.ndarray:
    """Return the probability of each pattern of steps in which unit 5 takes part."""
    rate = sampling.size(UNITS_OF_TOY) / UNITS_OF_TOY
    total = PATTERNS.sum(1)
    if isinstance(sampling, InOrder):
        return np.array((PATTERNS == [0, 0, 1, 0]).all(1) * 1.0)  # it is in the third batch
    if isinstance(sampling, (ShuffledEpochs, BallsInBins)):
        return np.where(total == 1, 1 / STEPS, 0.0)
    if isinstance(sampling, CyclicPoisson):  # a coin decides the part, and coins in the steps of that part
        part_rate = sampling.rate(UNITS_OF_TOY)
        turns = [
            np.where(PATTERNS[:, 1 - part :: 2].any(1), 0, part_rate**total * (1 - part_rate) ** (2 - total))
            for part in (0, 1)
        ]
        return np.array(sum(turns) / 2)
    return np.array(rate**total * (1 - rate) ** (STEPS - total))


@pytest.mark.parametrize("sampling", [toy[0] for toy in TOYS], ids=repr)
def test_units_take_part_with_the_right_probabilities(sampling: Any) -> None:
    """In runs with different keys, by exact binomial tests of 16 patterns."""
    source, runs = TestSource(11), 2_000
    counts = np.zeros(len(PATTERNS), dtype=int)
    for _ in range(runs):
        key = source.words(4).tobytes()
        batches = [
            sampling.sample(lambda step, key=key: key, step, UNITS_OF_TOY, sampling.size(UNITS_OF_TOY))
            for step in range(STEPS)
        ]
        counts[int("".join(str(int(5 in batch)) for batch in batches), 2)] += 1
    probabilities = pattern_probabilities(sampling)
    assert probabilities.sum() == pytest.approx(1)
    for pattern, count, probability in zip(PATTERNS, counts.tolist(), probabilities, strict=True):
        assert binomtest(count, runs, min(probability, 1.0)).pvalue > FALSE_ALARMS, pattern


def simulated_delta(probabilities: np.ndarray, shift: float, noise: float, epsilon: float) -> tuple[float, float]:
    """Return bounds on delta(P, Q), where a unit adds ``shift`` to otherwise empty sums when it takes part.

    P is a mixture of normal distributions, so the loss of a release is known exactly. The mean of a variable in [0, 1]
    is bounded by the empirical Bernstein inequality (Audibert, Munos & Szepesvari 2009, Theorem 1).
    """
    random, runs = np.random.default_rng(0), 200_000
    means = shift * PATTERNS[probabilities > 0]
    probabilities = probabilities[probabilities > 0]
    seen = means[random.choice(len(means), size=runs, p=probabilities)] + noise * random.standard_normal((runs, STEPS))
    loss = logsumexp((seen @ means.T - 0.5 * (means**2).sum(1)) / noise**2, axis=1, b=probabilities)
    gains = np.maximum(-np.expm1(epsilon - loss), 0.0)
    chance = math.log(3 / FALSE_ALARMS) / runs
    slack = math.sqrt(2 * float(gains.var()) * chance) + 3 * chance
    return float(gains.mean()) - slack, float(gains.mean()) + slack


@pytest.mark.parametrize(("sampling", "relation", "kind"), TOYS, ids=lambda value: str(value))
def test_simulated_losses_agree_with_the_accountant(sampling: Any, relation: Relation, kind: str) -> None:
    epsilon = 0.5
    low, high = simulated_delta(
        pattern_probabilities(sampling), 2 if relation is Relation.REPLACE else 1, NOISE, epsilon
    )
    event = sampling.event([(NOISE, sampling.size(UNITS_OF_TOY))] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant(relation=relation).compose(event).delta(epsilon)
    assert low <= claimed
    if kind == "tight":
        assert high >= claimed * 0.97


def test_accounting_for_shuffling_as_poisson_would_be_noticed() -> None:
    """A broken twin: shuffled batches, accounted for as Poisson samples, exceed the claim by 50 standard errors."""
    epsilon, noise = 4.0, 0.3
    low, _ = simulated_delta(pattern_probabilities(ShuffledEpochs(2)), 1, noise, epsilon)
    event = Poisson(2).event([(noise, 2)] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant().compose(event).delta(epsilon)
    assert low > claimed


@pytest.mark.parametrize("sampling", [toy[0] for toy in TOYS], ids=repr)
def test_sizes_and_counts_are_those_of_the_samples(sampling: Any) -> None:
    """``count`` is exact where it is known, ``room`` holds a usual batch, and epochs have the right number of steps."""
    for step in range(8):
        sample = sampling.sample(lambda step: KEY, step, UNITS_OF_TOY, sampling.size(UNITS_OF_TOY))
        count = sampling.count(step, UNITS_OF_TOY, sampling.size(UNITS_OF_TOY))
        assert count in (None, len(sample))
        assert len(set(sample.tolist())) == len(sample)
    assert sampling.size(UNITS_OF_TOY) <= sampling.room(UNITS_OF_TOY) <= UNITS_OF_TOY
    assert sampling.num_steps(3.0, UNITS_OF_TOY) == 3 * UNITS_OF_TOY // sampling.size(UNITS_OF_TOY)


def test_batches_larger_than_the_dataset_are_refused() -> None:
    for sampling in (Poisson(9), FixedSize(9), ShuffledEpochs(9), BallsInBins(9), CyclicPoisson(3, parts=3)):
        with pytest.raises(InvalidArgument, match="^batch_size="):
            sampling.check(8)
        with pytest.raises(InvalidArgument, match="^batch_size="):
            type(sampling)(0, *([3] if isinstance(sampling, CyclicPoisson) else []))


def test_an_epoch_of_changing_noise_counts_its_smallest_noise() -> None:
    """A unit takes part in one of the epoch's steps; the event has to hold for the one with the least noise."""
    settings = [(3.0, 4), (2.0, 4), (5.0, 4), (6.0, 4)]
    event = InOrder(4).event(settings, UNITS_OF_TOY, PerExample().mechanism)
    assert event == ComposedEvent((SelfComposedEvent(GaussianEvent(2.0), 1), SelfComposedEvent(GaussianEvent(5.0), 1)))
