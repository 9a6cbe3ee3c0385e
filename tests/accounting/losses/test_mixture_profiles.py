"""Mixtures: against integrals in 60 digits, against each other, and in limits that are known in closed form."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.accounting.losses.mixture_profiles import GaussianMixture, PublicMixture, SampledGroup
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile
from hush.accounting.losses.profile import Profile
from hush.accounting.losses.sampled_profiles import SampledAddition, SampledRemoval

Mixture = tuple[list[float], list[float]]  # shifts, in units of the noise, and probabilities


def truth(mixture: Mixture, epsilon: float, *, reverse: bool) -> float:
    """Return delta by its definition: both probabilities of the event on which the likelihood ratio is large."""
    with mpmath.workdps(60):
        shifts, weights = ([mpmath.mpf(number) for number in numbers] for numbers in mixture)

        def ratio(x: mpmath.mpf) -> mpmath.mpf:
            terms = zip(shifts, weights, strict=True)
            return mpmath.fsum(weight * mpmath.exp(shift * x - shift * shift / 2) for shift, weight in terms)

        low, high, level = mpmath.mpf(-2000), mpmath.mpf(2000), mpmath.exp(-epsilon if reverse else epsilon)
        for _ in range(230):
            middle = (low + high) / 2
            low, high = (low, middle) if ratio(middle) > level else (middle, high)
        beyond = [mpmath.ncdf(shift - high) for shift in shifts]
        if reverse:
            gap = mpmath.ncdf(high) - mpmath.exp(epsilon) * mpmath.fsum(
                weight * mpmath.ncdf(high - shift) for weight, shift in zip(weights, shifts, strict=True)
            )
        else:
            shifted = mpmath.fsum(weight * mass for weight, mass in zip(weights, beyond, strict=True))
            gap = shifted - mpmath.exp(epsilon) * mpmath.ncdf(-high)
        return float(max(gap, 0))


def group(sigma: float, rate: float, size: int) -> Mixture:
    with mpmath.workdps(60):
        q = mpmath.mpf(rate)
        weights = [mpmath.binomial(size, k) * q**k * (1 - q) ** (size - k) for k in range(size + 1)]
        return [mpmath.mpf(k) / mpmath.mpf(sigma) for k in range(size + 1)], weights


def value(profile: Profile, epsilon: float) -> float:
    return float(profile.delta(np.array([epsilon]))[0])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("sigma", "rate", "size"), [(0.5, 0.1, 3), (1.0, 0.1, 20), (50.0, 0.01, 60), (300.0, 1e-6, 40), (2.0, 0.9, 12)]
)
@pytest.mark.quick_cases(3)
def test_groups_are_what_their_definition_says(sigma: float, rate: float, size: int, reverse: bool) -> None:
    profile, mixture = SampledGroup(sigma, rate, size, reverse), group(sigma, rate, size)
    for epsilon in (0.0, 1e-6, 1e-3, 0.05, 0.4, 2.0, 11.0):
        exact = 0.0 if epsilon >= profile.max_loss else truth(mixture, epsilon, reverse=reverse)
        assert value(profile, epsilon) == pytest.approx(exact, rel=profile.relative_error, abs=1e-40), epsilon


@pytest.mark.parametrize("reverse", [False, True])
def test_mixtures_are_what_their_definition_says(reverse: bool) -> None:
    shifts, probabilities = (0.0, 0.25, 1.0, 3.5), (0.9, 0.06, 0.039, 0.001)
    profile = GaussianMixture(0.8, shifts, probabilities, reverse)
    for epsilon in (0.0, 1e-3, 0.05, 0.1, 1.0, 4.0, 9.0):
        exact = (
            0.0
            if epsilon >= profile.max_loss
            else truth(([shift / 0.8 for shift in shifts], list(probabilities)), epsilon, reverse=reverse)
        )
        assert value(profile, epsilon) == pytest.approx(exact, rel=1e-10, abs=1e-40), epsilon


def test_mixtures_that_are_known_already() -> None:
    epsilons = np.linspace(0, 6, 40)
    single = GaussianMixture(2.0, (1.0,), (1.0,)).delta(epsilons)
    assert single == pytest.approx(GaussianProfile(0.5).delta(epsilons), rel=1e-11)
    for reverse, known in ((False, SampledRemoval), (True, SampledAddition)):
        two = GaussianMixture(2.0, (0.0, 1.0), (0.9, 0.1), reverse).delta(epsilons)
        assert two == pytest.approx(known(GaussianProfile(0.5), 0.1).delta(epsilons), rel=1e-9, abs=1e-15)
    no_rest = GaussianMixture(2.0, (1.0, 2.0), (0.5, 0.5), reverse=True)
    assert no_rest.max_loss == math.inf
    assert value(no_rest, 3.0) == pytest.approx(truth(([0.5, 1.0], [0.5, 0.5]), 3.0, reverse=True), rel=1e-10)


@pytest.mark.slow
def test_blocks_and_windows_leave_nothing_out() -> None:
    """A thousand records, of which only those components are computed that matter: as with all of them."""
    epsilons = np.concatenate([np.geomspace(1e-9, 1.0, 150), np.linspace(1.0, 300.0, 150), [1e6, 1e15]])
    for reverse in (False, True):
        profile = SampledGroup(30.0, 0.02, 1000, reverse)
        whole = profile.delta(epsilons)
        alone = np.array([value(profile, float(epsilon)) for epsilon in epsilons])
        assert whole == pytest.approx(alone, rel=1e-12, abs=1e-300)
    exact = truth(group(30.0, 0.02, 1000), 3.0, reverse=True)
    assert value(profile, 3.0) == pytest.approx(exact, rel=profile.relative_error)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("epsilon", [0.01, 3.0])
def test_a_large_group_is_what_its_definition_says(epsilon: float, reverse: bool) -> None:
    profile = SampledGroup(30.0, 0.02, 1000, reverse)
    exact = truth(group(30.0, 0.02, 1000), epsilon, reverse=reverse)
    assert value(profile, epsilon) == pytest.approx(exact, rel=profile.relative_error)


@settings(max_examples=30)
@given(st.floats(0.3, 30), st.floats(1e-4, 0.9), st.integers(1, 40), st.booleans())
def test_profiles_fall_and_are_convex(sigma: float, rate: float, size: int, reverse: bool) -> None:
    x = np.linspace(1.0, 30.0, 200)
    values = SampledGroup(sigma, rate, size, reverse).delta(np.log(x))
    assert (np.diff(values) <= 1e-14).all()
    assert (np.diff(values, 2) >= -1e-13).all()


def test_logs_go_on_where_values_underflow() -> None:
    for profile in (GaussianProfile(1.0), SampledRemoval(GaussianProfile(1.0), 0.1), SampledGroup(1.0, 0.1, 3)):
        epsilons = np.array([0.0, 0.5, 3.0, 20.0, 30.0])
        assert profile.log_delta(epsilons) == pytest.approx(np.log(profile.delta(epsilons)), rel=1e-12)
        far = profile.log_delta(np.array([100.0, 1000.0, 1e5]))
        assert np.isfinite(far).all()
        assert (np.diff(far) < 0).all()
    with mpmath.workdps(50):
        exact = mpmath.ncdf(mpmath.mpf("-99.5")) - mpmath.exp(100) * mpmath.ncdf(mpmath.mpf("-100.5"))
        assert float(GaussianProfile(1.0).log_delta(np.array([100.0]))[0]) == pytest.approx(
            float(mpmath.log(exact)), rel=1e-12
        )


def test_a_public_choice_is_the_mean() -> None:
    parts = (GaussianProfile(0.5), LaplaceProfile(2.0), SampledRemoval(LaplaceProfile(1.0), 0.1))
    mean = PublicMixture(parts, (0.5, 0.3, 0.2))
    epsilons = np.linspace(0, 3, 20)
    by_hand = 0.5 * parts[0].delta(epsilons) + 0.3 * parts[1].delta(epsilons) + 0.2 * parts[2].delta(epsilons)
    assert mean.delta(epsilons) == pytest.approx(by_hand, rel=1e-14)
    assert mean.log_delta(epsilons) == pytest.approx(np.log(by_hand), rel=1e-12)
    assert (mean.max_loss, mean.failure) == (math.inf, 0.0)
    assert PublicMixture(parts[1:], (0.5, 0.5)).max_loss == 2.0
