"""The JSON form of events: an exact round trip, and a reader that refuses everything else."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest

from hush.accounting import ComposedEvent, Event, GaussianEvent, PldAccountant, PoissonSampledEvent, SelfComposedEvent
from hush.accounting.events import decode_event
from hush.accounting.events.event import encode_event
from hush.errors import HushError, InvalidArgument

GRAMMAR = re.compile(r"(?P<name>[a-z_]+)=(?P<value>.+): expected (?P<what>.+?)\.( .+[.!?:])?", re.DOTALL)

DOCUMENT = {
    "format": "hush.event/1",
    "kind": "poisson-sampled",
    "event": {"kind": "gaussian", "noise_multiplier": 1.5},
    "sampling_rate": 0.1,
}


class TestJson:
    def test_the_document_is_what_version_1_means(self) -> None:
        event = PoissonSampledEvent(GaussianEvent(1.5), 0.1)
        assert json.loads(event.to_json()) == DOCUMENT
        assert Event.from_json(json.dumps(DOCUMENT)) == event

    def test_the_format_was_called_schema(self) -> None:
        before = {"schema": DOCUMENT["format"], **{name: value for name, value in DOCUMENT.items() if name != "format"}}
        assert Event.from_json(json.dumps(before)) == Event.from_json(json.dumps(DOCUMENT))

    @pytest.mark.parametrize(
        "changes",
        [
            {"format": "hush.event/2"},
            {"format": None},
            {"format": 1},
            {"kind": "gauss"},
            {"kind": None},
            {"kind": ["gaussian"]},
            {"kind": ""},
            {"extra": 1},
            {"sampling_rate": "0.1"},
            {"sampling_rate": None},
            {"sampling_rate": True},
            {"sampling_rate": 2},
            {"sampling_rate": [0.1]},
            {"sampling_rate": {"a": 1}},
            {"event": None},
            {"event": "gaussian"},
            {"event": []},
            {"event": {"kind": "gaussian"}},
            {"event": {"kind": "gaussian", "noise_multiplier": 1.5, "sigma": 2}},
            {"event": {"kind": "gaussian", "noise_multiplier": -1}},
            {"event": {"noise_multiplier": 1.5}},
            {"kind": "composed"},
            {"kind": "composed", "events": {}},
        ],
    )
    def test_anything_else_is_refused(self, changes: dict[str, Any]) -> None:
        with pytest.raises(InvalidArgument) as refusal:
            Event.from_json(json.dumps({**DOCUMENT, **changes}))
        assert GRAMMAR.fullmatch(str(refusal.value)), str(refusal.value)

    @pytest.mark.parametrize("name", sorted(DOCUMENT))
    def test_every_field_is_required(self, name: str) -> None:
        with pytest.raises(InvalidArgument):
            Event.from_json(json.dumps({key: value for key, value in DOCUMENT.items() if key != name}))

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "{",
            "[]",
            "3",
            "null",
            '"text"',
            "[" * 100_000,
            '{"a":' * 100_000,
            json.dumps(DOCUMENT).replace("1.5", "NaN"),
            json.dumps(DOCUMENT).replace("1.5", "Infinity"),
            json.dumps(DOCUMENT).replace("1.5", "1e999"),
            json.dumps(DOCUMENT).replace("1.5", "9" * 10_000),
            json.dumps(DOCUMENT).replace("1.5", "9" * 400),
            json.dumps(DOCUMENT).replace('"sampling_rate"', '"sampling_rate": 0.001, "sampling_rate"'),
            json.dumps(DOCUMENT).replace('"noise_multiplier"', '"noise_multiplier": 9, "noise_multiplier"'),
            json.dumps(DOCUMENT) + "{}",
            None,
            b"{}",
            3,
            DOCUMENT,
        ],
        ids=lambda text: str(text)[:24],
    )
    def test_what_is_no_strict_json_object_is_refused(self, text: Any) -> None:
        with pytest.raises(InvalidArgument):
            Event.from_json(text)

    def test_deeply_nested_events_are_refused_or_read(self) -> None:
        inner = '{"kind":"gaussian","noise_multiplier":1.5}'
        for _ in range(600):
            inner = f'{{"kind":"group","size":1,"event":{inner}}}'
        text = '{"format":"hush.event/1",' + inner[1:]
        with contextlib.suppress(InvalidArgument):
            assert Event.from_json(text).to_json() == Event.from_json(text).to_json()


def test_deep_nesting_is_answered_or_refused() -> None:
    event: Event = GaussianEvent(1.0)
    for _ in range(3000):
        event = SelfComposedEvent(event, 1)
    with contextlib.suppress(HushError):
        assert PldAccountant().compose(event).epsilon(1e-5) == pytest.approx(4.377178, abs=1e-6)
        assert Event.from_json(event.to_json()) == event


def test_the_plain_form_is_nested_dictionaries() -> None:
    event = ComposedEvent((GaussianEvent(2.0), SelfComposedEvent(GaussianEvent(3.0), 4)))
    plain = encode_event(event)
    assert plain == {
        "kind": "composed",
        "events": [
            {"kind": "gaussian", "noise_multiplier": 2.0},
            {"kind": "self-composed", "event": {"kind": "gaussian", "noise_multiplier": 3.0}, "count": 4},
        ],
    }
    assert decode_event(plain) == event


def test_the_message_names_the_wrong_field() -> None:
    for plain, name in (
        ({"kind": "gaussian", "sigma": 1.0}, "sigma"),
        ({"kind": "gaussian"}, "noise_multiplier"),
        ({"kind": "gauss"}, "kind"),
        ("gaussian", "event"),
        ({"kind": "composed", "events": {}}, "events"),
    ):
        with pytest.raises(InvalidArgument, match=f"^{name}="):
            decode_event(plain)
