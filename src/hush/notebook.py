"""How values show themselves: as one short line in Python, and as a small card of HTML in a notebook.

Everything that is shown is escaped here, in one place: names of groups, budgets and columns come from data and from
other people. Colours are the notebook's own, so that a card can be read on light and on dark.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence

# Characters that HTML cannot hold (controls, lone surrogates, non-characters), and explicit direction marks: with one
# of those, a name could make the figure beside it read backwards.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_LONGEST_VALUE = 60  # letters of one value in a repr
_LONGEST_CELL = 300  # letters of one cell of a card
_MOST_ROWS = 100  # of a card's table; more would fill a notebook
_LINE = "border-bottom:1px solid color-mix(in srgb, currentColor 25%, transparent)"
_CELL = f"padding:.2em .8em .2em 0;text-align:left;vertical-align:baseline;background:none;border:0;{_LINE}"
_NUMBERS = f"{_CELL};white-space:nowrap;font-variant-numeric:tabular-nums"
_NOTE = "opacity:.75;margin:.4em 0 0;max-width:60em;text-align:left"


def clean(text: object) -> str:
    """Return anything as text, without characters that cannot be shown."""
    return _UNPRINTABLE.sub("\ufffd", str(text))


def short_repr(name: str, values: Mapping[str, object]) -> str:
    """Return ``Name(field=value, ...)`` on one line, with long values shortened.

    >>> short_repr("Estimate", {"value": 2.5, "keys": tuple(range(100))})
    'Estimate(value=2.5, keys=(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16...)'
    """
    return f"{name}({', '.join(f'{field}={_short(value)}' for field, value in values.items())})"


def card(
    title: object,
    facts: Mapping[str, object],
    *,
    notes: Sequence[object] = (),
    head: Sequence[object] = (),
    rows: Iterable[Sequence[object]] = (),
) -> str:
    """Return a card for a notebook: a title, names with their values, a table, and notes.

    >>> "<b>" in card("1 < 2", {"name": "<b>"}), "&lt;b&gt;" in card("1 < 2", {"name": "<b>"})
    (False, True)

    Args:
        title: The first line.
        facts: Names and values. None leaves a fact out.
        notes: The lines below.
        head: The titles of the table's columns; empty for no table.
        rows: The table's rows. A long table is cut, and a line says so.
    """
    cells = list(rows)
    hidden = len(cells) - _MOST_ROWS
    lines = [*([f"{hidden:,} more rows are not shown."] if hidden > 0 else []), *notes]
    parts = [
        f'<div style="font-weight:600;margin:0 0 .3em">{_escaped(title)}</div>',
        _table([], [(name, value) for name, value in facts.items() if value is not None], _CELL),
        _table(head, cells[:_MOST_ROWS], _NUMBERS) if head else "",
        *(f'<p style="{_NOTE}">{_escaped(line)}</p>' for line in lines),
    ]
    return f'<div style="color:inherit;overflow-x:auto">{"".join(parts)}</div>'


def _table(head: Sequence[object], rows: Sequence[Sequence[object]], style: str) -> str:
    if not head and not rows:
        return ""
    header = f"<thead>{_row('th', 'col', head, style)}</thead>" if head else ""
    body = "".join(_row("td", "row", row, style) for row in rows)
    return f'<table style="border-collapse:collapse;margin:0 0 .4em">{header}<tbody>{body}</tbody></table>'


def _row(element: str, scope: str, cells: Sequence[object], style: str) -> str:
    """Return a row whose first cell names it."""
    first, *others = map(_escaped, cells)
    rest = "".join(
        f'<{element} style="{style}"{" scope=col" if scope == "col" else ""}>{cell}</{element}>' for cell in others
    )
    return f'<tr><th scope={scope} style="{style};font-weight:500">{first}</th>{rest}</tr>'


def _escaped(value: object) -> str:
    """Return text for HTML. ``bdi`` isolates its writing direction."""
    text = clean(value)
    shown = text if len(text) <= _LONGEST_CELL else text[: _LONGEST_CELL - 3] + "..."
    return f"<bdi>{html.escape(shown, quote=True)}</bdi>"


def _short(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
