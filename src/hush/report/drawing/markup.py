"""HTML that is escaped by construction: plain text cannot become markup."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

# What XML cannot hold (control characters, halves of a surrogate pair, non-characters), and the explicit marks of
# direction: with one of those a class could be named so that the figure beside it reads backwards.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")

_VOID: Final = frozenset({"meta", "col"})


class Html(str):
    """Markup that is finished. Every other string is text, and is escaped where it meets markup."""

    __slots__ = ()


def clean(text: object) -> str:
    """Write anything as text that every reader can show."""
    return _UNPRINTABLE.sub("\ufffd", str(text))


def escape(part: object) -> Html:
    """Let markup pass and escape all else, quotes too, so that the result fits text and attributes alike."""
    return part if isinstance(part, Html) else Html(html.escape(clean(part), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Put parts together, escaping what is not markup; nothing (None) is left out."""
    return Html(escape(between).join(escape(part) for part in parts if part is not None))


def tag(element: str, *children: object, **attributes: object) -> Html:
    """Write one element. ``class_`` is class, other underscores are hyphens, and an attribute that is None is left out.

    >>> tag("p", "1 < 2 ", tag("b", "so"), class_="x", data_a=None)
    '<p class="x">1 &lt; 2 <b>so</b></p>'
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Html(f"<{element}{written}>")
    return Html(f"<{element}{written}>{join(children)}</{element}>")


def name(text: object) -> Html:
    """Write a name from the data; ``bdi`` keeps its direction of writing to itself."""
    return tag("bdi", text)


def bullets(items: Iterable[object]) -> Html:
    """Write a list."""
    return tag("ul", *(tag("li", item) for item in items))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, class_: str | None = None) -> Html:
    """Write a table whose first column names its rows; wide ones scroll within themselves."""
    header = tag("thead", tag("tr", *(tag("th", title, scope="col") for title in head)))
    body = tag("tbody", *(_row(cells) for cells in rows))
    return tag("div", tag("table", tag("caption", caption), header, body, class_=class_), class_="wide", tabindex="0")


def facts(caption: str, pairs: Iterable[tuple[object, object]]) -> Html:
    """Write a table of two columns, a name and its value, that needs no head."""
    return tag("table", tag("caption", caption), tag("tbody", *map(_row, pairs)), class_="facts")


def folded(summary: str, *children: object) -> Html:
    """Write what is there for those who ask for it."""
    return tag("details", tag("summary", summary), *children)


def figure(plot: Html, *notes: object) -> Html:
    """Write a plot with the remarks beside it, or below it on a narrow screen."""
    return tag("figure", plot, tag("figcaption", *(tag("p", note) for note in notes)))


def _row(cells: Sequence[object]) -> Html:
    first, *others = cells
    return tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in others))


def _attribute(value: object) -> object:
    # Coordinates: two decimals are a fiftieth of a pixel.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
