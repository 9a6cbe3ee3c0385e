"""Gaussian differential privacy: reference values, the estimate for sampled Gaussians, and refusals."""

from __future__ import annotations

import pytest

from hush.accounting import (
    ComposedEvent,
    FixedSizeSampledEvent,
    GaussianEvent,
    GdpAccountant,
    GroupEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.errors import Unsupported
from hush.guarantee import Bound, Relation
from oracles import closed_form


@pytest.mark.parametrize(("mu", "delta", "epsilon"), closed_form.GAUSSIAN_EPSILONS)
def test_gaussian_dp(mu: float, delta: float, epsilon: float) -> None:
    for accountant in (GdpAccountant(), PldAccountant()):
        assert accountant.compose(GaussianEvent(1 / mu)).epsilon(delta) == pytest.approx(epsilon, abs=6e-7)


def test_the_central_limit_theorem_estimates_and_says_so() -> None:
    event = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(0.6), 0.001), 5000)
    estimate = GdpAccountant().compose(event).guarantee(1e-7)
    assert estimate.epsilon == pytest.approx(1.31, abs=0.006)
    assert estimate.bound is Bound.ESTIMATE
    truth = PldAccountant().compose(event).guarantee(1e-7)
    assert truth.epsilon == pytest.approx(3.44, abs=0.006)
    assert truth.bound is Bound.UPPER


def test_one_sampled_step_among_gaussians_makes_it_an_estimate() -> None:
    accountant = (
        GdpAccountant()
        .compose(GaussianEvent(1.0))
        .compose(ComposedEvent((SelfComposedEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 2),)))
    )
    assert accountant.guarantee(1e-5).bound is Bound.ESTIMATE


def test_gaussian_dp_where_its_formula_overflows() -> None:
    for sigma in (0.02, 0.03, 0.001):
        sampled = PoissonSampledEvent(GaussianEvent(sigma), 0.1)
        assert GdpAccountant().compose(sampled).epsilon(1e-5) > 100
        assert GdpAccountant().compose(sampled).delta(1.0) > 0.05
        # Zero times infinity is not 0, and what else was run still counts.
        both = GdpAccountant().compose(sampled, 0).compose(GaussianEvent(1.0))
        assert both.epsilon(1e-5) == pytest.approx(GdpAccountant().compose(GaussianEvent(1.0)).epsilon(1e-5))


def test_squares_of_mu_add_up() -> None:
    accountant = GdpAccountant().compose(GaussianEvent(1 / 0.3)).compose(GaussianEvent(1 / 0.4))
    assert accountant.mu == pytest.approx(0.5)
    assert GdpAccountant(relation=Relation.REPLACE).compose(GaussianEvent(10.0)).mu == pytest.approx(0.2)
    assert GdpAccountant().compose(GroupEvent(GaussianEvent(10.0), 3)).mu == pytest.approx(0.3)


def test_fixed_size_sampling_is_an_estimate_under_replacement() -> None:
    event = FixedSizeSampledEvent(GaussianEvent(1.0), 10, 1000)
    accountant = GdpAccountant(relation=Relation.REPLACE).compose(event, 100)
    assert accountant.bound() is Bound.ESTIMATE
    assert 0 < accountant.epsilon(1e-5) < GdpAccountant(relation=Relation.REPLACE).compose(event, 200).epsilon(1e-5)
    with pytest.raises(Unsupported, match="no limit theorem"):
        GdpAccountant().compose(event)


@pytest.mark.parametrize(
    "event",
    [
        LaplaceEvent(1.0),
        PoissonSampledEvent(LaplaceEvent(1.0), 0.1),
        GroupEvent(PoissonSampledEvent(GaussianEvent(1.0), 0.1), 2),
    ],
    ids=lambda event: event.kind,
)
def test_what_is_not_gaussian_is_refused(event: object) -> None:
    with pytest.raises(Unsupported):
        GdpAccountant().compose(event)  # type: ignore[arg-type]
