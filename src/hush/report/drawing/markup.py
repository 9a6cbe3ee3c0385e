"""HTML that is escaped by construction: plain text cannot become markup."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Final

from hush.notebook import clean

_VOID: Final = frozenset({"meta", "col"})


class Html(str):
    """Finished markup. Every other string is text, which is escaped when it is inserted into markup.

    >>> tag("p", "1 < 2"), tag("p", Html("<b>bold</b>"))
    ('<p>1 &lt; 2</p>', '<p><b>bold</b></p>')
    """

    __slots__ = ()


def escape(part: object) -> Html:
    """Return markup unchanged, and escape everything else, including quotes, for text and attributes alike."""
    return part if isinstance(part, Html) else Html(html.escape(clean(part), quote=True))


def join(parts: Iterable[object], between: str = "") -> Html:
    """Concatenate parts, escaping what is not markup and skipping None."""
    return Html(escape(between).join(escape(part) for part in parts if part is not None))


def tag(element: str, *children: object, **attributes: object) -> Html:
    """Return one element. ``class_`` means class, other underscores become hyphens, and None leaves an attribute out.

    >>> tag("p", "1 < 2 ", tag("b", "so"), class_="x", data_a=None)
    '<p class="x">1 &lt; 2 <b>so</b></p>'
    """
    rendered = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_attribute(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if element in _VOID:
        return Html(f"<{element}{rendered}>")
    return Html(f"<{element}{rendered}>{join(children)}</{element}>")


def name(text: object) -> Html:
    """Return a name from the data. ``bdi`` isolates its writing direction."""
    return tag("bdi", text)


def bullets(items: Iterable[object]) -> Html:
    """Return a bullet list."""
    return tag("ul", *(tag("li", item) for item in items))


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[object]], *, class_: str | None = None) -> Html:
    """Return a table whose first column names its rows. Wide tables scroll."""
    header = tag("thead", tag("tr", *(tag("th", title, scope="col") for title in head)))
    body = tag("tbody", *(_row(cells) for cells in rows))
    return tag("div", tag("table", tag("caption", caption), header, body, class_=class_), class_="wide", tabindex="0")


def facts(caption: str, pairs: Iterable[tuple[object, object]]) -> Html:
    """Return a table of names and values, without a header row."""
    return tag("table", tag("caption", caption), tag("tbody", *map(_row, pairs)), class_="facts")


def folded(summary: str, *children: object) -> Html:
    """Return content that is collapsed until the reader opens it."""
    return tag("details", tag("summary", summary), *children)


def figure(plot: Html, *notes: object) -> Html:
    """Return a plot with notes beside it, or below it on a narrow screen."""
    return tag("figure", plot, tag("figcaption", *(tag("p", note) for note in notes)))


def _row(cells: Sequence[object]) -> Html:
    first, *others = cells
    return tag("tr", tag("th", first, scope="row"), *(tag("td", cell) for cell in others))


def _attribute(value: object) -> object:
    # Two decimals are precise enough for coordinates in pixels.
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
