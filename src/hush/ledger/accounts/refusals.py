"""Checks that a budget makes before it computes a price: predictable noise, unclear purposes, reserved keys."""

from __future__ import annotations

import json

from hush.errors import InvalidArgument
from hush.randomness import TEST_RANDOMNESS


def refuse_predictable(event: str | None) -> None:
    """Refuse an event, as JSON, of a release whose noise is predictable."""
    if json.dumps(TEST_RANDOMNESS) in (event or ""):
        raise InvalidArgument(
            "source",
            "a TestSource",
            "an unpredictable source, for a budget of a ledger",
            "Whoever knows the seed can subtract the noise, so nothing would be protected",
            "Leave source= out, or charge a budget of a hush.ledger.TestLedger",
        )


def refuse_plan_keys(request: str | None) -> None:
    """Refuse a key that a part of a plan could have."""
    if request is not None and request.startswith("plan "):
        raise InvalidArgument(
            "request", request, "a key that does not start with 'plan '", "Parts of plans use these keys"
        )


def checked_purpose(text: str) -> str:
    """Return a purpose, if it is a short text."""
    if not str(text).strip() or not text.isprintable() or len(text) > 500:
        raise InvalidArgument("purpose", text, "a short printable text")
    return text
