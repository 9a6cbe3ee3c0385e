"""Profiles of noise, against brute force, logarithms and SciPy. `test_pairs` compares all with their integrals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from accounting.losses.cases import ADD_REMOVE, CASES, pair_of, pairs
from hush.accounting.events import DiscreteGaussianEvent
from hush.accounting.losses.noise_profiles import (
    BoundedRangeProfile,
    DiscreteGaussianProfile,
    DiscreteLaplaceProfile,
    GaussianProfile,
    LaplaceProfile,
    RandomizedResponseProfile,
    TwoLossProfile,
)
from hush.accounting.losses.pairs import changes


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
        p, q = (np.exp(0.65 * s) / np.exp(0.65 * s).sum() for s in (scores, shifted))
        for epsilon in (0.0, 0.2, 0.6, 1.0):
            truth = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
            assert truth <= float(pair.forward.delta(np.array([epsilon]))[0]) + 1e-12


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
        log_p, log_q = log_tail[:-sensitivity], log_tail[sensitivity:]
        truth = float(np.max(np.exp(log_p) * -np.expm1(np.minimum(epsilon + log_q - log_p, 0.0))))
        value = float(pair.forward.delta(np.array([epsilon]))[0])
        assert value == pytest.approx(truth, rel=1e-8, abs=1e-18), f"epsilon {epsilon:.5g}"


def test_scipy_agrees_on_the_gaussian() -> None:
    (pair, _) = pairs(CASES["gaussian"])
    sigma = 1.2
    for epsilon in (0.0, 0.5, 1.0, 4.0):
        truth = norm.sf(sigma * epsilon - 0.5 / sigma) - math.exp(epsilon) * norm.sf(sigma * epsilon + 0.5 / sigma)
        assert float(pair.forward.delta(np.array([epsilon]))[0]) == pytest.approx(truth, rel=1e-9)


def test_laplace_noise_is_pure() -> None:
    profile = LaplaceProfile(0.8)
    assert profile.delta(np.array([0.0]))[0] == pytest.approx(1 - math.exp(-0.4))
    assert not profile.delta(np.array([0.8, 0.9, 50.0])).any()


def test_randomised_response_fails_with_its_failure_probability() -> None:
    profile = RandomizedResponseProfile(1.0, failure=0.1)
    assert profile.delta(np.array([1.0, 9.0])).tolist() == [0.1, 0.1]
    assert profile.delta(np.array([0.0]))[0] == pytest.approx(0.1 + 0.9 * math.tanh(0.5))


def test_wide_discrete_noise_is_nearly_continuous() -> None:
    epsilon = np.linspace(0, 1, 11)
    discrete = DiscreteGaussianProfile(1000.0, 700).delta(epsilon)
    assert discrete == pytest.approx(GaussianProfile(0.7).delta(epsilon), rel=1e-3)
    laplace = DiscreteLaplaceProfile(1000.0, 700).delta(epsilon[epsilon < 0.69])
    assert laplace == pytest.approx(LaplaceProfile(0.7).delta(epsilon[epsilon < 0.69]), rel=1e-2)


def test_the_table_and_the_series_of_tails_agree() -> None:
    # Below sigma = 64 tails come from a table, above from Euler-Maclaurin and sums.
    below, above = DiscreteGaussianProfile(63.999, 64), DiscreteGaussianProfile(64.001, 64)
    epsilon = np.array([0.0, 0.5, 1.0, 3.0, 10.0])
    assert below.delta(epsilon) == pytest.approx(above.delta(epsilon), rel=5e-3)
    first = np.array([-500.0, -3.0, 0.0, 1.0, 60.0, 400.0, 3000.0])
    series = above._log_tail(first)
    assert series == pytest.approx(above._log_tail_by_table(first), rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("span", [0.01, 1.0, 8.0])
def test_two_outcomes_are_a_mechanism_and_the_worst_of_them_is_the_bounded_range(span: float) -> None:
    """Outcomes of weights 1 and w, which the record multiplies by e^span and 1: both sides add up to 1."""
    at = np.linspace(0.0, span, 41)
    worst = np.zeros(41)
    for steps in range(1, 20):
        profile, opposite = TwoLossProfile(span, steps), TwoLossProfile(span, 20 - steps)
        loss = span * steps / 20
        # Normalising the weights divides by e^(span - loss): this is the w whose losses are t and t - span.
        other = (np.exp(span) - np.exp(span - loss)) / np.expm1(span - loss)
        p = np.array([np.exp(span), other]) / (np.exp(span) + other)
        q = np.array([1.0, other]) / (1.0 + other)
        assert np.log(p / q) == pytest.approx([loss, loss - span], rel=1e-9)
        for direct, first, second in ((profile, p, q), (opposite, q, p)):
            exact = np.maximum(first[:, None] - np.exp(at) * second[:, None], 0.0).sum(axis=0)
            np.testing.assert_allclose(direct.delta(at), exact, atol=1e-14)
        worst = np.maximum(worst, profile.delta(at))
    bound = BoundedRangeProfile(span).delta(at)
    assert (worst <= bound * (1 + 1e-12)).all()
    np.testing.assert_allclose(worst[::4], bound[::4], rtol=1e-9, atol=1e-14)  # attained at t = (span + eps) / 2
