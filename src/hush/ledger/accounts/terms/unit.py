"""Privacy units by their everyday names."""

from __future__ import annotations

from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Unit, UnrecordedWindows

# Words for privacy units. Any other word ("visit") could mean a person or a row, so you have to say which.
_ROWS = frozenset({"event", "example", "record", "row"})
_PEOPLE = frozenset(
    {"account", "citizen", "client", "customer", "employee", "household", "member", "participant", "patient", "person"}
    | {"pupil", "student", "user"}
)


def named_unit(unit: Unit | str) -> Unit:
    """Return the privacy unit that a word names.

    ``row``, ``record``, ``event`` and ``example`` mean a single row. ``user``, ``person``, ``patient``, ``customer``
    and the like mean a person with all their rows. ``patient-month`` means a person within a month; hour, day, week,
    quarter and year work too, by clocks in UTC. Other words are refused: pass ``Unit.user()`` or ``Unit.example()``. So
    are windows that older ledgers stored without saying where they begin.

    >>> str(named_unit("patient")), str(named_unit("row")), str(named_unit("user-week"))
    ('user', 'example', 'user within one calendar week (UTC)')
    """
    if isinstance(unit, Unit):
        if unit.group_size != 1:
            raise InvalidArgument("unit", str(unit), "one user, not a group", "Use Guarantee.for_group on the result")
        if isinstance(unit.window, UnrecordedWindows):
            raise InvalidArgument("unit", str(unit), "a unit that says how time is cut", "Such as patient-month")
        return unit
    noun, _, window = str(unit).partition("-")
    if noun in _ROWS and window:
        raise InvalidArgument("unit", unit, "a person within a window", "For example, patient-month")
    if noun in _PEOPLE:
        return Unit.user_calendar(_window(window)) if window else Unit.user()
    if noun in _ROWS:
        return Unit.example()
    raise InvalidArgument(
        "unit",
        unit,
        f"a hush.guarantee.Unit, or one of {', '.join(sorted(_PEOPLE | _ROWS))}, or patient-month",
        "Any other word leaves open whether a unit is a person with all their rows, or a single row",
        "Use user or row",
    )


def _window(word: str) -> CalendarWindow:
    """Return the window that a word names."""
    try:
        return CalendarWindow(word)
    except ValueError:
        raise InvalidArgument("window", word, f"one of {', '.join(CalendarWindow)}") from None
