"""Null distributions: the noise that is drawn again, sums of rows, and p-values that are not too small."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from hush.randomness import TestSource
from hush.statistics import Block, GaussianNoise, LaplaceNoise, plan_noise
from hush.statistics.hypotheses.simulation import NoiseModel, RowValues, p_value, totals_of


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("noise", [LaplaceNoise(), GaussianNoise()])
def test_simulated_noise_has_the_variance_of_the_real_noise(noise: Any, whole: bool) -> None:
    steps = 1 if whole else 1 << 20
    plan = plan_noise((Block.disjoint(steps, whole=whole),), groups_per_unit=1, epsilon=0.8, delta=1e-6, noise=noise)
    model = NoiseModel(plan, 1 / steps)
    real = plan.release(np.zeros((20_000, 1), dtype=np.int64), TestSource(1))[:, 0] / steps
    simulated = model.draw((20_000,), np.random.default_rng(1))
    # Fixed key. The standard error of a variance is at most 2 % of it, here and for Laplace noise, too.
    assert real.var() == pytest.approx(model.variance, rel=0.1)
    assert simulated.var() == pytest.approx(model.variance, rel=0.1)
    if whole:
        assert np.array_equal(simulated, np.rint(simulated))


@given(mean=st.floats(0.001, 0.999), share=st.floats(1e-4, 0.9999))
def test_atoms_have_the_moments_of_a_beta_distribution(mean: float, share: float) -> None:
    variance = share * mean * (1 - mean)
    atoms = RowValues.beta(mean, variance)
    total = mean * (1 - mean) / variance - 1
    exact = beta(mean * total, (1 - mean) * total)
    assert atoms.chances.sum() == pytest.approx(1)
    assert (atoms.chances >= 0).all()
    for power in (1, 2, 3, 4):
        assert atoms.chances @ atoms.points**power == pytest.approx(exact.moment(power), rel=1e-6)


@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.21), (0.3, 1.0), (0.0, 0.0), (1.0, 0.0), (0.3, 0.3 * 0.7)])
def test_the_largest_variance_is_a_coin(mean: float, variance: float) -> None:
    atoms = RowValues.beta(mean, variance)
    assert atoms.points.tolist() == [0.0, 1.0]
    assert atoms.chances.tolist() == [1 - mean, mean]


def test_no_variance_is_nearly_one_point() -> None:
    atoms = RowValues.beta(0.3, 0.0)
    assert atoms.chances @ (atoms.points - 0.3) ** 2 < 1e-5
    assert math.isclose(atoms.chances @ atoms.points, 0.3, rel_tol=1e-9)


def test_totals_count_every_row() -> None:
    atoms = RowValues.beta(0.2, 0.05)
    for columns in (2, 3):
        totals = totals_of(50, atoms.chances, atoms.weights(columns), 200, np.random.default_rng(0))
        assert np.allclose(totals.sum(1), 50)


def test_a_p_value_counts_the_observation_and_is_the_largest_over_nuisances() -> None:
    rng = np.random.default_rng(0)
    assert p_value(5.0, [lambda draws, _: np.zeros(draws)], 99, rng, num_totals=2) == 0.01
    both = [lambda draws, _: np.zeros(draws), lambda draws, _: np.full(draws, 9.0)]
    assert p_value(5.0, both, 99, rng, num_totals=2) == 1.0


def test_p_values_of_a_known_null_are_uniform_or_larger() -> None:
    rng = np.random.default_rng(3)  # fixed key
    observed = rng.exponential(size=3000)
    values = np.array(
        [p_value(float(one), [lambda n, g: g.exponential(size=n)], 99, rng, num_totals=2) for one in observed]
    )
    for level in (0.01, 0.05, 0.2, 0.5):
        # (1 + hits) / 100 <= level has exactly this probability; four standard errors.
        assert (values <= level).mean() <= level + 4 * math.sqrt(level * (1 - level) / 3000)


def test_large_tables_are_simulated_in_parts() -> None:
    sizes: list[int] = []

    def null(draws: int, rng: np.random.Generator) -> Any:
        sizes.append(draws)
        return np.full(draws, float(len(sizes) == 1))  # the first part is as large as the observation

    assert p_value(1.0, [null], 9_999, np.random.default_rng(1), num_totals=4_096) == (1 + 1_024) / 10_000
    assert max(sizes) == 1_024
    assert sum(sizes) == 9_999
