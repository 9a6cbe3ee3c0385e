"""Privacy units by name, and what a budget may not mix."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from unittest import mock

import pytest

from hush import Unit
from hush.accounting import GaussianEvent, LaplaceEvent, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.budget import Cap
from hush.accounting.events import QualifiedEvent
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, Relation
from hush.guarantee.unit import UnitKind
from hush.guarantee.windows import UnrecordedWindows
from hush.ledger import Ledger
from hush.ledger.accounts.creation import create_budget
from hush.ledger.accounts.terms.cap import cap_terms

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
            if other == own or (own.window and other.window):  # windows that are cut otherwise count as groups
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


MONTH = Unit.user_calendar(CalendarWindow.MONTH)
FOUR_WEEKS = Unit.user_window(timedelta(days=28))


def stated(unit: Unit, epsilon: float = 0.1) -> QualifiedEvent:
    """Return a count with Laplace noise, as a mechanism states it."""
    return QualifiedEvent(LaplaceEvent(1 / epsilon), Relation.ADD_OR_REMOVE, unit)


def test_a_month_is_no_window_of_28_days(opened: Opened) -> None:
    """Both were "28 days", and a budget for months accepted releases on windows from 1970 at the price of one."""
    assert MONTH != FOUR_WEEKS
    months = opened().budget("months", epsilon=3, delta=1e-6, unit="patient-month")
    months.charge(stated(MONTH), purpose=FLU)
    assert months.spent == pytest.approx(0.1)
    # July touches three windows of 28 days. The middle one lies inside; both others may keep other rows.
    months.charge(stated(FOUR_WEEKS), purpose=FLU)
    assert months.spent == pytest.approx(0.1 + 0.5)


def test_other_windows_are_charged_as_the_changes_that_they_are(opened: Opened) -> None:
    ledger = opened()
    any_weeks = ledger.budget("any", epsilon=9, delta=1e-6, unit=Unit.user_any_window(timedelta(days=28)))
    any_weeks.charge(stated(MONTH), purpose=FLU)
    assert any_weeks.spent == pytest.approx(0.4)
    any_weeks.charge(stated(FOUR_WEEKS), purpose=FLU)
    assert any_weeks.spent == pytest.approx(0.8)
    quarters = ledger.budget("quarters", epsilon=9, delta=1e-6, unit="patient-quarter")
    quarters.charge(stated(MONTH), purpose=FLU)
    assert quarters.spent == pytest.approx(0.3)
    assert ledger.verify().ok
    assert [budget.cap.unit for budget in ledger.budgets()] == [any_weeks.cap.unit, quarters.cap.unit]


def test_calendars_of_two_time_zones_are_not_mixed(opened: Opened) -> None:
    months = opened().budget("months", epsilon=3, delta=1e-6, unit="patient-month")
    in_berlin = Unit.user_calendar(CalendarWindow.MONTH, zone="Europe/Berlin")
    with pytest.raises(Unsupported, match="stated under"):
        months.charge(stated(in_berlin), purpose=FLU)


def test_a_sample_of_other_windows_is_refused(opened: Opened) -> None:
    """A window that keeps some of its rows leaves and comes back. No pair is proven for that under sampling."""
    months = opened().budget("months", epsilon=3, delta=1e-6, unit="patient-month")
    step = SelfComposedEvent(PoissonSampledEvent(GaussianEvent(2.0), 0.01), 100)
    with pytest.raises(Unsupported, match="Cut time as the budget does"):
        months.charge(QualifiedEvent(step, Relation.ADD_OR_REMOVE, FOUR_WEEKS), purpose="a training")
    months.charge(QualifiedEvent(step, Relation.ADD_OR_REMOVE, MONTH), purpose="a training")


def test_any_stretch_of_time_has_no_blocks(opened: Opened) -> None:
    with pytest.raises(InvalidArgument, match="^blocks=.* in several of these"):
        opened().budget("any", epsilon=1, unit=Unit.user_any_window(timedelta(days=7)), blocks=["2026-10"])


def old_terms(cap: Cap, unit: Unit | str) -> dict[str, Any]:
    """Return a cap as older versions stored it: the length of a window, and not where it begins."""
    terms = cap_terms(cap, unit)
    assert isinstance(cap.unit.window, UnrecordedWindows)
    terms["unit"] = {
        "kind": "user-window",
        "seconds": cap.unit.window.length.total_seconds(),
        "called": terms.pop("unit_name"),
    }
    return terms


def test_an_old_ledger_is_read_and_does_not_say_more_than_it_knows(opened: Opened) -> None:
    ledger = opened()
    unit = Unit(kind=UnitKind.USER_WINDOW, window=UnrecordedWindows(timedelta(days=28)))
    cap = Cap(epsilon=3, delta=1e-6, unit=unit)
    with mock.patch("hush.ledger.accounts.creation.cap_terms", old_terms):
        create_budget(ledger.store, ledger.person, "visits", cap, "patient-month", None, None, for_tests=False)
    visits = ledger.budget("visits")
    old = QualifiedEvent(LaplaceEvent(10.0), Relation.ADD_OR_REMOVE, unit)
    visits.charge(old, purpose=FLU)  # as its rows have it
    assert ledger.verify().ok
    assert visits.spent == pytest.approx(0.1)
    assert "as each release cut time (not recorded)" in str(visits.guarantee())
    for named in (MONTH, FOUR_WEEKS):
        with pytest.raises(Unsupported, match="stated under"):
            visits.charge(stated(named), purpose=FLU)
    with pytest.raises(InvalidArgument, match="^unit=.*create another one"):
        ledger.budget("visits", unit="patient-month")
    with pytest.raises(InvalidArgument, match="^unit="):
        ledger.budget("another", epsilon=1, unit=unit)
