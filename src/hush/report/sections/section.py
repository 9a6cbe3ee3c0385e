"""A section of the page, and the marks around what must not be published."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from hush.errors import InvalidArgument, check_instance
from hush.report.drawing.markup import Html, join, tag

# Text from a record cannot forge these: escaping leaves it no "<".
BEGIN: Final = Html("<!-- hush: not private, begin -->")
BEGIN_SILENT: Final = Html("<!-- hush: not private, begin; leave no remark -->")
END: Final = Html("<!-- hush: not private, end -->")
GENERATOR: Final = Html('<meta name="generator" content="hush.report">')

EXACT: Final = "Measured on people's records, without noise."

_REMOVED = tag("p", "Left out of the published page: it was not measured privately.", class_="removed")
# What `publishable` puts in the place of a part, by the mark that opens it.
_INSTEAD: Final = {BEGIN: _REMOVED, BEGIN_SILENT: Html("")}
_MARK = re.compile("|".join(map(re.escape, (BEGIN, BEGIN_SILENT, END))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section.

    Attributes:
        key: Its anchor.
        title: Its heading.
        body: What stands below the heading.
    """

    key: str
    title: str
    body: Html

    def html(self) -> Html:
        """Return the section as an element."""
        heading = tag("h2", self.title, id=f"{self.key}-title")
        return tag("section", heading, self.body, id=self.key, aria_labelledby=f"{self.key}-title")


def mapping(record: Mapping[str, Any], part: str) -> Mapping[str, Any]:
    """Return a part of a record that is a mapping; empty where it is missing."""
    value = record.get(part)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidArgument(f"record[{part!r}]", type(value).__name__, "a mapping, or nothing")
    return value


def listed(record: Mapping[str, Any], part: str) -> list[Any]:
    """Return a part of a record that is a list; empty where it is missing."""
    value = record.get(part)
    if value is None:
        return []
    if isinstance(value, str | bytes | Mapping) or not hasattr(value, "__iter__"):
        raise InvalidArgument(f"record[{part!r}]", type(value).__name__, "a list, or nothing")
    return list(value)


def entries(record: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    """Return a part of a record that is a list of mappings; empty where it is missing."""
    found = listed(record, part)
    for entry in found:
        if not isinstance(entry, Mapping):
            raise InvalidArgument(f"record[{part!r}]", type(entry).__name__, "a list of mappings, or nothing")
    return found


def may_be_published(record: Mapping[str, Any], part: str) -> bool:
    """Say whether a measured part gives nothing away: the test data are public, or it was measured privately.

    A part is measured privately if its own ``private`` is True or if ``record["private"]`` names it. What the record
    does not say counts as no: a mark too many costs a figure, a mark too few costs a person's privacy.
    """
    own, named = record.get(part), part in listed(record, "private")
    stated = isinstance(own, Mapping) and own.get("private") is True
    return mapping(record, "data").get("test_is_public") is True or stated or named


def guarded(record: Mapping[str, Any], part: str, body: Html) -> Html:
    """Return a measured part as it is if it may be published, and marked as not private otherwise."""
    if may_be_published(record, part):
        return body
    return secret(EXACT, body)


def secret(why: str, body: Html) -> Html:
    """Frame what is not private and put it between the marks."""
    flag = tag("p", "Not private: do not publish. ", tag("small", why), class_="flag")
    return join([BEGIN, tag("div", flag, body, class_="secret"), END])


def hidden(body: Html) -> Html:
    """Put markup between the marks, so that `publishable` removes it without a trace."""
    return join([BEGIN_SILENT, body, END])


def publishable(page: str) -> str:
    """Return a page of `render` without what is not private.

    What is marked goes, mostly with a short remark in its place; every other character stays. So the result depends on
    people's records through what the guarantee covers, and what the page states as public. Doing it twice changes
    nothing.

    Args:
        page: What `render` returned, as it is. A page in which the marks are damaged is refused.

    >>> from hush.report import render
    >>> page = render({"title": "Run", "not_private": {"loss": [{"step": 1, "value": 0.5}]}})
    >>> "Loss" in page, "Loss" in publishable(page)
    (True, False)
    """
    check_instance("page", page, str)
    if GENERATOR not in page:
        raise InvalidArgument("page", "...", "a page of hush.report.render", "Only there is it known what is private")
    pieces, marks = _MARK.split(page), _MARK.findall(page)
    opening, closing = marks[::2], marks[1::2]
    if END in opening or len(opening) != len(closing) or any(mark != END for mark in closing):
        advice = "Something between them could be missed", "Render the page again and leave it as it is"
        raise InvalidArgument("page", "...", "each mark of what is not private in its place", *advice)
    kept, instead = pieces[::2], [*(_INSTEAD[Html(mark)] for mark in opening), ""]
    return "".join(part for pair in zip(kept, instead, strict=True) for part in pair)
