"""Composed events: sequences become tuples, and anything but events is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hush.accounting import ComposedEvent, Event, GaussianEvent, ParallelByIndexEvent, ParallelEvent, events
from hush.errors import InvalidArgument


def test_sequences_become_tuples() -> None:
    parts: Any = [GaussianEvent(1.0), GaussianEvent(2.0)]
    assert ComposedEvent(parts) == ComposedEvent(tuple(parts))
    assert ComposedEvent(()).events == ()


@pytest.mark.parametrize("kind", [ComposedEvent, ParallelEvent, ParallelByIndexEvent])
@pytest.mark.parametrize("wrong", [GaussianEvent(1.0), 3, "gaussian", (GaussianEvent(1.0), None)])
def test_parts_are_events(kind: Any, wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="^events="):
        kind(wrong)


@pytest.mark.parametrize("kind", [ParallelEvent, ParallelByIndexEvent])
def test_data_have_at_least_one_part(kind: Any) -> None:
    with pytest.raises(InvalidArgument, match="^events="):
        kind(())


def test_every_event_class_has_a_kind_of_its_own() -> None:
    classes = [value for value in vars(events).values() if isinstance(value, type) and issubclass(value, Event)]
    kinds = [cls.kind for cls in classes if cls is not Event]
    assert len(set(kinds)) == len(kinds) == 26
