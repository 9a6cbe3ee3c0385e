"""Qualified events: removed at every depth, refused under another relation or unit, and checked."""

from __future__ import annotations

import pytest

from hush.accounting import (
    ComposedEvent,
    Event,
    GaussianEvent,
    GroupEvent,
    LaplaceEvent,
    ParallelEvent,
    SelfComposedEvent,
)
from hush.accounting.events import QualifiedEvent, plain_event
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, Relation, Unit

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


def test_stored_events_keep_their_words() -> None:
    event = QualifiedEvent(GaussianEvent(2.0), Relation.REPLACE, Unit.user_calendar(CalendarWindow.MONTH), ("a",))
    stored = (
        '{"schema": "hush.event/1", "kind": "qualified", "event": {"kind": "gaussian", "noise_multiplier": 2.0}, '
        '"relation": "replace", "unit": "user within 28 days", "assumptions": ["a"]}'
    )
    assert event.to_json() == stored
    assert Event.from_json(stored) == event


@pytest.mark.parametrize(("before", "after"), [('"replace"', '"swap"'), ('"user"', '"patient"'), ('"user"', "3")])
def test_stored_words_that_are_unknown_are_refused(before: str, after: str) -> None:
    stored = QualifiedEvent(GaussianEvent(2.0), Relation.REPLACE, Unit.user()).to_json()
    with pytest.raises(InvalidArgument, match="^(relation|unit)="):
        Event.from_json(stored.replace(before, after))
