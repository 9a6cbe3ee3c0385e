"""Events tied to a relation, a unit and assumptions, as mechanisms describe them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from hush.accounting.events.composition import (
    ComposedEvent,
    GroupEvent,
    ParallelByIndexEvent,
    ParallelEvent,
    SelfComposedEvent,
)
from hush.accounting.events.event import Event
from hush.accounting.events.noise import (
    DiscreteGaussianEvent,
    DiscreteLaplaceEvent,
    GaussianEvent,
    LaplaceEvent,
    PerChangeEvent,
)
from hush.accounting.events.other_windows import windows_event
from hush.accounting.events.sampling import (
    AllocatedEvent,
    BallsInBinsEvent,
    FixedSizeSampledEvent,
    PoissonSampledEvent,
    TruncatedPoissonSampledEvent,
)
from hush.accounting.events.shuffling import ShuffledEvent
from hush.errors import Unsupported, check_instance
from hush.guarantee import Relation, Unit

_SAMPLES = (PoissonSampledEvent, TruncatedPoissonSampledEvent, BallsInBinsEvent, AllocatedEvent)
_DIVIDING = (*_SAMPLES, FixedSizeSampledEvent, ShuffledEvent, ParallelEvent, ParallelByIndexEvent)


@dataclass(frozen=True, slots=True)
class QualifiedEvent(Event):
    """``event``, tied to a relation and a unit, with assumptions that every guarantee based on it must state.

    Mechanisms produce these events, since a sensitivity holds for one relation and unit. An accountant for another one
    refuses them.
    """

    kind: ClassVar[str] = "qualified"
    event: Event
    relation: Relation
    unit: Unit
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the arguments."""
        check_instance("event", self.event, Event)
        check_instance("relation", self.relation, Relation, "Such as Relation.ADD_OR_REMOVE")
        check_instance("unit", self.unit, Unit, "Such as Unit.user()")
        check_instance("assumptions", self.assumptions, tuple, "Pass a tuple of sentences, or () for none")
        for sentence in self.assumptions:
            check_instance("assumptions", sentence, str)


def plain_event(event: Event, relation: Relation, unit: Unit) -> tuple[Event, tuple[str, ...]]:
    """Return an event without its qualifications, and their assumptions. Refuse those of another relation or unit.

    An event that is stated for other time windows is converted: one window of the unit counts as several changes in the
    event's windows (`Unit.touched`). An event that no mechanism has tied to a unit is about a single record. For a unit
    that is a group, it becomes one for that many records.
    """
    return _plain(for_group(event, unit.group_size), relation, unit, _Surroundings())


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """The context of an event.

    Attributes:
        is_alone: Whether nothing but compositions are around it.
        may_be_missing: Whether it is in a sample, or in a part that a replaced record may leave.
        is_divided: Whether it is in a sample or in a part, which may hold some members of a group and not others.
    """

    is_alone: bool = True
    may_be_missing: bool = False
    is_divided: bool = False

    def within(self, event: Event, relation: Relation) -> _Surroundings:
        """Return the surroundings of the parts of an event."""
        leaves = isinstance(event, ParallelEvent) and relation is Relation.REPLACE
        return _Surroundings(
            self.is_alone and isinstance(event, (ComposedEvent, SelfComposedEvent)),
            self.may_be_missing or isinstance(event, _SAMPLES) or leaves,
            self.is_divided or isinstance(event, _DIVIDING),
        )


def _plain(event: Event, relation: Relation, unit: Unit, around: _Surroundings) -> tuple[Event, tuple[str, ...]]:
    """Return the plain event."""
    if isinstance(event, QualifiedEvent):
        size = event.unit.group_size
        if size > 1 and (around.is_divided or _divides(event.event, size)):
            raise Unsupported(
                f"{event.event.kind}: stated per {event.unit}, within samples or parts: these hold some members of a "
                "group and not others, so a statement about the whole group does not determine the cost",
                "State the mechanism for a single unit, and give the accountant the group as its unit",
            )
        if around.may_be_missing and event.relation is not Relation.ADD_OR_REMOVE:
            _require_contributions(event.event, event)
        inner, assumptions = _plain(event.event, relation, unit, around)
        if (event.relation, event.unit) != (relation, unit):
            inner = _for_other_windows(event, inner, relation, unit, around.is_alone)
        return inner, (*event.assumptions, *assumptions)
    # Qualified events may be anywhere inside, such as under a composition or a sample. All of them must agree.
    around = around.within(event, relation)
    changed: dict[str, Any] = {}
    collected = event.assumes
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            changed[field.name], assumptions = _plain(value, relation, unit, around)
            collected += assumptions
        elif isinstance(value, tuple) and value and isinstance(value[0], Event):
            pairs = [_plain(part, relation, unit, around) for part in value]
            changed[field.name] = tuple(part for part, _ in pairs)
            collected += tuple(sentence for _, assumptions in pairs for sentence in assumptions)
    # Without qualifications inside, the very event is returned, and not an equal copy.
    same = all(getattr(event, name) is value or getattr(event, name) == value for name, value in changed.items())
    return (event if same else replace(event, **changed)), tuple(dict.fromkeys(collected))  # type: ignore[type-var]


def _divides(event: Event, size: int) -> bool:
    """Return whether an event has samples or parts whose cost is not that for a group of this size."""
    if isinstance(event, QualifiedEvent) or (isinstance(event, GroupEvent) and event.size >= size):
        return False  # stated by itself
    return isinstance(event, _DIVIDING) or any(_divides(part, size) for part in parts_of(event))


def _require_contributions(event: Event, stated: QualifiedEvent) -> None:
    """Refuse noise of a mechanism that knows what a change of its relation moves, and not what a record contributes.

    Versions before `PerChangeEvent` stored such noise as noise on a sum of contributions that are half as large. Alone
    and composed both cost the same. In a sample, or in a part that a record may leave, they do not.
    """
    if isinstance(event, (GaussianEvent, LaplaceEvent, DiscreteGaussianEvent, DiscreteLaplaceEvent)):
        raise Unsupported(
            f"{event.kind}: stated for the relation {stated.relation.value!r} within a sample or a part that a record "
            "may leave: that does not say what a single record contributes",
            "Use Relation.ADD_OR_REMOVE, or the event without its mechanism's relation, for noise on a sum",
        )
    # A sample states contributions by what it is, and noise per change says what it knows: accountants refuse it.
    if not isinstance(event, (*_SAMPLES, PerChangeEvent)):
        for part in parts_of(event):
            _require_contributions(part, stated)


def parts_of(event: Event) -> tuple[Event, ...]:
    """Return the events that an event is made of; none for a single mechanism."""
    inner = (getattr(event, "event", None), *getattr(event, "events", ()))
    return tuple(part for part in inner if part is not None)


def for_group(event: Event, size: int) -> Event:
    """Return an event about single records as one for a group. What a mechanism has tied to a unit stays as it is."""
    if size == 1 or isinstance(event, QualifiedEvent):
        return event
    if not _is_qualified_inside(event):
        return GroupEvent(event, size)
    if isinstance(event, ComposedEvent):
        return replace(event, events=tuple(for_group(part, size) for part in event.events))
    if isinstance(event, SelfComposedEvent):
        return replace(event, event=for_group(event.event, size))
    if _is_qualified(event):
        return event
    raise Unsupported(
        f"{event.kind}: some of its parts are stated for a group of {size}, and some for a single record",
        "State all of them for one unit",
    )


def _is_qualified(event: Event) -> bool:
    """Return whether every mechanism in an event is tied to a unit."""
    parts = parts_of(event)
    return isinstance(event, QualifiedEvent) or (bool(parts) and all(map(_is_qualified, parts)))


def _is_qualified_inside(event: Event) -> bool:
    """Return whether any mechanism in an event is tied to a unit."""
    return isinstance(event, QualifiedEvent) or any(map(_is_qualified_inside, parts_of(event)))


def _for_other_windows(event: QualifiedEvent, inner: Event, relation: Relation, unit: Unit, is_alone: bool) -> Event:
    """Return an event as one for a unit with other windows, or refuse it."""
    # A sensitivity under one relation proves nothing under another: a replacement can move a sum twice as far as a
    # removal. In parts or samples, the windows of one unit could be in several.
    same = event.relation is relation is Relation.ADD_OR_REMOVE and is_alone
    touched = unit.touched(event.unit) if same else None
    if touched is None:
        raise Unsupported(
            f"{event.event.kind}: stated under {event.relation.value} per {event.unit}, but this accounts for "
            f"{relation.value} per {unit}",
            "Configure the mechanism and the accountant with the same relation and unit",
        )
    return windows_event(inner, touched, stated=str(event.unit), unit=str(unit))
