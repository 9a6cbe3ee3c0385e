"""Events in words."""

from __future__ import annotations

from hush.accounting import ApproximateDPEvent, Event, GaussianEvent, events
from hush.ledger.history.words import _WORDS, in_words


def test_every_event_has_words() -> None:
    from hush.accounting.events.event import _KINDS

    assert set(_KINDS) <= set(_WORDS)


def test_many_parts_are_counted() -> None:
    many: tuple[Event, ...] = (
        tuple(GaussianEvent(float(scale)) for scale in range(1, 20)) + (ApproximateDPEvent(0.5),) * 3
    )
    assert in_words(events.ComposedEvent(many)).endswith("14 more kinds")
