"""The privacy loss distribution accountant: certified intervals, alternatives, and reference values."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from cases import first_quick
from hush.accounting import (
    ApproximateDPEvent,
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
    SelfComposedEvent,
    ZcdpAccountant,
)
from hush.accounting.events import ExponentialMechanismEvent, RandomizedResponseEvent
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from oracles import closed_form

sigmas = st.floats(-0.6, 1.3).map(lambda power: 10.0**power)
rates = st.one_of(st.floats(-4, -0.1).map(lambda power: 10.0**power), st.just(1.0))
steps = st.one_of(st.integers(1, 5), st.floats(1, 4.5).map(lambda power: int(10.0**power)))
# Each example costs tenths of a second, so there is no shrinking; the example is printed as it is.
PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
fewer = settings(max_examples=4, phases=PHASES)
many = settings(max_examples=40, phases=PHASES)


def sampled(sigma: float, rate: float, count: int = 1) -> Event:
    return SelfComposedEvent(PoissonSampledEvent(GaussianEvent(sigma), rate), count)


def test_randomized_response_a_thousand_times() -> None:
    # A shipped library says .100: it ignores the count.
    accountant = PldAccountant(relation=Relation.REPLACE).compose(RandomizedResponseEvent(0.1), 1000)
    assert accountant.epsilon(1e-6) == pytest.approx(19.344671447993385, rel=1e-8)
    renyi = RdpAccountant(relation=Relation.REPLACE).compose(RandomizedResponseEvent(0.1), 1000)
    assert 19.3447 < renyi.epsilon(1e-6) < 20.46


def test_optimal_composition_is_the_worst_of_what_is_claimed() -> None:
    # Any mechanism that is (epsilon, delta)-DP composes to less than the claim does.
    gaussian = PldAccountant().compose(GaussianEvent(2.0), 50)
    claim = PldAccountant().compose(
        ApproximateDPEvent(PldAccountant().compose(GaussianEvent(2.0)).epsilon(1e-8), 1e-8), 50
    )
    assert gaussian.epsilon(1e-6) < claim.epsilon(1e-6)


@fewer
@given(sigmas, rates, st.integers(1, 300), st.floats(0.01, 3))
def test_delta_bounds_are_ordered(sigma: float, rate: float, count: int, at: float) -> None:
    lower, upper = PldAccountant().compose(sampled(sigma, rate, count)).delta_interval(at)
    assert 0 <= lower <= upper <= 1


@pytest.mark.slow
@many
@given(sigmas, rates, steps, st.floats(0.01, 20))
def test_delta_bounds_are_ordered_far_out(sigma: float, rate: float, count: int, at: float) -> None:
    lower, upper = PldAccountant().compose(sampled(sigma, rate, count)).delta_interval(at)
    assert 0 <= lower <= upper <= 1


def test_rare_samples_at_a_tiny_delta_are_tight() -> None:
    # Ten steps at q = 1e-4, delta 1e-15: 0.130243 by direct convolution of positive masses (no FFT, spacing 2e-5).
    # One large jump decides, and a tilt cannot single it out: rounding, bounded at its worst, costs 19 % here.
    assert (
        0.130242 <= PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 1e-4), 10).epsilon(1e-15) <= 0.156
    )


@pytest.mark.slow
def test_rare_samples_at_a_tiny_delta_have_an_interval() -> None:
    lower, upper = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 1e-4), 10).interval(1e-15)
    assert 0.09 <= lower <= 0.130243
    assert 0.130242 <= upper <= 0.156


@pytest.mark.parametrize(
    "delta", [1e-5, 1e-9, *(pytest.param(delta, marks=pytest.mark.slow) for delta in (1e-12, 1e-15))]
)
def test_near_the_largest_loss(delta: float) -> None:
    # Twenty Laplace mechanisms, whose losses end at 20 / b: in the certificate, and close to it.
    lower, upper = PldAccountant().compose(LaplaceEvent(2.0), 20).interval(delta)
    truth = laplace_epsilon(2.0, 20, delta)
    assert lower <= truth * (1 + 1e-10)
    assert truth * (1 - 1e-10) <= upper <= min(truth * (1 + 1e-4), 10.0 * (1 + 1e-12))


def laplace_epsilon(scale: float, count: int, delta: float) -> float:
    low, high = 0.0, count / scale
    for _ in range(60):
        middle = 0.5 * (low + high)
        above = closed_form.laplace_delta(middle, scale=scale, count=count) > delta
        low, high = (middle, high) if above else (low, middle)
    return high


def test_the_worst_alternative_counts() -> None:
    # A record is in one of the parts: the cost is that of the worse part, composed.
    parts = [ComposedEvent((GaussianEvent(sigma), LaplaceEvent(scale))) for sigma, scale in ((1.0, 9.0), (4.0, 2.0))]
    together = PldAccountant().compose(ParallelEvent(tuple(parts)), 2).epsilon(1e-6)
    alone = [PldAccountant().compose(part, 2).epsilon(1e-6) for part in parts]
    mixed = PldAccountant().compose(parts[0]).compose(parts[1]).epsilon(1e-6)
    assert together == pytest.approx(max(*alone, mixed), rel=1e-6)


def test_accuracy_survives_composition() -> None:
    rough = PldAccountant(accuracy=1e-2).compose(sampled(1.0, 0.01, 500)).compose(LaplaceEvent(9.0))
    precise = PldAccountant(accuracy=1e-7).compose(sampled(1.0, 0.01, 500)).compose(LaplaceEvent(9.0))
    lower, upper = precise.interval(1e-6)
    assert upper <= rough.epsilon(1e-6) * (1 + 1e-9)
    assert rough.epsilon(1e-6) <= lower * 1.03


@pytest.mark.parametrize("accuracy", [0, 1e-9, 0.2, -1.0, "1e-5", None])
def test_accuracies_are_checked(accuracy: float) -> None:
    with pytest.raises(InvalidArgument, match="^accuracy="):
        PldAccountant(accuracy=accuracy)


def test_without_events_nothing_is_spent() -> None:
    assert PldAccountant().interval(1e-6) == (0.0, 0.0)
    assert PldAccountant().delta_interval(0.5) == (0.0, 0.0)


@pytest.mark.parametrize("margin", [0.0, 2.0**-50, 1e-9])
def test_a_claim_is_finite_at_the_delta_that_it_was_made_for(margin: float) -> None:
    # Estimators state a claim whose delta they rounded down, so that what else they compute stays within it.
    claim = ApproximateDPEvent(1.0, 1e-6 * (1 - margin))
    assert PldAccountant().compose(claim).epsilon(1e-6) == pytest.approx(1.0, rel=1e-12)
    assert PldAccountant().compose(ComposedEvent((claim, LaplaceEvent(2.0)))).epsilon(1e-6) <= 1.5


@pytest.mark.parametrize("others", [1.0, 0.5], ids=["equal deltas", "different deltas"])
def test_claims_on_disjoint_parts_are_finite_at_their_delta(others: float) -> None:
    delta = 1e-6 * (1 - 2.0**-50)
    parts = ParallelEvent((ApproximateDPEvent(0.5, delta), ApproximateDPEvent(1.0, others * delta)))
    assert PldAccountant().compose(parts).epsilon(1e-6) == pytest.approx(1.0, rel=1e-12)
    assert PldAccountant().compose(parts).epsilon(0.999e-6) == math.inf
    nested = ParallelEvent((parts, ApproximateDPEvent(0.7, delta)))
    assert PldAccountant().compose(nested).epsilon(1e-6) == pytest.approx(1.0, rel=1e-12)
    if others == 1:
        assert PldAccountant().compose(ComposedEvent((parts, LaplaceEvent(2.0)))).epsilon(1e-6) <= 1.5


@pytest.mark.parametrize("count", first_quick([1000, 1, 10, 100], 2))
@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0])
@pytest.mark.quick_cases(3)
def test_exponential_mechanisms_cost_no_more_than_concentrated_privacy_proves(epsilon: float, count: int) -> None:
    """A hundred of 0.1 cost 2.612 by the worst curve of all such mechanisms, and 2.419 by epsilon^2 / 8-zCDP."""
    event = SelfComposedEvent(ExponentialMechanismEvent(epsilon), count)
    together = ComposedEvent((event, GaussianEvent(5.0)))
    for composed in (event, together):
        proven = ZcdpAccountant().compose(composed)
        accountant = PldAccountant().compose(composed)
        assert accountant.epsilon(1e-6) <= proven.epsilon(1e-6)
        assert accountant.delta(proven.epsilon(1e-6)) <= 1e-6 * (1 + 1e-6)
        lower, upper = accountant.interval(1e-6)
        assert lower <= upper == pytest.approx(accountant.epsilon(1e-6), rel=1e-5)
    # What is not concentrated leaves the composition of the curves.
    claim = ComposedEvent((event, ApproximateDPEvent(0.1, 1e-9)))
    assert 0 < PldAccountant().compose(claim).epsilon(1e-6) <= count * epsilon + 0.1 + 1e-9


def two_outcomes(loss: float, span: float) -> float:
    """Return the probability of the outcome whose loss is this, if the other outcome's is smaller by the span."""
    return math.expm1(span - loss) / (math.exp(span - loss) - math.exp(-loss))


def best_delta(span: float, count: int, at: float, choices: int = 10) -> float:
    """Return the largest delta of exponential mechanisms chosen adaptively, by dynamic programming over losses."""
    width = choices * count
    losses = np.arange(-2 * width, 2 * width + 1) * (span / choices)
    value = np.maximum(-np.expm1(at - losses), 0.0)
    for _ in range(count):
        # Beyond the ends nothing is reached in the remaining steps, so what is rolled in there does not matter.
        value = np.max(
            [
                p * np.roll(value, -steps) + (1 - p) * np.roll(value, choices - steps)
                for steps in range(choices + 1)
                for p in [two_outcomes(steps * span / choices, span) if steps else 1.0]
            ],
            axis=0,
        )
    return float(value[2 * width])


def test_a_lower_bound_is_below_what_adaptive_exponential_mechanisms_lose() -> None:
    """A hundred of 0.1 lose 2.25 at delta 1e-6, on a grid of ten losses; the zCDP bound of 2.419 is no lower bound."""
    lower, upper = PldAccountant().compose(ExponentialMechanismEvent(0.1), 100).interval(1e-6)
    assert best_delta(0.1, 100, lower) >= 1e-6 * (1 - 1e-6)
    assert best_delta(0.1, 100, upper) < 1e-6
    assert best_delta(0.1, 100, lower * 1.02) < 1e-6  # and it is close
    assert PldAccountant().compose(ExponentialMechanismEvent(0.1), 100).delta_interval(lower)[0] <= 1.001e-6


def test_failures_of_the_approximation_are_no_lower_bound() -> None:
    """The grid of a sum of bins fails with about 1e-32 and 1e-30; no mechanism does."""
    for sigma, bins in ((1.0, 100), (2.0, 1000)):
        accountant = PldAccountant().compose(BallsInBinsEvent(GaussianEvent(sigma), bins))
        gaussian = PldAccountant().compose(GaussianEvent(sigma))
        for delta in (1e-30, 1e-50):
            lower, upper = accountant.interval(delta)
            assert 0 < lower <= upper == accountant.epsilon(delta) <= gaussian.epsilon(delta)
        assert accountant.delta_interval(100.0)[0] == 0.0
        assert accountant.delta(100.0) <= gaussian.delta(100.0)
    # Samplings that differ in their bins only are as many Gaussians.
    both = PldAccountant().compose(BallsInBinsEvent(GaussianEvent(1.0), 100))
    both = both.compose(BallsInBinsEvent(GaussianEvent(1.0), 10))
    assert both.epsilon(1e-50) == pytest.approx(PldAccountant().compose(GaussianEvent(1.0), 2).epsilon(1e-50), rel=1e-9)


def test_lower_bounds_do_not_fall_with_delta() -> None:
    accountant = PldAccountant().compose(LaplaceEvent(1.0), 100)
    bounds = [accountant.interval(delta)[0] for delta in (1e-20, 1e-30, 1e-31)]
    assert bounds == sorted(bounds)
    assert bounds[-1] > 99.8
