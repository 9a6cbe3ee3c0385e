"""A JSON parser that refuses ambiguous documents, and the field that says what a document is.

Guarantees, schemas, events and ledger rows are stored as JSON. Python's parser accepts NaN, Infinity and repeated
keys, which parsers interpret differently. A wrong interpretation could change a guarantee, so `parse` refuses them.

Everything that hush stores has a field ``format`` with a name and a version, such as ``hush.event/1``.
"""

from __future__ import annotations

import json
import re
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


def take_format(content: dict[str, Any]) -> Any:
    """Remove the field that says what an object is, and return its value. None if there is no such field.

    Earlier versions called the field ``schema``, wrote ``hush-run/1``, or had the version in a field of its own:

    >>> take_format({"schema": "hush.event/1"}), take_format({"format": "hush-catalog", "version": 1})
    ('hush.event/1', 'hush.catalog/1')
    """
    name = content.pop("format" if "format" in content else "schema", None)
    if not isinstance(name, str):
        return name
    if re.fullmatch("hush-[a-z]+", name):
        name = f"{name}/{content.pop('version', None)}"
    return re.sub("^hush-", "hush.", name)


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InvalidArgument("field", repeated, "each field once", "Readers disagree on which one counts")
    return fields


def _refuse_constant(literal: str) -> NoReturn:
    raise InvalidArgument("text", literal, "strict JSON", "NaN and Infinity are not part of it")
