"""Units of protection by their everyday names."""

from __future__ import annotations

import re

from hush.errors import InvalidArgument
from hush.guarantee import Unit

_ROWS = frozenset({"event", "example", "record", "row"})


def named_unit(unit: Unit | str) -> Unit:
    """Return the unit that a word stands for.

    ``row``, ``record``, ``event`` and ``example`` are single rows. Any other word is somebody, with all their rows:
    ``patient``, ``user``. ``patient-month`` is somebody within a month; also hour, day, week, quarter and year.

    >>> str(named_unit("patient")), str(named_unit("row")), str(named_unit("user-week"))
    ('user', 'example', 'user within 7 days')
    """
    if isinstance(unit, Unit):
        if unit.group_size != 1:
            raise InvalidArgument("unit", str(unit), "one user, not a group", "Use Guarantee.for_group on the result")
        return unit
    if not re.fullmatch(r"[^\W\d_][\w ]*(-[a-z]+)?", str(unit)):
        raise InvalidArgument("unit", unit, "a word such as row, patient or patient-month", "Or a hush.Unit")
    who, _, window = unit.partition("-")
    if not window:
        return Unit.example() if who in _ROWS else Unit.user()
    if who in _ROWS:
        raise InvalidArgument("unit", unit, "somebody within a window", "Such as patient-month")
    return Unit.user_calendar(window)
