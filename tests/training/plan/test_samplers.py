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

from hush.accounting import PldAccountant
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
from hush.training.plan.samplers import poisson_sample
from training.sums import data, run

KEY = bytes(range(32))


def test_samples_are_poisson() -> None:
    """Each example by itself: inclusion rates, pair correlations and the number's law.

    False alarms: 2e-9 for 6 deviations, and 1e-8 for a chi-squared test (28 or more are
    expected of each number; of rates it is cautious, as their variance is less than a Poisson law's): 3e-8 in all.
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


def test_fixed_samples_are_uniform_and_quick() -> None:
    taken = np.zeros(30)
    for step in range(20_000):
        sample = FixedSize(3).sample(lambda step: bytes(32), step, 30, 3)
        assert len(set(sample.tolist())) == 3
        taken[sample] += 1
    # False alarms: 3.3e-9, for 30 binomial counts.
    assert np.abs(taken - 2000).max() < 6.5 * np.sqrt(20_000 * 0.1 * 0.9)
    assert len(FixedSize(500).sample(lambda step: bytes(32), 0, 10_000_000, 500)) == 500


def test_shuffled_epochs_say_that_they_are_not_amplified() -> None:
    x, y = data()
    promised = run(x, y, sampling=ShuffledEpochs(8), num_steps=10).plan.guarantee()
    assert "not amplified" in promised.method
    assert promised.epsilon == pytest.approx(run(x, y, sampling=Full(), num_steps=2).plan.guarantee().epsilon)
    assert promised.relation is Relation.ZERO_OUT


FALSE_ALARMS = 1e-8  # of each comparison with something true; at most 32 in a test


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


def law(sampling: Any) -> np.ndarray:
    """Return how likely each pattern of participations of unit 5 should be."""
    rate = sampling.size(UNITS_OF_TOY) / UNITS_OF_TOY
    total = PATTERNS.sum(1)
    if isinstance(sampling, InOrder):
        return np.array((PATTERNS == [0, 0, 1, 0]).all(1) * 1.0)  # it is in the third batch
    if isinstance(sampling, (ShuffledEpochs, BallsInBins)):
        return np.where(total == 1, 1 / STEPS, 0.0)
    if isinstance(sampling, CyclicPoisson):  # a coin for the part, and coins in the steps of that part
        own = sampling.rate(UNITS_OF_TOY)
        turns = [
            np.where(PATTERNS[:, 1 - part :: 2].any(1), 0, own**total * (1 - own) ** (2 - total)) for part in (0, 1)
        ]
        return np.array(sum(turns) / 2)
    return np.array(rate**total * (1 - rate) ** (STEPS - total))


@pytest.mark.parametrize("sampling", [toy[0] for toy in TOYS], ids=repr)
def test_units_take_part_as_their_law_says(sampling: Any) -> None:
    """In runs with keys of their own, by exact binomial tests: 16 patterns."""
    source, runs = TestSource(11), 2_000
    counts = np.zeros(len(PATTERNS), dtype=int)
    for _ in range(runs):
        key = source.words(4).tobytes()
        batches = [
            sampling.sample(lambda step, key=key: key, step, UNITS_OF_TOY, sampling.size(UNITS_OF_TOY))
            for step in range(STEPS)
        ]
        counts[int("".join(str(int(5 in batch)) for batch in batches), 2)] += 1
    chances = law(sampling)
    assert chances.sum() == pytest.approx(1)
    for pattern, count, chance in zip(PATTERNS, counts.tolist(), chances, strict=True):
        assert binomtest(count, runs, min(chance, 1.0)).pvalue > FALSE_ALARMS, pattern


def simulated_delta(chances: np.ndarray, shift: float, noise: float, epsilon: float) -> tuple[float, float]:
    """Bounds on delta(P, Q) for releases of a unit that adds ``shift`` to sums of nothing else, when it takes part.

    P is a mixture of normal laws, so that the loss of a release is known exactly. The mean of what is in [0, 1] is
    bounded by the empirical Bernstein inequality (Audibert, Munos & Szepesvari 2009, Theorem 1).
    """
    random, runs = np.random.default_rng(0), 200_000
    means = shift * PATTERNS[chances > 0]
    chances = chances[chances > 0]
    seen = means[random.choice(len(means), size=runs, p=chances)] + noise * random.standard_normal((runs, STEPS))
    loss = logsumexp((seen @ means.T - 0.5 * (means**2).sum(1)) / noise**2, axis=1, b=chances)
    gains = np.maximum(-np.expm1(epsilon - loss), 0.0)
    chance = math.log(3 / FALSE_ALARMS) / runs
    slack = math.sqrt(2 * float(gains.var()) * chance) + 3 * chance
    return float(gains.mean()) - slack, float(gains.mean()) + slack


@pytest.mark.parametrize(("sampling", "relation", "kind"), TOYS, ids=lambda value: str(value))
def test_simulated_losses_are_what_the_accountant_says(sampling: Any, relation: Relation, kind: str) -> None:
    epsilon = 0.5
    low, high = simulated_delta(law(sampling), 2 if relation is Relation.REPLACE else 1, NOISE, epsilon)
    event = sampling.event([(NOISE, sampling.size(UNITS_OF_TOY))] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant(relation=relation).compose(event).delta(epsilon)
    assert low <= claimed
    if kind == "tight":
        assert high >= claimed * 0.97


def test_a_broken_twin_that_counts_shuffling_as_poisson_is_caught() -> None:
    """Shuffled batches accounted for as Poisson samples of the same rate exceed the claim, by 50 standard errors."""
    epsilon, noise = 4.0, 0.3
    low, _ = simulated_delta(law(ShuffledEpochs(2)), 1, noise, epsilon)
    event = Poisson(2).event([(noise, 2)] * STEPS, UNITS_OF_TOY, PerExample().mechanism)
    claimed = PldAccountant().compose(event).delta(epsilon)
    assert low > claimed
