"""Reads stored choices. In some databases people can write rows without hush, so a stored choice is checked."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

_TYPES = {"int": (int,), "float": (int, float), "bool": (bool,)}


def checked_fields(kind: Any, content: object) -> dict[str, Any]:
    """Return the fields of a stored choice; raise `ValueError` for other fields, other types and infinite numbers.

    >>> from hush.statistics.noise import ChosenLimit
    >>> checked_fields(ChosenLimit, {"limit": True})
    Traceback (most recent call last):
        ...
    ValueError: other fields than those of a choice

    Args:
        kind: The data class of the choice.
        content: What JSON says.
    """
    types = {field.name: field.type for field in fields(kind)}
    if not isinstance(content, dict) or set(content) != set(types):
        raise ValueError("other fields than those of a choice")
    for name, value in content.items():
        if type(value) not in _TYPES[str(types[name])] or not math.isfinite(value):
            raise ValueError("a number that no choice has")
    return content
