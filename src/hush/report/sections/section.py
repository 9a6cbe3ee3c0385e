"""A section of a page, and the marks around content that must not be published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hush.errors import InvalidArgument, check_instance
from hush.report.drawing.markup import Html, join, tag

# Text from a record cannot forge these marks, since "<" is escaped.
BEGIN: Final = Html("<!-- hush: not private, begin -->")
BEGIN_SILENT: Final = Html("<!-- hush: not private, begin; leave no remark -->")
END: Final = Html("<!-- hush: not private, end -->")
GENERATOR: Final = Html('<meta name="generator" content="hush.report">')

EXACT: Final = "Measured on private records, without noise."

_REMOVED = tag("p", "Removed from the published page: it was not measured privately.", class_="removed")
# What `publishable` puts in place of a part, by its opening mark.
_REPLACEMENTS: Final = {BEGIN: _REMOVED, BEGIN_SILENT: Html("")}
_MARK = re.compile("|".join(map(re.escape, (BEGIN, BEGIN_SILENT, END))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section of a page.

    Attributes:
        key: The anchor.
        title: The heading.
        body: The content below the heading.

    >>> Section(key="a", title="A & B", body=Html("<p>text</p>")).html()
    '<section id="a" aria-labelledby="a-title"><h2 id="a-title">A &amp; B</h2><p>text</p></section>'
    """

    key: str
    title: str
    body: Html

    def html(self) -> Html:
        """Return the section as an element."""
        heading = tag("h2", self.title, id=f"{self.key}-title")
        return tag("section", heading, self.body, id=self.key, aria_labelledby=f"{self.key}-title")


def mapping(record: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return a part of the record that is a mapping; empty if it is missing."""
    value = record.get(part)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"record[{part!r}]", type(value).__name__, "a mapping, or nothing")
    return value


def listed(record: Mapping[str, Any], part: str) -> list[Any]:
    """Return a part of the record that is a list; empty if it is missing."""
    value = record.get(part)
    if value is None:
        return []
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise InvalidArgument(f"record[{part!r}]", type(value).__name__, "a list, or nothing")
    return list(value)


def entries(record: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Return a part of the record that is a list of mappings; empty if it is missing."""
    items = listed(record, part)
    for entry in items:
        if not isinstance(entry, Mapping):
            raise InvalidArgument(f"record[{part!r}]", type(entry).__name__, "a list of mappings, or nothing")
    return items


def may_be_published(record: Mapping[str, Any], part: str) -> bool:
    """Return whether a measured part may be published: the test data are public, or it was measured privately.

    A part is measured privately if its own ``private`` is True, or if ``record["private"]`` lists it. If the record
    does not say, it may not be published: an unnecessary mark only costs a figure; a missing one costs a person's
    privacy.
    """
    content, named = record.get(part), part in listed(record, "private")
    stated = isinstance(content, Mapping) and content.get("private") is True
    return mapping(record, "data").get("test_is_public") is True or stated or named


def guarded(record: Mapping[str, Any], part: str, body: Html) -> Html:
    """Return a measured part, marked as not private unless it may be published."""
    if may_be_published(record, part):
        return body
    return secret(EXACT, body)


def secret(why: str, body: Html) -> Html:
    """Put content that is not private into a frame, between marks."""
    flag = tag("p", "Not private: do not publish. ", tag("small", why), class_="flag")
    return join([BEGIN, tag("div", flag, body, class_="secret"), END])


def hidden(body: Html) -> Html:
    """Put content between marks that `publishable` removes without a remark."""
    return join([BEGIN_SILENT, body, END])


def publishable(page: str) -> str:
    """Return a page of `render` without the parts that are not private.

    Everything between marks is removed, and usually replaced by a short remark. Every other character stays. So the
    result depends on private records only through what the guarantee covers, and what the page declares public.
    Applying it twice changes nothing.

    Args:
        page: The page as `render` returned it. A page with damaged marks is refused.

    >>> from hush.report import render
    >>> page = render({"title": "Run", "not_private": {"loss": [{"step": 1, "value": 0.5}]}})
    >>> "Loss" in page, "Loss" in publishable(page)
    (True, False)
    """
    check_instance("page", page, str)
    if GENERATOR not in page:
        raise InvalidArgument(
            "page", "...", "a page of hush.report.render", "Only such a page marks what is not private"
        )
    pieces, marks = _MARK.split(page), _MARK.findall(page)
    opening, closing = marks[::2], marks[1::2]
    if END in opening or len(opening) != len(closing) or any(mark != END for mark in closing):
        advice = "Private content could be missed", "Render the page again and do not edit it"
        raise InvalidArgument("page", "...", "a page whose marks are intact", *advice)
    public, replacements = pieces[::2], [*(_REPLACEMENTS[Html(mark)] for mark in opening), ""]
    return "".join(part for pair in zip(public, replacements, strict=True) for part in pair)
