"""Events tied to a relation, a unit and assumptions, as mechanisms describe them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from hush.accounting.events.composition import ComposedEvent, SelfComposedEvent
from hush.accounting.events.event import Event
from hush.accounting.events.other_windows import windows_event
from hush.errors import Unsupported, check_instance
from hush.guarantee import Relation, Unit


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
    event's windows (`Unit.touched`).
    """
    return _plain(event, relation, unit, is_alone=True)


def _plain(event: Event, relation: Relation, unit: Unit, *, is_alone: bool) -> tuple[Event, tuple[str, ...]]:
    """Return the plain event. ``is_alone``: whether nothing but compositions are around it."""
    if isinstance(event, QualifiedEvent):
        inner, assumptions = _plain(event.event, relation, unit, is_alone=is_alone)
        if (event.relation, event.unit) != (relation, unit):
            inner = _for_other_windows(event, inner, relation, unit, is_alone)
        return inner, (*event.assumptions, *assumptions)
    # Qualified events may be anywhere inside, such as under a composition or a sample. All of them must agree.
    is_alone = is_alone and isinstance(event, (ComposedEvent, SelfComposedEvent))
    changed: dict[str, Any] = {}
    collected: tuple[str, ...] = ()
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            changed[field.name], assumptions = _plain(value, relation, unit, is_alone=is_alone)
            collected += assumptions
        elif isinstance(value, tuple) and value and isinstance(value[0], Event):
            pairs = [_plain(part, relation, unit, is_alone=is_alone) for part in value]
            changed[field.name] = tuple(part for part, _ in pairs)
            collected += tuple(sentence for _, assumptions in pairs for sentence in assumptions)
    # Without qualifications inside, the very event is returned, and not an equal copy.
    same = all(getattr(event, name) is value or getattr(event, name) == value for name, value in changed.items())
    return (event if same else replace(event, **changed)), tuple(dict.fromkeys(collected))  # type: ignore[type-var]


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
