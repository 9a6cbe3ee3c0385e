"""Checks that a budget makes before it computes a price: predictable noise, unclear purposes, reserved keys."""

from __future__ import annotations

import json
from typing import Any

from hush.errors import InvalidArgument
from hush.randomness import KEYED_RANDOMNESS, TEST_RANDOMNESS, UNVERIFIED_RANDOMNESS

_PREDICTABLE = {
    TEST_RANDOMNESS: "a TestSource",
    KEYED_RANDOMNESS: "a KeyedSource, whose key may be known, or was used before",
    UNVERIFIED_RANDOMNESS: "a source of your own",
}


def refuse_predictable(event: str | None) -> None:
    """Refuse an event, as JSON, of a release whose noise may be predictable: not from the system's source."""
    for sentence, source in _PREDICTABLE.items():
        if json.dumps(sentence) in (event or ""):
            raise InvalidArgument(
                "source",
                source,
                "an unpredictable source, for a budget of a ledger",
                "Whoever knows the seed or the key can subtract the noise, so nothing would be protected",
                "Leave source= out, or charge a budget of a hush.ledger.TestLedger",
            )


def check_request(request: str | None) -> None:
    """Refuse a key that is no text, or that a part of a plan could have."""
    if request is None:
        return
    if checked_text("request", request, 500).startswith("plan "):
        raise InvalidArgument(
            "request", request, "a key that does not start with 'plan '", "Parts of plans use these keys"
        )


def checked_purpose(text: str) -> str:
    """Return a purpose, if it is a short text."""
    return checked_text("purpose", text, 500)


def checked_text(name: str, value: Any, longest: int, expected: str = "a short printable text") -> str:
    """Return a text that is not empty, not too long, and printable; so every database and terminal can hold it."""
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > longest:
        raise InvalidArgument(name, value, expected)
    return value
