"""Mean-concentrated privacy: mu and tau of each mechanism, against exact losses, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting import (
    ApproximateDPEvent,
    CdpAccountant,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZcdpAccountant,
    ZeroConcentratedDPEvent,
)
from hush.accounting.accountants.cdp import concentration
from hush.accounting.events import DiscreteGaussianEvent
from hush.accounting.losses.pairs import changes
from hush.errors import Unsupported
from hush.guarantee import Relation


def test_published_formulas() -> None:
    # Dwork & Rothblum 2016, Theorem 3.2: Gaussian noise is (tau^2 / 2, tau)-CDP. Its tail: mu + tau sqrt(2 ln 1/d).
    accountant = CdpAccountant().compose(GaussianEvent(10.0), 4)
    assert accountant.epsilon(1e-6) == pytest.approx(0.02 + 0.2 * math.sqrt(2 * math.log(1e6)))
    assert accountant.delta(accountant.epsilon(1e-6)) == pytest.approx(1e-6)
    # Theorem 3.5, and MATHS: 50,000 releases of 8.36e-4 cost epsilon 1 at 1e-6.
    assert CdpAccountant().compose(ApproximateDPEvent(8.359e-4), 50_000).epsilon(1e-6) == pytest.approx(1, abs=1e-3)
    replaced = CdpAccountant(relation=Relation.REPLACE).compose(GaussianEvent(10.0), 4)
    assert replaced.epsilon(1e-6) == pytest.approx(0.08 + 0.4 * math.sqrt(2 * math.log(1e6)))


def test_the_loss_of_a_pure_mechanism_is_as_concentrated_as_stated() -> None:
    (change, *_) = changes(Relation.ADD_OR_REMOVE)
    for epsilon in (0.01, 0.5, 1.0, 3.0):
        mean, variance = concentration(ApproximateDPEvent(epsilon), change)
        yes = 1 / (1 + math.exp(-epsilon))  # randomised response: the loss is epsilon or -epsilon
        exact = (2 * yes - 1) * epsilon
        assert exact <= mean
        for t in np.linspace(-8, 8, 33):
            moment = yes * math.exp(t * (epsilon - exact)) + (1 - yes) * math.exp(t * (-epsilon - exact))
            assert math.log(moment) <= variance * t**2 / 2 + 1e-12


@pytest.mark.parametrize(
    "event",
    [
        SelfComposedEvent(GaussianEvent(5.0), 3),
        SelfComposedEvent(DiscreteGaussianEvent(10.0, 2), 3),
        SelfComposedEvent(LaplaceEvent(20.0), 30),
        GroupEvent(GaussianEvent(20.0), 3),
        ParallelEvent((GaussianEvent(5.0), LaplaceEvent(9.0))),
    ],
    ids=lambda value: value.kind,
)
@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE, Relation.REPLACE])
def test_never_below_the_truth_and_looser_than_zcdp(event: Event, relation: Relation) -> None:
    old = CdpAccountant(relation=relation).compose(event)
    for delta in (1e-3, 1e-6, 1e-12):
        assert PldAccountant(relation=relation).compose(event).epsilon(delta) <= old.epsilon(delta)
        assert ZcdpAccountant(relation=relation).compose(event).epsilon(delta) <= old.epsilon(delta) * (1 + 1e-12)


def test_without_a_delta_nothing_is_known() -> None:
    assert CdpAccountant().compose(GaussianEvent(9.0)).epsilon(0) == math.inf
    assert CdpAccountant().compose(GaussianEvent(1.0)).delta(0.1) == 1


@pytest.mark.parametrize(
    "event", [PoissonSampledEvent(GaussianEvent(1.0), 0.1), ZeroConcentratedDPEvent(0.1), ApproximateDPEvent(0.1, 1e-9)]
)
def test_refusals(event: Event) -> None:
    with pytest.raises(Unsupported, match=event.kind):
        CdpAccountant().compose(event)
