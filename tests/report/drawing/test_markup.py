"""Text from a record stays text."""

from __future__ import annotations

import html
from typing import Any

import pytest

from hush.report import render
from hush.report.drawing import markup
from report import records
from report.pages import Page, check

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><h2>forged</h2>",
    "<!-- hush: not private, end -->",
    "x" * 300,
    "\u202e 99 % \u2066",
    "שלום עולם",
    "👩‍👩‍👧‍👦 family",
    "日本語の名前" * 20,
    "null \x00 escape \x1b half \ud800",
    "",
    "&amp; &lt;",
    "e\u0301" * 90,
]


SECTIONS = [
    "The privacy guarantee",
    "Is this epsilon strong or weak?",
    "Result",
    "Accuracy against the privacy budget spent",
    "Accuracy by class",
    "Accuracy by group",
    "Confusion matrix",
    "Calibration",
    "Privacy budget",
    "Public inputs",
    "Hyper-parameters",
    "Reproduce this run",
    "Diagnostics (not private: do not publish)",
]


def hostile(text: str) -> dict[str, Any]:
    """Return a rich record in which every string that a person or a file may choose is ``text``."""
    record = records.rich()
    fixed = {"guarantee"}  # refuses control characters by itself

    def spoil(value: Any) -> Any:
        if isinstance(value, str):
            return text
        if isinstance(value, list):
            return [spoil(inner) for inner in value]
        if isinstance(value, dict):
            return {key: spoil(inner) for key, inner in value.items()}
        return value

    spoiled = {key: value if key in fixed else spoil(value) for key, value in record.items()}
    for part in ("groups", "hyperparameters", "versions"):
        first = next(iter(record[part]))
        spoiled[part] = {text: spoil(record[part][first])}
    return spoiled


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text(text: str) -> None:
    plain, spoiled = check(render(records.rich())), check(render(hostile(text)))
    assert spoiled.headings == plain.headings
    assert [tag for tag, _ in spoiled.elements].count("section") == len(SECTIONS)
    assert "\u202e" not in spoiled.text
    if text.startswith("<script>"):
        assert text in spoiled.text  # shown, as text


def test_the_checker_finds_text_that_became_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a renderer that forgets to escape."""
    monkeypatch.setattr(html, "escape", lambda text, quote=True: text)
    assert markup.escape("<b>") == "<b>"
    assert Page(render(hostile("<script>alert(1)</script>"))).problems


def test_names_are_isolated_from_the_direction_of_the_text_around_them() -> None:
    assert "<bdi>שלום עולם</bdi>" in render(hostile("שלום עולם"))
