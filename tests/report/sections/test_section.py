"""What is not private is marked, and removed from what is published."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.report import publishable, render
from hush.report.sections import section as section_module
from report import records
from report.pages import check

# What is measured on the test data. With `not_private`, all that depends on people's records beyond the guarantee.
MEASURED = ("accuracy", "baseline", "curve", "classes", "groups", "confusion", "calibration")


Publish = Callable[[str], str]


def other_data(record: dict[str, Any], number: float, word: str) -> dict[str, Any]:
    """Return the record of a run on neighbouring data: the same public parts, other measurements."""
    changed = copy.deepcopy(record)
    changed["accuracy"].update(value=number, low=number / 2, high=None)
    changed["baseline"]["accuracy"] = number
    changed["curve"] = [{"step": 1, "epsilon": 2.5, "accuracy": number}]
    changed["classes"] = [records.figure(word, number, 17)]
    changed["groups"] = {word: [records.figure(word, number, 3), records.figure("b", None)]}
    changed["confusion"][0][1] = 10_000 * number
    changed["calibration"] = {"ece": number, "bins": []}
    changed["not_private"] = {"loss": [number, math.nan], "clipped_fraction": [{"step": 1, "value": number}]}
    return changed


def leaks(publish: Publish, number: float, word: str, **changes: Any) -> bool:
    """Say whether the published page tells two runs apart that differ only in what is not private."""
    record = records.rich(test_is_public=False)
    record.update(changes)
    return publish(render(record)) != publish(render(other_data(record, number, word)))


@settings(max_examples=25)
@given(number=st.floats(0, 1), word=st.text(max_size=20))
def test_the_published_page_does_not_depend_on_what_is_not_private(number: float, word: str) -> None:
    assert not leaks(publishable, number, word)


def test_the_check_finds_a_page_that_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken twins: one that cuts nothing, one that cuts only the first part, one that takes everything for private."""
    assert leaks(lambda page: page, 0.25, "a")
    assert leaks(lambda page: re.sub(r"<!-- hush: [^>]*begin.*?end -->", "", page, count=1, flags=re.DOTALL), 0.25, "a")
    for module in ("sections.section", "sections.result", "page"):
        monkeypatch.setattr(f"hush.report.{module}.may_be_published", lambda record, part: True)
    assert leaks(publishable, 0.25, "a")


@pytest.mark.parametrize("part", MEASURED)
def test_what_was_measured_privately_stays_and_nothing_with_it(part: str) -> None:
    record = {**records.rich(test_is_public=False), "private": [part]}
    published = publishable(render(record))
    assert published != publishable(render(records.rich(test_is_public=False)))
    # The figures of every other part may change without a trace in the published page.
    changed = {**other_data(record, 0.25, "a"), part: record[part]}
    assert publishable(render(changed)) == published


def test_an_accuracy_that_says_so_itself_is_private() -> None:
    record = records.rich(test_is_public=False)
    record["accuracy"]["private"] = True
    assert "88.7" in publishable(render(record))
    record["accuracy"]["private"] = "yes"  # only True is
    assert "88.7" not in publishable(render(record))


@pytest.mark.parametrize("stated", [False, None, "yes", 1])
def test_what_is_not_stated_to_be_public_is_not(stated: Any) -> None:
    record = records.rich()
    record["data"]["test_is_public"] = stated
    page = render(record)
    assert "88.7" in page
    assert "88.7" not in publishable(page)


def test_public_test_data_leave_only_diagnostics_to_remove() -> None:
    full, without = records.rich(), records.rich()
    del without["not_private"]
    published, plain = publishable(render(full)), render(without)
    assert publishable(plain) == plain
    # Apart from the empty section and the link to it, the pages are the same, character by character.
    section = re.search(r'<section id="diagnostics".*?</section>', published, re.DOTALL)
    link = re.search(r'<li><a href="#diagnostics">.*?</li>', published, re.DOTALL)
    assert section
    assert link
    assert published.replace(section[0], "").replace(link[0], "") == plain
    assert "Removed from the published page" in section[0]
    assert "<svg" not in section[0]


@pytest.mark.parametrize("record", [records.rich(), records.rich(test_is_public=False), records.poor(), {}])
def test_the_published_page_is_a_page_and_publishing_twice_is_once(record: dict[str, Any]) -> None:
    published = publishable(render(record))
    check(published)
    assert publishable(published) == published
    assert "Not private: do not publish." not in published


def test_not_private_is_shown_by_more_than_colour() -> None:
    page = render(records.rich(test_is_public=False))
    frames = page.count('<div class="secret">')
    assert frames == page.count("Not private: do not publish. ") == 7
    assert "2px dashed" in page


@pytest.mark.parametrize(
    "damage",
    [
        lambda page: page.replace(section_module.END, "", 1),
        lambda page: page.replace(section_module.BEGIN, "", 1),
        lambda page: page.replace(section_module.BEGIN, section_module.BEGIN + section_module.BEGIN, 1),
        lambda page: page.replace(section_module.END, section_module.BEGIN, 1),
        lambda page: page[: page.rindex(section_module.END)],
        lambda page: page.replace(section_module.GENERATOR, ""),
        lambda page: "<p>another page</p>",
    ],
)
def test_a_damaged_page_is_refused(damage: Publish) -> None:
    page = damage(render(records.rich(test_is_public=False)))
    with pytest.raises(InvalidArgument, match="^page="):
        publishable(page)


def test_text_cannot_forge_a_mark() -> None:
    record = records.rich(test_is_public=False)
    for mark in (section_module.BEGIN, section_module.END, section_module.BEGIN_SILENT):
        record["classes"][0]["name"] = record["title"] = record["command"] = str(mark)
        page = render(record)
        assert publishable(page).count("<section") == page.count("<section")
        assert "97.2" not in publishable(page)
