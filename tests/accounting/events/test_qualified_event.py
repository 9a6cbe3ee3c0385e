"""Qualified events: removed at every depth, refused under another relation or unit, and checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from hush.accounting import (
    ApproximateDPEvent,
    BallsInBinsEvent,
    ComposedEvent,
    Event,
    FixedSizeSampledEvent,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    PoissonSampledEvent,
    SelfComposedEvent,
    ZeroConcentratedDPEvent,
)
from hush.accounting.budget import Cap
from hush.accounting.events import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    ExponentialMechanismEvent,
    NoisyMaxEvent,
    ProjectedGaussianEvent,
    QualifiedEvent,
    TruncatedPoissonSampledEvent,
    plain_event,
)
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, Guarantee, Relation, Unit, UnrecordedWindows
from hush.guarantee.unit import UnitKind

ADD_REMOVE = Relation.ADD_OR_REMOVE


def qualified(*assumptions: str) -> QualifiedEvent:
    return QualifiedEvent(GaussianEvent(2.0), ADD_REMOVE, Unit.example(), assumptions)


def test_qualifications_are_removed_at_every_depth() -> None:
    nested = ComposedEvent(
        (SelfComposedEvent(qualified("a"), 3), ParallelEvent((qualified("b", "a"), LaplaceEvent(1.0))))
    )
    plain, assumptions = plain_event(nested, ADD_REMOVE, Unit.example())
    assert plain == ComposedEvent(
        (SelfComposedEvent(GaussianEvent(2.0), 3), ParallelEvent((GaussianEvent(2.0), LaplaceEvent(1.0))))
    )
    assert assumptions == ("a", "b")


def test_an_event_without_qualifications_is_itself() -> None:
    event = GroupEvent(ComposedEvent((GaussianEvent(1.0), LaplaceEvent(2.0))), 3)
    plain, assumptions = plain_event(event, ADD_REMOVE, Unit.user())
    assert plain is event
    assert assumptions == ()


@pytest.mark.parametrize(("relation", "unit"), [(Relation.REPLACE, Unit.example()), (ADD_REMOVE, Unit.user())])
def test_another_relation_or_unit_is_refused(relation: Relation, unit: Unit) -> None:
    with pytest.raises(Unsupported, match="^gaussian: stated under add-or-remove per example"):
        plain_event(SelfComposedEvent(qualified(), 2), relation, unit)


FIVE = Unit.user().group(5)


def for_five(event: Event, *, relation: Relation = ADD_REMOVE) -> QualifiedEvent:
    return QualifiedEvent(event, relation, FIVE)


@pytest.mark.parametrize("relation", Relation)
@pytest.mark.parametrize(
    "divide",
    [
        lambda event: PoissonSampledEvent(event, 0.1),
        lambda event: TruncatedPoissonSampledEvent(event, 0.1, 160, 1000),
        lambda event: FixedSizeSampledEvent(event, 10, 100),
        lambda event: BallsInBinsEvent(event, 10),
        lambda event: ParallelEvent((event, event)),
        lambda event: ParallelByIndexEvent((event, event)),
    ],
)
def test_members_of_a_group_are_sampled_one_by_one(divide: Callable[[Event], Event], relation: Relation) -> None:
    """Five users are in a sample of a tenth with probability 0.41, and in up to five parts. Once, this said 0.1 and 1.

    The accountant proves the right cost if the mechanism is stated for one user, and the group is the accountant's.
    """
    noise = GaussianEvent(2.0)
    outside = for_five(SelfComposedEvent(divide(noise), 2), relation=relation)
    for event in (ComposedEvent((divide(for_five(noise, relation=relation)),)), outside):
        with pytest.raises(Unsupported, match="^(gaussian|self-composed): stated per group of 5 users, within samples"):
            plain_event(event, relation, FIVE)
    assert plain_event(divide(noise), relation, FIVE)[0] == GroupEvent(divide(noise), 5)
    stated = for_five(GroupEvent(divide(noise), 5), relation=relation)
    assert plain_event(stated, relation, FIVE)[0] == stated.event
    with pytest.raises(Unsupported, match="^group: stated per group of 5 users"):
        plain_event(for_five(GroupEvent(divide(noise), 4), relation=relation), relation, FIVE)


def test_mechanisms_of_a_group_compose() -> None:
    event = ComposedEvent((SelfComposedEvent(for_five(GaussianEvent(2.0)), 3), for_five(LaplaceEvent(1.0))))
    assert plain_event(event, ADD_REMOVE, FIVE)[0] == ComposedEvent(
        (SelfComposedEvent(GaussianEvent(2.0), 3), LaplaceEvent(1.0))
    )


MONTH = Unit.user_calendar(CalendarWindow.MONTH)
ANY_WEEKS = Unit.user_any_window(timedelta(days=28))


def by_month(event: Event, *, relation: Relation = ADD_REMOVE) -> QualifiedEvent:
    return QualifiedEvent(event, relation, MONTH, ("a",))


@pytest.mark.parametrize(
    "event",
    [
        GaussianEvent(8.0),
        LaplaceEvent(8.0),
        DiscreteGaussianEvent(8.0, 2),
        DiscreteLaplaceEvent(8.0, 2),
        ZeroConcentratedDPEvent(0.01),
        ApproximateDPEvent(0.1),
        ExponentialMechanismEvent(0.1),
        NoisyMaxEvent(0.1),
        SelfComposedEvent(ComposedEvent((GaussianEvent(8.0), LaplaceEvent(8.0))), 2),
    ],
)
def test_windows_that_are_cut_otherwise_are_a_group(event: Event) -> None:
    """Any 28 days are four changes in months: two leave, and come back without these days."""
    plain, assumptions = plain_event(by_month(event), ADD_REMOVE, ANY_WEEKS)
    assert assumptions == ("a",)
    for order in (1.5, 8.0, 40.0):
        cap = Cap(epsilon=1e4, delta=1e-6, unit=Unit.user(), order=order)
        # By hand: the noise is a fourth, a concentrated claim 16 times, a pure one four times as much.
        is_claim = isinstance(event, (ApproximateDPEvent, ExponentialMechanismEvent))
        by_hand = ApproximateDPEvent(0.4) if is_claim else GroupEvent(event, 4)
        assert cap.cost(plain).renyi == pytest.approx(cap.cost(by_hand).renyi, rel=1e-9)


def test_a_claim_with_a_delta_grows_as_that_of_a_group() -> None:
    plain, _ = plain_event(by_month(ApproximateDPEvent(0.5, 1e-9)), ADD_REMOVE, ANY_WEEKS)
    group = Guarantee(epsilon=0.5, delta=1e-9).for_group(4)
    assert plain == ApproximateDPEvent(group.epsilon, group.delta)


@pytest.mark.parametrize(
    "event",
    [
        PoissonSampledEvent(GaussianEvent(2.0), 0.01),
        ComposedEvent((LaplaceEvent(1.0), FixedSizeSampledEvent(GaussianEvent(2.0), 10, 100))),
        ParallelEvent((LaplaceEvent(1.0), LaplaceEvent(1.0))),
        ProjectedGaussianEvent(2.0, 8),
        GroupEvent(GaussianEvent(2.0), 2),
        ApproximateDPEvent(1.0, 0.3),
    ],
)
def test_events_without_a_proof_for_other_windows_are_refused(event: Event) -> None:
    with pytest.raises(Unsupported, match="for which no cost is proven. Cut time as the budget does"):
        plain_event(by_month(event), ADD_REMOVE, ANY_WEEKS)
    assert plain_event(by_month(event), ADD_REMOVE, MONTH)[0] == event


def test_samples_of_windows_that_lie_inside_are_a_group() -> None:
    sampled = PoissonSampledEvent(GaussianEvent(2.0), 0.01)
    quarter = Unit.user_calendar(CalendarWindow.QUARTER)
    assert plain_event(by_month(sampled), ADD_REMOVE, quarter)[0] == GroupEvent(sampled, 3)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda event: ParallelEvent((event, event)),
        lambda event: GroupEvent(event, 2),
        lambda event: PoissonSampledEvent(event, 0.1),
    ],
)
def test_parts_and_samples_of_other_windows_are_refused(wrap: Callable[[Event], Event]) -> None:
    """Two windows of one stretch could be in two parts: the worst part is not the cost."""
    with pytest.raises(Unsupported, match="stated under"):
        plain_event(wrap(by_month(LaplaceEvent(1.0))), ADD_REMOVE, ANY_WEEKS)


def test_a_replacement_says_nothing_about_other_windows() -> None:
    with pytest.raises(Unsupported, match="stated under"):
        plain_event(by_month(LaplaceEvent(1.0), relation=Relation.REPLACE), Relation.REPLACE, ANY_WEEKS)


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"relation": "replace"}, "relation"),
        ({"unit": "example"}, "unit"),
        ({"assumptions": ["a"]}, "assumptions"),
        ({"assumptions": (1,)}, "assumptions"),
        ({"event": "gaussian"}, "event"),
    ],
)
def test_qualifications_are_checked(fields: dict[str, object], name: str) -> None:
    good = {"event": GaussianEvent(1.0), "relation": Relation.REPLACE, "unit": Unit.example(), "assumptions": ()}
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        QualifiedEvent(**{**good, **fields})  # type: ignore[arg-type]


OLD_WINDOWS = Unit(kind=UnitKind.USER_WINDOW, window=UnrecordedWindows(timedelta(days=28)))  # as version 1 stored them


@pytest.mark.parametrize(
    ("unit", "words"),
    [(MONTH, "user within one calendar month (UTC)"), (OLD_WINDOWS, "user within 28 days"), (Unit.user(), "user")],
)
def test_stored_events_keep_their_words(unit: Unit, words: str) -> None:
    event = QualifiedEvent(GaussianEvent(2.0), Relation.REPLACE, unit, ("a",))
    stored = (
        '{"format": "hush.event/1", "kind": "qualified", "event": {"kind": "gaussian", "noise_multiplier": 2.0}, '
        f'"relation": "replace", "unit": "{words}", "assumptions": ["a"]}}'
    )
    assert event.to_json() == stored
    assert Event.from_json(stored) == event


@pytest.mark.parametrize(("before", "after"), [('"replace"', '"swap"'), ('"user"', '"patient"'), ('"user"', "3")])
def test_stored_words_that_are_unknown_are_refused(before: str, after: str) -> None:
    stored = QualifiedEvent(GaussianEvent(2.0), Relation.REPLACE, Unit.user()).to_json()
    with pytest.raises(InvalidArgument, match="^(relation|unit)="):
        Event.from_json(stored.replace(before, after))
