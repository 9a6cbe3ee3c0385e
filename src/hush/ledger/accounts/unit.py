"""Privacy units by their everyday names."""

from __future__ import annotations

import re

from hush.errors import InvalidArgument
from hush.guarantee import Unit

_ROWS = frozenset({"event", "example", "record", "row"})


def named_unit(unit: Unit | str) -> Unit:
    """Return the privacy unit that a word names.

    ``row``, ``record``, ``event`` and ``example`` mean a single row. Any other word means a person with all their rows:
    ``patient``, ``user``. ``patient-month`` means a person within a month; hour, day, week, quarter and year work too.

    >>> str(named_unit("patient")), str(named_unit("row")), str(named_unit("user-week"))
    ('user', 'example', 'user within 7 days')
    """
    if isinstance(unit, Unit):
        if unit.group_size != 1:
            raise InvalidArgument("unit", str(unit), "one user, not a group", "Use Guarantee.for_group on the result")
        return unit
    if not re.fullmatch(r"[^\W\d_][\w ]*(-[a-z]+)?", str(unit)):
        raise InvalidArgument("unit", unit, "a word such as row, patient or patient-month, or a hush.Unit")
    noun, _, window = unit.partition("-")
    if not window:
        return Unit.example() if noun in _ROWS else Unit.user()
    if noun in _ROWS:
        raise InvalidArgument("unit", unit, "a person within a window", "For example, patient-month")
    return Unit.user_calendar(window)
