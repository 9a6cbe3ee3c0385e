"""What all additive noise has in common: the grid, shapes, and values that are no ordinary numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.accounting import (
    Event,
    FixedSizeSampledEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
)
from hush.accounting.events import PerChangeEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation
from hush.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialMechanism,
    Gaussian,
    Laplace,
    Staircase,
    VectorMeanL1,
    VectorMeanL2,
)
from hush.randomness import TestSource


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1.0, 12345.678, 1e150])
def test_rounding_is_part_of_the_sensitivity(scale: float) -> None:
    for size in (1, 1000):
        laplace = Laplace(epsilon=0.5, sensitivity=scale, size=size)
        moved = Fraction(scale) + size * Fraction(laplace._grid.spacing)  # every coordinate rounds, by one step at most
        assert moved / Fraction(laplace.noise_scale) <= Fraction(0.5)
        assert laplace.noise_scale <= scale / 0.5 * (1 + 1e-8)


@pytest.mark.parametrize("mechanism", [Laplace(epsilon=0.3, sensitivity=0.7), Staircase(epsilon=0.3, sensitivity=0.7)])
def test_released_values_lie_on_a_grid_that_the_data_do_not_choose(mechanism: Any) -> None:
    spacing = mechanism._grid.spacing
    assert math.frexp(spacing)[0] == 0.5
    for value in (0.0, 0.1, 1 / 3, -7e-9, 12345.678):
        for _ in range(200):
            assert (mechanism.release(value).value / spacing).is_integer()


def test_replacement_is_accounted_for_as_such() -> None:
    for mechanism in (
        Laplace(epsilon=0.5, sensitivity=2.0, relation=Relation.REPLACE),
        Gaussian(epsilon=0.5, delta=1e-6, sensitivity=2.0, relation=Relation.REPLACE),
    ):
        accountant = PldAccountant(relation=Relation.REPLACE).compose(mechanism.event)
        delta = mechanism.guarantee().delta
        assert accountant.epsilon(delta) == pytest.approx(0.5, rel=1e-5)
        assert accountant.epsilon(delta) <= 0.5


CHANGED: dict[str, Any] = {
    "laplace": lambda relation: Laplace(epsilon=1.0, sensitivity=1.0, relation=relation),
    "gaussian": lambda relation: Gaussian(epsilon=8.0, delta=1e-6, sensitivity=1.0, relation=relation),
    "discrete-laplace": lambda relation: DiscreteLaplace(epsilon=1.0, relation=relation),
    "discrete-gaussian": lambda relation: DiscreteGaussian(epsilon=1.0, delta=1e-6, relation=relation),
    "mean-l1": lambda relation: VectorMeanL1(epsilon=1.0, clip_norm=1.0, dimension=2, relation=relation),
    "mean-l2": lambda relation: VectorMeanL2(epsilon=1.0, delta=1e-6, clip_norm=1.0, dimension=2, relation=relation),
}


@pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ZERO_OUT])
@pytest.mark.parametrize("make", CHANGED.values(), ids=CHANGED)
def test_what_a_single_record_contributes_is_unknown(make: Any, relation: Relation) -> None:
    """A value in [0, 1] that is replaced moves a sum by 1, and so does one that leaves: not by half of it.

    As if it were half, two parts of cost 1 cost 1, where a record that moves shows 1.97; and a sample at rate 0.01 of
    a Gaussian of epsilon 8 cost 0.150 for at least 1.917.
    """
    mechanism = make(relation)
    accountant = PldAccountant(relation=relation)
    delta = mechanism.guarantee().delta or 1e-9
    assert accountant.compose(mechanism.event).epsilon(delta) <= mechanism.epsilon * (1 + 1e-9)
    assert accountant.supports(ParallelByIndexEvent((mechanism.event, mechanism.event)))
    with pytest.raises(Unsupported, match="says nothing about a record that leaves"):
        accountant.compose(PoissonSampledEvent(mechanism.event, 0.01))
    if relation is Relation.REPLACE:
        assert accountant.supports(FixedSizeSampledEvent(mechanism.event, 1, 100))
        with pytest.raises(Unsupported, match="says nothing about a record that leaves"):
            accountant.compose(ParallelEvent((mechanism.event, mechanism.event)))


def test_what_a_single_record_adds_may_be_sampled() -> None:
    event = PoissonSampledEvent(Gaussian(epsilon=8.0, delta=1e-6, sensitivity=1.0).event, 0.01)
    assert PldAccountant().compose(event).epsilon(1e-6) == pytest.approx(1.917, abs=1e-3)


@pytest.mark.parametrize("kind", ["poisson-sampled", "parallel"])
def test_events_that_earlier_versions_stored_are_read_or_refused(kind: str) -> None:
    """They state a replacement as two contributions of half the size: right alone, and wrong in a part or a sample."""
    noise = '"event": {"kind": "laplace", "scale": 2.0}'
    stated = f'{{"kind": "qualified", {noise}, "relation": "replace", "unit": "example", "assumptions": []}}'
    accountant = PldAccountant(relation=Relation.REPLACE)
    alone = Event.from_json(f'{{"format": "hush.event/1", {stated[1:]}')
    assert accountant.compose(alone, 3).epsilon(0.0) == pytest.approx(3.0, rel=1e-9)
    inside = f'"event": {stated}, "sampling_rate": 0.1' if kind == "poisson-sampled" else f'"events": [{stated}]'
    with pytest.raises(Unsupported, match="^laplace: stated for the relation 'replace' within a sample or a part"):
        accountant.compose(Event.from_json(f'{{"format": "hush.event/1", "kind": "{kind}", {inside}}}'))


def test_events_per_change_are_stored() -> None:
    event = Laplace(epsilon=1.0, sensitivity=1.0, relation=Relation.REPLACE).event
    assert isinstance(event.event, PerChangeEvent)  # type: ignore[attr-defined]
    assert Event.from_json(event.to_json()) == event


def test_shapes_are_public_and_checked() -> None:
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0, size=6)
    assert mechanism.release(np.zeros((2, 3))).value.shape == (2, 3)
    for shape in ((5,), (2, 2), (), (0,)):
        with pytest.raises(InvalidArgument, match="^value.shape="):
            mechanism.release(np.zeros(shape))


@pytest.mark.parametrize("kind", [int, np.int64])
def test_large_integers_are_not_rounded_apart(kind: Any) -> None:
    """As floats 2^60 + 128 and 2^60 + 129 are 256 apart, and the noise was for 1."""
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
    values = [mechanism.release(kind(2**60 + extra), TestSource(1)).value for extra in (128, 129)]
    assert abs(values[0] - values[1]) <= 1
    scores = [[2**60 + 128, 2**60 + 129], [2**60 + 129, 2**60 + 128]]
    choices = [ExponentialMechanism(epsilon=0.1).release(row, TestSource(2)).value for row in scores]
    assert choices[0] == choices[1]


def test_large_and_missing_numbers_are_answered() -> None:
    for values in ([2**64, 1], [2**63, -1], [1, None], [Fraction(10**400), 1], [Fraction(-(10**400)), 1]):
        assert np.isfinite(Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(values).value).all()
    for integers in ([2**63, 1], [2**62, -1], [2**70, -(2**70)], [None, 1]):
        DiscreteLaplace(epsilon=1.0, size=2).release(integers)


def test_masked_values_are_not_used() -> None:
    with pytest.raises(InvalidArgument, match="masked"):
        Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(np.ma.masked_array([777.0, 1.0], mask=[True, False]))
