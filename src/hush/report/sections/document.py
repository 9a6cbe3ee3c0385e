"""The HTML document: head, table of contents, sections."""

from __future__ import annotations

from collections.abc import Sequence

from hush.report.drawing.markup import Html, bullets, join, tag
from hush.report.drawing.style import STYLE
from hush.report.sections.section import Section

# Even if some text were to become markup, a browser that obeys this runs no script and fetches nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def document(title: str, header: Html, sections: Sequence[Section], *, generator: Html) -> str:
    """Return a self-contained page: no script, no font, no network.

    Args:
        title: The title of the page.
        header: The content above the table of contents.
        sections: The content below it.
        generator: The element that names the program.
    """
    main = tag("main", *(section.html() for section in sections))
    body = join([header, _contents(sections), main], "\n")
    return f'<!DOCTYPE html>\n<html lang="en">\n{_head(title, generator)}\n{tag("body", body)}\n</html>\n'


def tile(figure: object, label: str, *, class_: str = "tile") -> Html:
    """Return a headline figure with its label."""
    return tag("div", tag("b", figure), tag("span", label), class_=class_)


def _head(title: str, generator: Html) -> Html:
    return tag(
        "head",
        Html('<meta charset="utf-8">'),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        generator,
        tag("title", title),
        tag("style", Html(STYLE)),
    )


def _contents(sections: Sequence[Section]) -> Html:
    links = bullets(tag("a", section.title, href=f"#{section.key}") for section in sections)
    return tag("nav", links, aria_label="Contents")
