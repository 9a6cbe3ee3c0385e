"""Hidden-state accounting: equal to exact laws where they are known, above others, refused where it fails."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from hush.errors import InvalidArgument
from hush.lab.lessons.langevin import last_iterate_rho, sample_posterior


@pytest.mark.parametrize("contraction", [0.0, 0.3, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("num_steps", [1, 2, 17, 500])
def test_quadratic_losses_are_exact(contraction: float, num_steps: int) -> None:
    # The last iterate is Gaussian: its mean moves by a sum of c^j, its variance is s^2 times the sum of c^(2 j).
    powers = contraction ** np.arange(num_steps)
    exact = (0.3 * powers.sum()) ** 2 / (2 * 0.5**2 * (powers**2).sum())
    rho = last_iterate_rho(shift=0.3, contraction=contraction, noise_stddev=0.5, num_steps=num_steps)
    assert exact <= rho <= exact * (1 + 1e-6)


def projected_law(step: Any, stddev: float, num_steps: int, cells: int = 400) -> NDArray[np.float64]:
    """Return the law of the last of many noisy steps on [0, 1], from 0, on a grid; mass beyond an end goes to it."""
    points = np.linspace(0, 1, cells)
    edges = np.concatenate([[-np.inf], (points[1:] + points[:-1]) / 2, [np.inf]])
    kernel = np.diff(ndtr((edges[None] - step(points)[:, None]) / stddev), axis=1)
    law = np.zeros(cells)
    law[0] = 1.0
    for _ in range(num_steps):
        law = law @ kernel
    return law


def divergence(p: NDArray[np.float64], q: NDArray[np.float64], order: float) -> float:
    likely = (p > 1e-150) & (q > 1e-150)  # what is left out only lowers it
    return float(np.logaddexp.reduce(order * np.log(p[likely]) - (order - 1) * np.log(q[likely])) / (order - 1))


@pytest.mark.parametrize(("shift", "stddev"), [(0.02, 0.1), (0.1, 0.3), (0.01, 0.03)])
@pytest.mark.parametrize("num_steps", [1, 5, 60, 2000])
def test_projected_walks_cost_no_more_than_stated(shift: float, stddev: float, num_steps: int) -> None:
    # One dataset has the gradient 0, its neighbour a constant one. Both laws are computed; the grid only hides more.
    one = projected_law(lambda w: w, stddev, num_steps)
    other = projected_law(lambda w: w + shift, stddev, num_steps)
    rho = last_iterate_rho(shift=shift, contraction=1.0, noise_stddev=stddev, num_steps=num_steps, diameter=1.0)
    for order in (1.5, 2.0, 8.0):
        assert max(divergence(one, other, order), divergence(other, one, order)) <= order * rho * (1 + 1e-6)


def test_a_walk_breaks_the_cost_of_its_last_few_steps() -> None:
    # A broken twin that counts the last ten steps, and forgets that the iterates before them differ.
    one, other = (projected_law(lambda w, a=shift: w + a, 0.1, 2000) for shift in (0.0, 0.02))
    twin = last_iterate_rho(shift=0.02, contraction=1.0, noise_stddev=0.1, num_steps=10)
    assert max(divergence(one, other, 2.0), divergence(other, one, 2.0)) > 2 * twin


def test_a_ball_stops_the_cost_and_composition_does_not() -> None:
    settings = {"shift": 0.02, "contraction": 1.0, "noise_stddev": 0.1}
    composed = [last_iterate_rho(num_steps=steps, **settings) for steps in (10, 1000)]
    assert composed == pytest.approx([10 * 0.02, 1000 * 0.02])
    hidden = [last_iterate_rho(num_steps=steps, diameter=1.0, **settings) for steps in (10, 49, 50, 100, 10**5)]
    # k (a + D / k)^2 is least at k = D / a = 50 steps, where it is 4 a D; composition is better at first.
    assert hidden[-1] == pytest.approx(4 * 0.02 * 1.0 / (2 * 0.01))
    assert hidden == sorted(hidden)
    assert hidden[0] == pytest.approx(composed[0])


def test_a_posterior_sample_costs_about_two_squared_norms_over_the_precision() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 2))
    settings: dict[str, Any] = {"row_norm": 1.0, "prior_precision": 10.0, "delta": 1e-5, "rng": 1}
    long, longer = (sample_posterior(rows, np.sign(rows[:, 0]), num_steps=steps, **settings) for steps in (500, 4000))
    assert long.guarantee.epsilon == pytest.approx(longer.guarantee.epsilon, rel=1e-3)
    assert longer.composed.epsilon > 4 * longer.guarantee.epsilon
    rate = 1 / (300 / 4 + 20)
    expected = 2 / 10 * (2 - rate * 10) / 2  # (2 R)^2 lr^2 / (4 lr) (1 + c) / (1 - c), c = 1 - lr precision
    assert last_iterate_rho(
        shift=2 * rate, contraction=1 - 10 * rate, noise_stddev=math.sqrt(2 * rate), num_steps=4000
    ) == pytest.approx(expected)


def test_the_sampler_samples_the_posterior() -> None:
    # With rows of 0 the posterior is the prior, N(0, temperature / precision): 0.5. Fixed key; 400 samples.
    samples = [
        sample_posterior(
            np.zeros((50, 4)), np.ones(50), row_norm=1.0, prior_precision=4.0, temperature=2.0, num_steps=40,
            delta=1e-5, rng=seed,
        ).weights
        for seed in range(100)
    ]  # fmt: skip
    assert float(np.var(samples)) == pytest.approx(0.5, rel=0.25)


def test_no_row_moves_a_step_by_more_than_stated() -> None:
    rows, signs = np.random.default_rng(0).normal(size=(30, 3)) * 100, np.ones(30)
    settings: dict[str, Any] = {"row_norm": 2.0, "prior_precision": 1.0, "num_steps": 1, "delta": 1e-5, "rng": 1}
    first = sample_posterior(rows, signs, **settings).weights
    for strange in (-rows[3], np.full(3, np.nan), np.full(3, 1e308), np.full(3, np.inf)):
        other = rows.copy()
        other[3] = strange
        moved = np.linalg.norm(sample_posterior(other, signs, **settings).weights - first)
        assert moved <= 2 * 2.0 / (30 * 4 / 4 + 2) * (1 + 1e-9)


@pytest.mark.parametrize(
    "wrong",
    [{"contraction": 1.01}, {"contraction": math.nan}, {"noise_stddev": 0.0}, {"diameter": math.nan}, {"num_steps": 0}],
)
def test_refusals(wrong: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"shift": 0.1, "contraction": 0.9, "noise_stddev": 0.1, "num_steps": 3}
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        last_iterate_rho(**(settings | wrong))
