"""The base class of events, and their JSON form (format ``hush.event/1``).

event   a frozen dataclass; its fields are numbers, strings, a relation, a unit, events, or tuples of these
plain   nested dictionaries with a "kind" (`encode_event`, `decode_event`)
JSON    the plain form with a schema, which ledgers and run folders store
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar

from hush.errors import InvalidArgument, check_instance
from hush.guarantee import Relation, Unit
from hush.strict_json import parse, take_format

FORMAT = "hush.event/1"

_KINDS: dict[str, type[Event]] = {}


class Event:
    """Base class of all events. An event is an immutable, hashable value; equal events describe the same computation.

    >>> from hush.accounting import GaussianEvent
    >>> text = GaussianEvent(noise_multiplier=2.0).to_json()
    >>> text
    '{"format": "hush.event/1", "kind": "gaussian", "noise_multiplier": 2.0}'
    >>> Event.from_json(text) == GaussianEvent(2.0)
    True
    """

    __slots__ = ()
    kind: ClassVar[str] = ""
    assumes: ClassVar[tuple[str, ...]] = ()  # what every guarantee based on such an event must state

    def __init_subclass__(cls) -> None:
        """Register the class under its kind, for reading JSON."""
        if cls.kind:
            _KINDS[cls.kind] = cls

    def to_json(self) -> str:
        """Return the event, with everything it contains, as JSON."""
        try:
            return json.dumps({"format": FORMAT, **encode_event(self)}, allow_nan=False)
        except RecursionError:
            raise InvalidArgument(
                "event", self.kind, "less nesting", "Flatten it: ComposedEvent takes any number of events"
            ) from None

    @staticmethod
    def from_json(text: str) -> Event:
        """Return the event that `to_json` wrote. Refuse other formats, unknown fields and values out of range."""
        data = parse(text)
        check_instance("text", data, dict, "An event is a JSON object as Event.to_json writes it")
        written = take_format(data)
        if written != FORMAT:
            raise InvalidArgument("format", written, repr(FORMAT), "This version of hush reads no other")
        return decode_event(data)

    def _set(self, **values: object) -> None:
        """Store validated values. Only ``__post_init__`` may call it."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as nested dictionaries and lists."""
    data: dict[str, Any] = {"kind": event.kind}
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            value = encode_event(value)
        elif isinstance(value, tuple):
            value = [encode_event(part) if isinstance(part, Event) else part for part in value]
        elif isinstance(value, Relation):
            value = value.value
        elif isinstance(value, Unit):
            value = value.name
        data[field.name] = value
    return data


def decode_event(data: object) -> Event:
    """Return the event that nested dictionaries describe. An error names the invalid field."""
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
        raise InvalidArgument("event", data, 'an object with a "kind"', f"Kinds are {', '.join(sorted(_KINDS))}")
    cls = _KINDS.get(data["kind"])
    if cls is None:
        raise InvalidArgument("kind", data["kind"], "a known event", f"Kinds are {', '.join(sorted(_KINDS))}")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    values = {str(name): value for name, value in data.items() if name != "kind"}
    for name in values:
        if name not in known:
            raise InvalidArgument(
                name, values[name], f"no such field in {data['kind']!r}", f"It has {', '.join(known)}"
            )
    for name, field in known.items():
        if name not in values and field.default is MISSING:
            raise InvalidArgument(name, None, f"a value: {data['kind']!r} needs it")
    if "event" in values:
        values["event"] = decode_event(values["event"])
    if "events" in values:
        check_instance("events", values["events"], list)
        values["events"] = tuple(decode_event(part) for part in values["events"])
    if "relation" in values:
        values["relation"] = _decode_relation(values["relation"])
    if "unit" in values:
        check_instance("unit", values["unit"], str)
        values["unit"] = Unit.from_name(values["unit"])
    if "assumptions" in values:
        check_instance("assumptions", values["assumptions"], list)
        values["assumptions"] = tuple(values["assumptions"])
    return cls(**values)


def _decode_relation(word: object) -> Relation:
    words = [relation.value for relation in Relation]
    if word not in words:
        raise InvalidArgument("relation", word, " or ".join(words))
    return Relation(word)
