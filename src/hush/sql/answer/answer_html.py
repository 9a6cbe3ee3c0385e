"""Writes an answer as HTML for notebooks: numbers with their intervals, and their cost.

Everything is escaped. Colours are the notebook's own, lighter or darker, so that it can be read on light and on dark.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from hush.report.page_parts import Html, join, tag
from hush.sql.answer.answer_columns import Answered, end_titles, written

MOST_ROWS = 100  # more would fill a notebook; the rows are all in the answer
_CELL = "padding:.2em .8em .2em 0;text-align:{};vertical-align:baseline;white-space:nowrap;background:none;border:0;"
_CELL += "border-bottom:1px solid color-mix(in srgb, currentColor 25%, transparent);font-variant-numeric:tabular-nums"
_SOFT = "opacity:.75"


def answer_page(answer: Answered, confidence: float, notes: Sequence[str]) -> Html:
    """Return a fragment of a page.

    Args:
        answer: The answer.
        confidence: The confidence of its intervals.
        notes: The lines below its table.
    """
    columns = [_column(answer, index, confidence) for index in range(len(answer.columns))]
    header, *rows = zip(*(cells for column in columns for cells in column), strict=True)
    more = len(answer.rows) - len(rows)
    lines = ([f"{more:,} more rows are not shown."] if more else []) + list(notes)
    body = tag("tbody", *(tag("tr", *row) for row in rows))
    table = tag("table", tag("thead", tag("tr", *header)), body, style="border-collapse:collapse;margin:0")
    style = f"{_SOFT};margin:.4em 0 0;max-width:60em;text-align:left"
    below = join(tag("p", line, style=style) for line in lines)
    return tag("div", tag("div", table, style="overflow-x:auto"), below, style="color:inherit")


def _column(answer: Answered, index: int, confidence: float) -> list[list[Html]]:
    """Return the cells of a column, and those of its intervals, if it has any."""
    name, values = answer.columns[index], [row[index] for row in islice(answer.rows, MOST_ROWS)]
    are_numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values)
    cells = [_cell("th", name, are_numbers), *(_cell("td", written(value), are_numbers) for value in values)]
    if not end_titles(name, answer):
        return [cells]
    texts = [" to ".join(map(written, row[name])) if name in row else "" for row in islice(answer.intervals, MOST_ROWS)]
    title = f"{100 * confidence:.4g} % interval"
    return [cells, [_cell("th", title, False, _SOFT), *(_cell("td", text, False, _SOFT) for text in texts)]]


def _cell(element: str, text: str, right: bool, *styles: str) -> Html:
    return tag(element, text, style=";".join([_CELL.format("right" if right else "left"), *styles]))
