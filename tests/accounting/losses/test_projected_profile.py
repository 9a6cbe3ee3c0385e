"""Clipping by estimated norms: the random sensitivity, compared with quadrature, simulations and limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import beta, chi2

from cases import first_quick
from hush.accounting import (
    Accountant,
    AdvancedAccountant,
    BasicAccountant,
    ComposedEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GdpAccountant,
    GroupEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
    calibrate_noise,
)
from hush.accounting.events import ProjectedGaussianEvent
from hush.accounting.losses.projected_profile import ProjectedGaussianProfile
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation

DELTA = 1e-5


def epsilon(noise: float, projections: int, rate: float = 1.0, steps: int = 1, delta: float = DELTA) -> float:
    step = PoissonSampledEvent(ProjectedGaussianEvent(noise, projections), rate)
    return PldAccountant().compose(step, steps).epsilon(delta)


def gaussian_delta(mu: float, eps: float) -> float:
    return float(ndtr(mu / 2 - eps / mu) - math.exp(eps) * ndtr(-mu / 2 - eps / mu)) if eps < 700 else 0.0


def removal(mu: float, eps: float, rate: float) -> float:
    return rate * gaussian_delta(mu, math.log1p(math.expm1(eps) / rate))


def addition(mu: float, eps: float, rate: float) -> float:
    """Return delta of N(0) against (1 - q) N(0) + q N(mu), from the x at which the likelihood ratio is e^eps."""
    inside = math.exp(-eps) - 1 + rate
    if not inside > 0:
        return 0.0
    last = math.log(inside / rate) / mu + mu / 2
    return float(ndtr(last) - math.exp(eps) * ((1 - rate) * ndtr(last) + rate * ndtr(last - mu)))


def mean_over_s(value: Callable[[float], float], projections: int) -> float:
    """Return E[value(s)] by quadrature over the chi-square's quantiles and both of its tails."""
    law = chi2(projections)
    logs = [math.log(law.ppf(p)) for p in (1e-14, 1e-10, 1e-7, 1e-4, 0.01, 0.3, 0.7, 0.99)] + [math.log(law.isf(1e-12))]

    def integrand(log_x: float) -> float:
        x = math.exp(log_x)
        return value(math.sqrt(projections / x)) * float(law.pdf(x)) * x

    return sum(
        quad(integrand, low, high, epsabs=0, epsrel=1e-9, limit=400)[0] for low, high in itertools.pairwise(logs)
    )


def slow(value: float) -> Any:
    return pytest.param(value, marks=pytest.mark.slow)


@pytest.mark.parametrize("projections", [3, slow(10), 30, slow(200)])
@pytest.mark.parametrize(("noise", "rate"), [(1.0, 1.0), (3.0, 1.0), (0.7, 0.02), (1.5, 0.3)])
@pytest.mark.quick_cases(2)
def test_one_step_is_the_integral(noise: float, projections: int, rate: float) -> None:
    accountant = PldAccountant().compose(PoissonSampledEvent(ProjectedGaussianEvent(noise, projections), rate))
    for eps in (0.05, 0.3, 1.0, 3.0):
        if rate == 1:
            truth = mean_over_s(lambda s, eps=eps: gaussian_delta(s / noise, eps), projections)
        else:
            truth = max(
                mean_over_s(lambda s, eps=eps, direction=direction: direction(s / noise, eps, rate), projections)
                for direction in (removal, addition)
            )
        if truth > 1e-9:  # below, the integral's own tails are cut off
            assert truth * (1 - 1e-7) <= accountant.delta(eps) <= truth * 1.01


@pytest.mark.parametrize("rate", [1.0, 0.2])
@pytest.mark.parametrize("projections", [4, 12])
@pytest.mark.quick_cases(1)
def test_composition_is_that_of_simulated_losses(projections: int, rate: float) -> None:
    """Twenty steps, drawn 100,000 times; six standard errors, three times: false alarms 1e-8."""
    noise, steps, size = 4.0 if rate == 1 else 1.5, 20, 100_000
    random = np.random.default_rng(projections)
    removed, added = np.zeros(size), np.zeros(size)
    for _ in range(steps):
        mu = np.sqrt(projections / random.chisquare(projections, size)) / noise
        without = random.normal(size=size)
        present = without + mu * (random.random(size) < rate)
        for total, x, sign in ((removed, present, 1), (added, without, -1)):
            with np.errstate(divide="ignore"):
                total += sign * np.logaddexp(np.log(1 - rate), np.log(rate) + mu * x - mu**2 / 2)
    accountant = PldAccountant().compose(PoissonSampledEvent(ProjectedGaussianEvent(noise, projections), rate), steps)
    for eps in (0.5, 2.0, 4.0):
        excesses = [-np.expm1(np.minimum(eps - total, 0)) for total in (removed, added)]
        simulated = max(float(values.mean()) for values in excesses)
        error = 6 * max(float(values.std()) for values in excesses) / math.sqrt(size)
        assert simulated - error <= accountant.delta(eps) <= simulated * 1.01 + error


def test_many_projections_are_an_exact_norm() -> None:
    for rate, steps in ((1.0, 1), (0.01, 1000)):
        exact = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), rate), steps).epsilon(DELTA)
        epsilons = [epsilon(1.0, projections, rate, steps) for projections in (30, 100, 1000, 10_000, 1_000_000)]
        assert epsilons == sorted(epsilons, reverse=True)
        assert exact <= epsilons[-1] <= exact * 1.001


def test_few_projections_guarantee_almost_nothing() -> None:
    assert epsilon(1.0, 1) == epsilon(1.0, 2) == math.inf  # the true values are 3e9 and 7e4
    assert 1000 < epsilon(1.0, 3) < 2000
    assert epsilon(1.0, 1, delta=0.3) > 2.5


@pytest.mark.parametrize("rate", [1.0, 0.05])
def test_monotone_in_noise_projections_steps_and_delta(rate: float) -> None:
    base = {"noise": 1.0, "projections": 30, "rate": rate, "steps": 10}
    for name, values in {"noise": (4.0, 2.0, 1.0), "projections": (50, 30, 20), "steps": (1, 3, 10, 50)}.items():
        epsilons = [epsilon(**(base | {name: value})) for value in values]  # type: ignore[arg-type]
        assert epsilons == sorted(epsilons), name
        assert len(set(epsilons)) == len(epsilons), name
    assert epsilon(1.0, 30, rate, 10, delta=1e-9) > epsilon(1.0, 30, rate, 10, delta=1e-3)


@pytest.mark.parametrize("projections", first_quick([1, 3, 300, 2, 7, 20, 20_000], 3))
@pytest.mark.parametrize("mu", [slow(1e-3), 0.1, slow(1.0), 30.0])
def test_the_profile_is_convex_and_falls(mu: float, projections: int) -> None:
    profile = ProjectedGaussianProfile(mu, projections)
    eps = np.concatenate([[0.0], np.geomspace(1e-6, 30.0, 4000)])
    values = profile.delta(eps)
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()
    low, middle, high = (np.exp(part) for part in (eps[:-200], eps[100:-100], eps[200:]))
    share = (middle - low) / (high - low)
    assert (values[100:-100] <= (1 - share) * values[:-200] + share * values[200:] + 1e-9 * values[:-200]).all()
    assert profile.failure <= values[-1] <= values[0] <= 1 + 1e-8
    # Splitting to nodes preserves delta(0), the mean of 2 Phi(m / 2) - 1.
    if projections > 2:
        truth = mean_over_s(lambda s: float(2 * ndtr(mu * s / 2) - 1), projections)
        assert truth * (1 - 1e-6) <= values[0] <= truth * (1 + 2e-4)


def test_the_tail_is_far_below_any_delta() -> None:
    for projections in (10, 30, 100):
        composed = PldAccountant().compose(ProjectedGaussianEvent(1.0, projections), 1000)
        assert composed.epsilon(1e-15) < math.inf
    assert epsilon(1.0, 30, 0.01, 1000, delta=0.0) == math.inf


@pytest.mark.parametrize(
    ("noise", "projections", "rate", "steps", "delta"),
    [(0.05, 2, 1.0, 3, 0.3), (0.3, 6, 1.0, 3, 1e-5), (1.0, 2, 0.5, 7, 0.3), (1e6, 1, 1e-4, 100_000, 0.3)],
)
@pytest.mark.quick_cases(1)
def test_heavy_tails(noise: float, projections: int, rate: float, steps: int, delta: float) -> None:
    """Rounding errors in the tail would warn, and warnings are errors."""
    composed = PldAccountant().compose(PoissonSampledEvent(ProjectedGaussianEvent(noise, projections), rate), steps)
    value = composed.epsilon(delta)
    exact = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(noise), rate), steps).epsilon(delta)
    assert 0.5 * exact <= value < math.inf
    assert composed.delta(value) <= delta * 1.01


@pytest.mark.parametrize(
    "accountant", [RdpAccountant, ZcdpAccountant, GdpAccountant, BasicAccountant, AdvancedAccountant]
)
@pytest.mark.parametrize("rate", [1.0, 0.1])
def test_others_refuse(accountant: type[Accountant], rate: float) -> None:
    with pytest.raises(Unsupported, match="projected-gaussian|poisson-sampled"):
        accountant().compose(PoissonSampledEvent(ProjectedGaussianEvent(1.0, 20), rate))


def test_events_that_depend_on_several_norms_are_refused() -> None:
    event = ProjectedGaussianEvent(1.0, 20)
    replacing = PldAccountant(relation=Relation.REPLACE)
    for refused in (
        event,
        PoissonSampledEvent(event, 0.1),
        FixedSizeSampledEvent(event, 1, 10),
        ParallelEvent((event, event)),
    ):
        with pytest.raises(Unsupported, match="projected-gaussian"):
            replacing.compose(refused)
    for refused in (GroupEvent(event, 2), GroupEvent(PoissonSampledEvent(event, 0.1), 2)):
        with pytest.raises(Unsupported, match="projected-gaussian"):
            PldAccountant().compose(refused)
    with pytest.raises(Unsupported, match="several mechanisms"):
        PldAccountant().compose(PoissonSampledEvent(ComposedEvent((event, event)), 0.1))


def test_arguments_are_checked() -> None:
    for noise, projections in ((0.0, 5), (math.nan, 5), (1.0, 0), (1.0, 2.5), (1.0, 10**7), (1.0, True)):
        with pytest.raises(InvalidArgument):
            ProjectedGaussianEvent(noise, projections)  # type: ignore[arg-type]


def test_noise_is_calibrated_by_a_template() -> None:
    def template(noise: float) -> SelfComposedEvent:
        return SelfComposedEvent(PoissonSampledEvent(ProjectedGaussianEvent(noise, 20), 0.02), 200)

    noise = calibrate_noise(epsilon=2.0, delta=DELTA, template=template)
    achieved = PldAccountant().compose(template(noise)).epsilon(DELTA)
    assert 2.0 * 0.999 <= achieved <= 2.0
    assert noise > calibrate_noise(epsilon=2.0, delta=DELTA, sampling_rate=0.02, num_steps=200)


def advantage(projections: int, noise: float, eps: float, size: int) -> float:
    """Return a lower bound on delta at eps, wrong with probability 1e-7, from guesses by the likelihood ratio."""
    random = np.random.default_rng(size + projections)
    hits = []
    for with_record in (True, False):
        # The gradient is (50, 0, .., 0), with clip norm 1: only the first entries of the vectors matter.
        projected = 50 * random.normal(size=(size, projections))
        term = 50 * np.minimum(1, 1 / np.sqrt((projected**2).mean(1)))
        seen = noise * random.normal(size=size) + (term if with_record else 0)
        hits.append(int(np.count_nonzero((term * seen - term**2 / 2) / noise**2 > eps)))
    low = float(beta.ppf(5e-8, hits[0], size - hits[0] + 1))
    high = float(beta.isf(5e-8, hits[1] + 1, size - hits[1]))
    return low - math.exp(eps) * high


@pytest.mark.parametrize("projections", [2, 4])
def test_accounting_as_if_norms_were_exact_is_refuted(projections: int) -> None:
    """The broken twin: the same steps accounted for as GaussianEvent(noise)."""
    noise, eps = 2.0, 2.0
    shown = advantage(projections, noise, eps, 1_000_000)
    # 0.055 and 0.010 are shown, with standard deviations below 0.0005, where the twin claims 9e-6.
    assert shown > 3 * PldAccountant().compose(GaussianEvent(noise)).delta(eps)
    assert shown <= PldAccountant().compose(ProjectedGaussianEvent(noise, projections)).delta(eps)
