"""Limits on Poisson samples: one shape for all steps, a random part of large samples, and what that costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.training import Flat, Poisson, Projected, TrainingPlan
from hush.training.plan.draws import poisson_sample
from training.loops import answered, run

RATE, LIMIT, OTHERS = 0.6, 4, 10


def plan(sampling: Poisson, **settings: Any) -> TrainingPlan:
    chosen: dict[str, Any] = {
        "num_units": 10_000,
        "num_steps": 1000,
        "clipping": Flat(1.0),
        "noise_multiplier": 1.0,
        "delta": 1e-5,
        "physical_batch_size": 160,
    }
    return TrainingPlan(sampling=sampling, **(chosen | settings))


def test_a_limit_makes_all_steps_alike() -> None:
    private = run(max_batch_size=75, physical_batch_size=25, batch_size=40, num_steps=30)
    assert len(private.loader) == 30 * 3
    batches = list(answered(private))
    assert len(batches) == 30 * 3
    assert {batch.shape for batch in batches} == {(25, 6)}


def test_160_for_an_expected_100_costs_next_to_nothing() -> None:
    """Published for exact accounting: 1.82827, against 1.82824 without a limit."""
    assert round(plan(Poisson(100)).guarantee().epsilon, 5) == 1.82824
    limited = plan(Poisson(100, max_batch_size=160)).guarantee()
    assert 1.82824 < limited.epsilon <= 1.82827
    assert limited.delta == 1e-5
    assert plan(Poisson(100, max_batch_size=10_001)).guarantee().epsilon <= 1.82825
    zeroed = plan(Poisson(100, max_batch_size=120), relation=Relation.ZERO_OUT).guarantee()
    assert zeroed.epsilon == plan(Poisson(100), relation=Relation.ZERO_OUT).guarantee().epsilon


def test_noise_is_calibrated_to_limited_samples() -> None:
    private = run(batch_size=40, max_batch_size=80, noise_multiplier=None, epsilon=1.0)
    assert 0.999 < private.plan.guarantee().epsilon <= 1.0 + 1e-9


def weights(size: int) -> NDArray[np.float64]:
    return np.asarray(stats.binom.pmf(np.arange(size + 1), size, RATE))


def laws(x: float, kept: Any) -> tuple[Any, Any, float]:
    """The densities of a noisy sum, without and with a record of value x beside ten of value 1; and their spacing.

    Args:
        x: The record's value.
        kept: From the number of other sampled records to the probability with which the record is kept if sampled.
    """
    grid = np.linspace(-10, 16, 40_001)

    def noisy(total: float) -> Any:
        return stats.norm.pdf(grid, total, 1.0)

    without = sum(weight * noisy(min(size, LIMIT)) for size, weight in enumerate(weights(OTHERS)))
    with_x = sum(
        weight
        * ((1 - RATE * kept(size)) * noisy(min(size, LIMIT)) + RATE * kept(size) * noisy(min(size, LIMIT - 1) + x))
        for size, weight in enumerate(weights(OTHERS))
    )
    return without, with_x, grid[1] - grid[0]


def largest_delta(x: float, kept: Any, epsilon: float) -> float:
    without, with_x, spacing = laws(x, kept)
    sides = ((without, with_x), (with_x, without))
    return max(float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * spacing) for p, q in sides)


def fairly(size: int) -> float:
    return min(LIMIT / (size + 1), 1.0)


@pytest.mark.parametrize("x", [-1.0, 0.0, 1.0])
@pytest.mark.parametrize("delta", [1e-3, 0.03])
def test_what_is_dropped_is_accounted_for(x: float, delta: float) -> None:
    """By the exact divergence of one step. A sum that loses a 1 and gains a -1 moves by 2, beyond Poisson's epsilon."""
    settings: dict[str, Any] = {"num_units": OTHERS, "num_steps": 1, "delta": delta}
    promised = plan(Poisson(6, max_batch_size=LIMIT), **settings).guarantee().epsilon
    assert largest_delta(x, fairly, promised) <= delta
    unlimited = plan(Poisson(6), **settings).guarantee().epsilon
    assert x > -1 or largest_delta(x, fairly, unlimited) > delta, "the broken twin: nothing is paid for the limit"


def test_the_record_that_is_pushed_out_is_random() -> None:
    """Not the last one: a record that is always kept would replace a known one more often than is paid for."""

    def first(size: int) -> float:
        return 1.0

    assert largest_delta(-1.0, first, 1.0) > 1.2 * largest_delta(-1.0, fairly, 1.0)


def kept_counts(sampling: Any, steps: int) -> NDArray[np.int64]:
    """How often each of 30 units takes part, in samples of 15 on average."""
    key = bytes(range(32))
    samples = [sampling.sample(lambda step: key, step, 30, 15) for step in range(steps)]
    assert max(len(sample) for sample in samples) <= sampling.max_batch_size
    assert all((np.diff(sample) > 0).all() for sample in samples)
    return np.bincount(np.concatenate(samples), minlength=30)


class KeepsTheFirst(Poisson):
    """The broken twin: it drops the last records."""

    def sample(self, keys: Any, step: int, num_units: int, batch_size: int) -> Any:
        return poisson_sample(keys(step), step, num_units, 0.5)[: self.max_batch_size]


def test_all_units_are_kept_equally_often() -> None:
    """Fixed key. The counts of 30 units vary like independent ones or less, so chi-squared is below its law."""

    def p_value(counts: NDArray[np.int64]) -> float:
        expected = counts.mean()
        return float(stats.chi2.sf(np.square(counts - expected).sum() / expected, 29))

    assert p_value(kept_counts(Poisson(15, max_batch_size=10), 600)) > 1e-9
    assert p_value(kept_counts(KeepsTheFirst(15, max_batch_size=10), 600)) < 1e-9


def test_a_step_keeps_the_same_units_every_time_and_a_small_sample_whole() -> None:
    key = bytes(range(32))
    limited, plain = Poisson(15, max_batch_size=15), Poisson(15)
    samples = [sampling.sample(lambda step: key, 3, 30, 15) for sampling in (limited, limited, plain)]
    assert np.array_equal(samples[0], samples[1])
    assert set(samples[0]) <= set(samples[2])
    generous = Poisson(15, max_batch_size=30)
    assert np.array_equal(generous.sample(lambda step: key, 3, 30, 15), samples[2])


def test_what_has_no_analysis_is_refused() -> None:
    limited = Poisson(40, max_batch_size=75)
    for settings in ({"contribution": Projected(20)}, {"group_size": 2}):
        with pytest.raises(Unsupported, match="^max_batch_size with UserGroups or Projected"):
            plan(limited, **settings)
    with pytest.raises(InvalidArgument, match="^max_batch_size=0"):
        Poisson(40, max_batch_size=0)
