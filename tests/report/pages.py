"""What every page must satisfy, as one checker that tests share."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

VOID = {"meta"}
# Attributes through which a page could load or run something.
LOADING = {"src", "srcset", "href", "xlink:href", "action", "formaction", "data", "poster", "background", "style"}
ACTIVE = {
    "script",
    "iframe",
    "object",
    "embed",
    "link",
    "img",
    "base",
    "form",
    "audio",
    "video",
    "foreignobject",
    "use",
}


class Page(HTMLParser):
    """Reads a page and notes its elements, its text, and whatever is wrong with it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.problems: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.headings: list[str] = []
        self.feed(html)
        self.close()
        self.problems += [f"<{element}> is never closed" for element in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ACTIVE:
            self.problems.append(f"active element <{tag}>")
        for key, value in attrs:
            if key.startswith("on") or (key in LOADING and not (value or "").startswith("#")):
                self.problems.append(f"{key} of <{tag}>")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)
        elif re.search(r"url\(|@import|https?:|expression", data):
            self.problems.append("the style sheet refers to something outside")
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)

    @property
    def text(self) -> str:
        """All text of the page, in which no space is special."""
        return " ".join("".join(self.texts).split())


def drawings(html: str) -> list[ElementTree.Element]:
    """Return every drawing, read by a strict parser; what XML does not allow raises."""
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg .*?</svg>", html, re.DOTALL)]


def check(html: str) -> Page:
    """Assert that a page is well formed, stands alone and can be read aloud; return it."""
    page = Page(html)
    assert not page.problems
    assert html.startswith("<!DOCTYPE html>")
    html.encode("utf-8")  # lone surrogates would fail when the page is written
    for svg in drawings(html):
        assert svg.get("role") == "img"
        assert svg.findtext("title")
        assert svg.findtext("desc")
    assert all(attributes.get("scope") in ("row", "col") for tag, attributes in page.elements if tag == "th")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = {(attributes.get("href") or "")[1:] for tag, attributes in page.elements if tag == "a"}
    assert targets <= set(ids)
    return page
