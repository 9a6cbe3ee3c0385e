"""Prices, refusals, and what is charged as a claim."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    GaussianEvent,
    LaplaceEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
)
from hush.accounting.budget import Charge
from hush.accounting.events import ProjectedGaussianEvent
from hush.errors import BudgetExceeded
from hush.ledger import Ledger, OverBudget
from ledger.ledgers import patients

Opened = Callable[..., Ledger]


FLU = "how many had the flu"


def test_a_refusal_says_what_fits_and_charges_nothing(opened: Opened) -> None:
    data = patients(opened())
    data.charge(LaplaceEvent(1.0), purpose=FLU)
    with pytest.raises(
        OverBudget, match=r"asked for epsilon = 2.5; so far epsilon = 1, and \d+ of 100 .*largest charge that fits"
    ) as refused:
        data.charge(LaplaceEvent(0.4), purpose=FLU)
    assert isinstance(refused.value, BudgetExceeded)
    assert data.spent == 1.0
    largest = refused.value.largest_epsilon
    assert data.price(ApproximateDPEvent(largest)).fits
    assert not data.price(ApproximateDPEvent(largest * 1.02)).fits
    noise = refused.value.least_noise
    assert data.price(GaussianEvent(noise)).fits
    assert data.cap.fits(data.status()[0].cost + data.cost(GaussianEvent(noise)))
    assert not data.cap.fits(data.status()[0].cost + data.cost(GaussianEvent(noise * 0.98)))
    data.charge(ApproximateDPEvent(largest), purpose="all that is left")
    assert len(data.entries()) == 3


def test_a_price_costs_nothing(opened: Opened) -> None:
    data = patients(opened())
    price = data.price(LaplaceEvent(2.0))
    assert price.alone == pytest.approx(0.5, abs=1e-4)  # at the cap's delta, a little less
    assert (price.after, price.fits) == (0.5, True)
    assert data.spent == 0
    assert not data.price(LaplaceEvent(0.1)).fits


def test_claims_have_a_delta_of_their_own(opened: Opened) -> None:
    data = patients(opened(), claims_delta=3e-7)
    claim = ApproximateDPEvent(0.1, 1e-7)
    for _ in range(3):
        data.charge(claim, purpose=FLU)
    with pytest.raises(OverBudget):
        data.charge(claim, purpose=FLU)
    data.charge(ApproximateDPEvent(0.1), purpose=FLU)


def test_what_has_no_divergence_is_charged_as_a_claim(opened: Opened) -> None:
    """Only if it is too large for the comparison with Gaussian noise, and not the first."""
    data = patients(opened(), claims_delta=9e-7)
    small, event = ProjectedGaussianEvent(30.0, 50), ProjectedGaussianEvent(2.0, 50)
    before = LaplaceEvent(1e6)
    data.charge(before, purpose="next to nothing")
    data.reserve(Charge(event=small, purpose="training", delta=5e-7)).void()
    data.reserve(Charge(event=event, purpose="training", delta=5e-7)).commit()
    claim = ApproximateDPEvent(PldAccountant().compose(event).epsilon(5e-7), 5e-7)
    assert data.status()[0].cost == data.cost(before) + data.cost(claim)


def test_a_run_that_no_order_suits_is_charged_as_a_claim(opened: Opened) -> None:
    """No rule of the filter takes it, and it is not the first; reserved whole, its loss distribution is what counts."""
    data = patients(opened(), order=12.0, claims_delta=9e-7)
    step = PoissonSampledEvent(GaussianEvent(0.9), 0.01)
    run = SelfComposedEvent(step, 800)
    data.charge(LaplaceEvent(1e6), purpose="next to nothing")
    assert not data.cap.fits(data.cost(run))
    reserved = data.reserve(Charge(event=run, purpose="training", delta=5e-7))
    assert PldAccountant().compose(run).epsilon(1e-6) < data.spent < 2.7
    spent = data.spent
    reserved.commit(SelfComposedEvent(step, 10))
    assert data.spent == spent  # a claim is about all of it
