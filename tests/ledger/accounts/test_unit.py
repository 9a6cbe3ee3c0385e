"""Privacy units by name, and what a budget may not mix."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush import Unit
from hush.accounting import (
    LaplaceEvent,
)
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, Relation
from hush.ledger import Ledger

Opened = Callable[..., Ledger]


FLU = "how many had the flu"


def test_units_and_relations_are_not_mixed(opened: Opened) -> None:
    ledger = opened()
    for unit, own in (
        ("row", Unit.example()),
        ("patient", Unit.user()),
        ("patient-month", Unit.user_calendar(CalendarWindow.MONTH)),
    ):
        data = ledger.budget(f"by {unit}", epsilon=3, delta=1e-6, unit=unit)
        assert data.cap.unit == own
        for other in (
            Unit.example(),
            Unit.user(),
            Unit.user_calendar(CalendarWindow.MONTH),
            Unit.user_calendar(CalendarWindow.WEEK),
        ):
            event = QualifiedEvent(LaplaceEvent(10.0), Relation.ADD_OR_REMOVE, other)
            if other == own:
                data.charge(event, purpose=FLU)
            else:
                with pytest.raises(Unsupported, match="stated under"):
                    data.charge(event, purpose=FLU)
        with pytest.raises(Unsupported, match="stated under"):
            data.charge(QualifiedEvent(LaplaceEvent(10.0), Relation.REPLACE, own), purpose=FLU)


def test_groups_of_users_are_no_unit_of_a_budget(opened: Opened) -> None:
    with pytest.raises(InvalidArgument, match="^unit="):
        opened().budget("v", epsilon=1, unit=Unit.user().group(3))


@pytest.mark.parametrize("word", ["rows", "Row", "events", "visit", "plane", "visit-month", "", "user month", 3])
def test_a_word_that_does_not_say_what_is_protected_is_refused(opened: Opened, word: str) -> None:
    """``rows`` was a person, silently."""
    with pytest.raises(InvalidArgument, match="^unit=.* Use user or row"):
        opened().budget("v", epsilon=1, unit=word)
    with pytest.raises(InvalidArgument, match="^window="):
        opened().budget("v", epsilon=1, unit="patient-moon")
