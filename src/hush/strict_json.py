"""Strict JSON: what is ambiguous is refused, because a guess could change a promise."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from hush.errors import InvalidArgument, check_instance

__all__ = ["parse"]


def parse(text: str) -> Any:
    """Parse JSON without NaN, Infinity, or the same key twice in one object."""
    check_instance("text", text, str)
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):  # not JSON, absurdly long numbers, absurdly deep nesting
        raise InvalidArgument("text", text, "JSON", "It cannot be parsed") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument("field", twice, "each field once", "Readers disagree on which one counts")
    return fields


def _refuse_constant(literal: str) -> NoReturn:
    raise InvalidArgument("text", literal, "strict JSON", "NaN and Infinity are not part of it")
