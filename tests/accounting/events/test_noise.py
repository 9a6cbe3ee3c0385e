"""Noise events: values of plain numbers, with the noise relative to the sensitivity."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accounting_tables import ACCOUNTANTS
from hush import accounting as hush
from hush.accounting import (
    ApproximateDPEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PldAccountant,
    PoissonSampledEvent,
    RdpAccountant,
)
from hush.accounting.events import DiscreteGaussianEvent, DiscreteLaplaceEvent, GaussianMixtureEvent, PerChangeEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import Relation


def test_numpy_numbers_are_numbers() -> None:
    assert GaussianEvent(np.float32(2.0)) == GaussianEvent(2.0)
    assert hush.SelfComposedEvent(GaussianEvent(np.float64(2.0)), np.int64(3)) == hush.SelfComposedEvent(
        GaussianEvent(2.0), 3
    )
    assert Event.from_json(GaussianEvent(np.float64(2.0)).to_json()) == GaussianEvent(2.0)


@pytest.mark.parametrize("kind", [DiscreteGaussianEvent, DiscreteLaplaceEvent])
def test_integer_noise_is_limited_relative_to_the_sensitivity(kind: type[Event]) -> None:
    kind(1e-2, 10)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="/ sensitivity=0.0001"):
        kind(1e-2, 100)  # type: ignore[call-arg]


NOISE = [GaussianEvent(3.0), LaplaceEvent(3.0), DiscreteGaussianEvent(6.0, 2), DiscreteLaplaceEvent(6.0, 2)]
EVERY_ACCOUNTANT = pytest.mark.parametrize("name", ACCOUNTANTS)
OTHER_RELATIONS = pytest.mark.parametrize("relation", [Relation.REPLACE, Relation.ZERO_OUT])


@EVERY_ACCOUNTANT
@pytest.mark.parametrize("noise", NOISE, ids=lambda event: event.kind)
def test_noise_per_change_costs_under_every_relation_what_a_record_costs_that_is_added(name: str, noise: Event) -> None:
    added = ACCOUNTANTS[name]()
    if not added.supports(noise):
        return
    truth = added.compose(noise).epsilon(1e-6)
    for relation in Relation:
        accountant = ACCOUNTANTS[name](relation=relation)
        assert accountant.compose(PerChangeEvent(noise)).epsilon(1e-6) == pytest.approx(truth, rel=1e-12)
        for group in (GroupEvent(PerChangeEvent(noise), 2), ParallelByIndexEvent((PerChangeEvent(noise),))):
            if accountant.supports(group) and added.supports(GroupEvent(noise, 2)):
                same = GroupEvent(noise, 2) if isinstance(group, GroupEvent) else noise
                assert accountant.compose(group).epsilon(1e-6) == pytest.approx(
                    added.compose(same).epsilon(1e-6), rel=1e-12
                )


@EVERY_ACCOUNTANT
@OTHER_RELATIONS
def test_a_sample_and_a_part_refuse_noise_whose_contributions_are_unknown(name: str, relation: Relation) -> None:
    """Two parts of cost 1 cost 1.97 together if a record moves, and a sample of what cost 8 cost 1.92, not 0.15."""
    accountant = ACCOUNTANTS[name](relation=relation)
    for noise in (GaussianEvent(3.0), LaplaceEvent(3.0), ApproximateDPEvent(0.5)):
        event = noise if isinstance(noise, ApproximateDPEvent) else PerChangeEvent(noise)
        twice = ComposedEvent((event, event))
        assert not accountant.supports(PoissonSampledEvent(event, 0.1))
        assert not accountant.supports(PoissonSampledEvent(twice, 0.1))
        assert not accountant.supports(PoissonSampledEvent(PoissonSampledEvent(event, 0.5), 0.1))
        if relation is Relation.REPLACE:
            assert not accountant.supports(ParallelEvent((event, event)))
            assert not accountant.supports(ParallelEvent((twice, GaussianEvent(1.0))))
    with pytest.raises(Unsupported, match="says nothing about a record that leaves"):
        PldAccountant(relation=relation).compose(PoissonSampledEvent(PerChangeEvent(GaussianEvent(3.0)), 0.1))


def test_samples_of_one_size_are_neighbours_by_a_replacement() -> None:
    """What a record in the sample is compared with is another record: the distance of neighbours is all that counts."""
    accountant = PldAccountant(relation=Relation.REPLACE)
    sampled = FixedSizeSampledEvent(PerChangeEvent(LaplaceEvent(2.0)), 10, 100)
    assert accountant.compose(sampled).epsilon(0.0) == pytest.approx(math.log1p(0.1 * math.expm1(0.5)), rel=1e-12)


@pytest.mark.parametrize("event", [ApproximateDPEvent(1.0), PerChangeEvent(GaussianEvent(1.0)), None])
def test_only_noise_is_stated_per_change(event: Event) -> None:
    with pytest.raises(InvalidArgument, match="^event="):
        PerChangeEvent(event)


@pytest.mark.parametrize(
    ("shifts", "probabilities"),
    [
        ((), ()),
        ((0.0,), (1.0,)),
        ((1.0, 0.5), (0.5, 0.5)),
        ((0.0, 1.0), (0.5, 0.4)),
        ((0.0, 1.0), (1.5, -0.5)),
        ((1.0,), ()),
    ],
)
def test_mixtures_are_checked(shifts: tuple[float, ...], probabilities: tuple[float, ...]) -> None:
    with pytest.raises(InvalidArgument, match="^(shifts|probabilities)="):
        GaussianMixtureEvent(1.0, shifts, probabilities)


def test_a_sampled_group_is_a_mixture() -> None:
    mixture = GaussianMixtureEvent(4.0, (0.0, 1.0, 2.0), (0.81, 0.18, 0.01))
    group = GroupEvent(PoissonSampledEvent(GaussianEvent(4.0), 0.1), 2)
    for accountant in (PldAccountant(), RdpAccountant()):
        assert accountant.compose(mixture, 10).epsilon(1e-5) == pytest.approx(
            accountant.compose(group, 10).epsilon(1e-5), rel=1e-9
        )
    assert Event.from_json(mixture.to_json()) == mixture
