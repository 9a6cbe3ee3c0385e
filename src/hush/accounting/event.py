"""What an event is, and its form in JSON. The events themselves are in ``events.py``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar

from hush.errors import InvalidArgument, check_instance
from hush.strict_json import parse

SCHEMA = "hush.event/1"

_KINDS: dict[str, type[Event]] = {}


class Event:
    """Base of all events. Events are values: equal if they describe the same thing, hashable, never changed."""

    __slots__ = ()
    kind: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        """Enrol the class under its kind, for reading JSON."""
        if cls.kind:
            _KINDS[cls.kind] = cls

    def to_json(self) -> str:
        """Write the event, and all that it contains, as JSON."""
        try:
            return json.dumps({"schema": SCHEMA, **encode_event(self)}, allow_nan=False)
        except RecursionError:
            raise InvalidArgument("event", self.kind, "less nesting", "Flatten it: Composed takes any number") from None

    @staticmethod
    def from_json(text: str) -> Event:
        """Read what `to_json` wrote; refuse other schemas, unknown fields, and values out of range."""
        data = parse(text)
        check_instance("text", data, dict, "An event is a JSON object as Event.to_json writes it")
        schema = data.pop("schema", None)
        if schema != SCHEMA:
            raise InvalidArgument("schema", schema, repr(SCHEMA), "This version of hush reads no other")
        return decode_event(data)

    def _set(self, **values: object) -> None:
        """Store validated values; only ``__post_init__`` calls it."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def encode_event(event: Event) -> dict[str, Any]:
    """Return an event as plain values for JSON."""
    data: dict[str, Any] = {"kind": event.kind}
    for field in fields(event):  # type: ignore[arg-type]
        value = getattr(event, field.name)
        if isinstance(value, Event):
            value = encode_event(value)
        elif isinstance(value, tuple):
            value = [encode_event(part) if isinstance(part, Event) else part for part in value]
        data[field.name] = value
    return data


def decode_event(data: object) -> Event:
    """Return the event that plain values describe, or say what is wrong with them."""
    if not isinstance(data, Mapping) or not isinstance(data.get("kind"), str):
        raise InvalidArgument("event", data, 'an object with a "kind"', f"Kinds are {', '.join(sorted(_KINDS))}")
    cls = _KINDS.get(data["kind"])
    if cls is None:
        raise InvalidArgument("kind", data["kind"], "a known event", f"Kinds are {', '.join(sorted(_KINDS))}")
    known = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    given = {str(name): value for name, value in data.items() if name != "kind"}
    for name in given:
        if name not in known:
            raise InvalidArgument(name, given[name], f"no such field in {data['kind']!r}", f"It has {', '.join(known)}")
    for name, field in known.items():
        if name not in given and field.default is MISSING:
            raise InvalidArgument(name, None, f"a value: {data['kind']!r} needs it")
    if "event" in given:
        given["event"] = decode_event(given["event"])
    if "events" in given:
        check_instance("events", given["events"], list)
        given["events"] = tuple(decode_event(part) for part in given["events"])
    if "assumptions" in given:
        check_instance("assumptions", given["assumptions"], list)
        given["assumptions"] = tuple(given["assumptions"])
    return cls(**given)
