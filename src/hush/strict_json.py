"""A JSON parser that refuses ambiguous documents.

Guarantees, schemas, events and ledger rows are stored as JSON. Python's parser accepts NaN, Infinity and repeated
keys, which parsers interpret differently. A wrong interpretation could change a guarantee, so `parse` refuses them.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

from hush.errors import InvalidArgument, check_instance


def parse(text: str) -> Any:
    """Parse JSON, refusing NaN, Infinity and keys that occur twice in one object.

    >>> parse('{"epsilon": 1.5}')
    {'epsilon': 1.5}
    >>> parse('{"epsilon": 1.5, "epsilon": 15}')
    Traceback (most recent call last):
        ...
    hush.errors.InvalidArgument: field='epsilon': expected each field once. Readers disagree on which one counts.
    """
    check_instance("text", text, str)
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant)
    except InvalidArgument:
        raise
    except (ValueError, RecursionError):  # not JSON, or numbers or nesting beyond the parser's limits
        raise InvalidArgument("text", text, "JSON", "It cannot be parsed") from None


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument("field", repeated, "each field once", "Readers disagree on which one counts")
    return fields


def _refuse_constant(literal: str) -> NoReturn:
    raise InvalidArgument("text", literal, "strict JSON", "NaN and Infinity are not part of it")
