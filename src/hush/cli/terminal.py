"""Terminal output that fits its width: tables, bars, progress, and what to do next. Colours respect NO_COLOR."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO, TypeVar

_Item = TypeVar("_Item")
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_FEW_ITEMS = 20
_BAR_WIDTH = 24
_REDRAW_SECONDS = 0.1
_SMALLEST_WIDTH, _USUAL_WIDTH = 20, 80
_SMALLEST_COLUMN = 10  # letters of a table's column that is made narrower
_SHORT_BAR = 8
_PARAGRAPH_WIDTH = 100  # of `Guarantee.explain`


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out columns: those of numbers to the right, the others to the left. On a terminal, long cells are broken.

    >>> print(table(["who", "epsilon"], [["a", "0.5"], ["bob", "12"]]))
      who  epsilon
      a        0.5
      bob       12
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    is_numeric = [all(_is_number(line[column]) for line in lines[1:]) for column in range(len(header))]
    if sys.stdout.isatty():
        fitting = _fitting(lines, widths, is_numeric, _terminal_width(sys.stdout) - 1)
        if fitting is None:
            return _stacked(lines)
        widths = fitting
    return "\n".join(text for line in lines for text in _laid_out(line, widths, is_numeric))


def _fitting(
    lines: Sequence[Sequence[str]], widths: Sequence[int], is_numeric: Sequence[bool], most: int
) -> list[int] | None:
    """Return widths of columns that fit; None if there are none. Text is broken, and numbers and bars are not."""
    fitting = list(widths)
    texts = [
        column
        for column, right in enumerate(is_numeric)
        if not right and not any(_EIGHTHS[-1] in line[column] or "·" in line[column] for line in lines)
    ]
    while sum(fitting) + 2 * len(fitting) > most:
        widest = max(texts, key=fitting.__getitem__, default=None)
        if widest is None or fitting[widest] <= _SMALLEST_COLUMN:
            return None
        fitting[widest] -= 1
    return fitting


def _stacked(lines: Sequence[Sequence[str]]) -> str:
    """Return each row as a list of names and values, for a terminal that is too narrow for the columns."""
    head, *rows = lines
    width = max(map(len, head))
    most = max(_terminal_width(sys.stdout) - 1, _SMALLEST_WIDTH)
    blocks = []
    for row in rows:
        items = (
            textwrap.fill(f"{name:<{width}}  {cell}", most, initial_indent="  ", subsequent_indent=" " * (width + 4))
            for name, cell in zip(head, row, strict=True)
            if cell
        )
        blocks.append("\n".join(items))
    return "\n\n".join(blocks)


def _laid_out(line: Sequence[str], widths: Sequence[int], is_numeric: Sequence[bool]) -> Iterator[str]:
    """Yield the lines of one row."""
    cells = [
        textwrap.wrap(cell, width) if len(cell) > width else [cell] for cell, width in zip(line, widths, strict=True)
    ]
    for row in range(max(map(len, cells), default=0)):
        parts = [cell[row] if row < len(cell) else "" for cell in cells]
        yield (
            "  "
            + "  ".join(
                part.rjust(width) if right else part.ljust(width)
                for part, width, right in zip(parts, widths, is_numeric, strict=True)
            ).rstrip()
        )


def _is_number(text: str) -> bool:
    """Return whether a cell holds a number, perhaps with thousands separators."""
    return text.replace(",", "").replace(".", "").replace("-", "").replace("e", "").replace("+", "").isdigit()


def bar(share: float, width: int) -> str:
    """Draw a share of 1 as a bar, to an eighth of a character.

    >>> bar(0.5, 4), bar(0.3, 4), bar(2.0, 4)
    ('██', '█▎', '████')
    """
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def progress(items: Sequence[_Item], label: str) -> Iterator[_Item]:
    """Iterate over many items, with a bar on standard error if that is a terminal."""
    is_shown = sys.stderr.isatty() and len(items) > _FEW_ITEMS
    for done, item in enumerate(items):
        if is_shown:
            line = f"\r{label} {bar(done / len(items), 30):<30} {done}/{len(items)}"
            print(line, end="", file=sys.stderr, flush=True)
        yield item
    if is_shown:
        print("\r" + " " * (len(label) + 50) + "\r", end="", file=sys.stderr, flush=True)


def wrapped(text: str, *, most_lines: int | None = None, rest: str = "...", stream: TextIO | None = None) -> str:
    """Break lines at the width of a terminal.

    Args:
        text: The line.
        most_lines: How many lines to show at most.
        rest: Placeholder for the remaining lines.
        stream: Where the text goes; by default standard error. If it is not a terminal, the text stays as it is.
    """
    stream = stream or sys.stderr
    if not stream.isatty():
        return text
    width = max(_terminal_width(stream) - 1, _SMALLEST_WIDTH)
    placeholder = f" {rest}" if len(rest) < width else " ..."  # an error would end the output in a narrow terminal
    lines = [
        textwrap.fill(
            line, width, max_lines=most_lines, placeholder=placeholder, subsequent_indent=_indent(line, width)
        )
        for line in _unbroken(text.split("\n"))
    ]
    return "\n".join(lines)


def _indent(line: str, width: int) -> str:
    """Return the indent of what follows a line's first part: below the text of an item, and not its bullet."""
    spaces = len(line) - len(line.lstrip())
    return " " * min(spaces + 2 * bool(spaces), width // 2)


def _unbroken(lines: list[str]) -> list[str]:
    """Return paragraphs without the line breaks of an explanation, which has lines of up to 100 letters."""
    joined = lines[:1]
    last = lines[0] if lines else ""
    for line in lines[1:]:
        word = line.split(maxsplit=1)[0] if line.split() else ""
        is_broken = bool(word) and last and len(last) <= _PARAGRAPH_WIDTH < len(last) + 1 + len(word)
        is_table = "  " in last.strip() or "  " in line.strip()
        if is_broken and not is_table and not line.startswith("  - "):
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
        last = line
    return joined


class TerminalProgress:
    """Progress on standard error: a bar on a terminal, otherwise a line for each stage.

    It is a `hush.runs.Progress`. Close it when the work is done, also after an error.
    """

    def __init__(self, *, quiet: bool) -> None:
        """Show nothing at all if ``quiet``."""
        self._quiet, self._is_terminal = quiet, sys.stderr.isatty()
        self._stage, self._stage_start, self._last_drawn, self._width = "", 0.0, 0.0, 0

    def say(self, line: str) -> None:
        """Show a line of text."""
        self._clear()
        if not self._quiet:
            print(line, file=sys.stderr, flush=True)

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Redraw the bar, at most ten times a second."""
        if self._quiet:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._clear()
            self._stage, self._stage_start, self._last_drawn = stage, now, 0.0
            if not self._is_terminal:
                print(f"{stage} ...", file=sys.stderr, flush=True)
        if not self._is_terminal or (now - self._last_drawn < _REDRAW_SECONDS and done < total):
            return
        self._last_drawn = now
        line = self._line(stage, done, total, note, now)
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def _line(self, stage: str, done: int, total: int, note: str, now: float) -> str:
        """Return as much as fits: what matters least is left out first, and nothing is cut in the middle."""
        seconds_left = (now - self._stage_start) / done * (total - done) if done else 0.0
        left = f"  {seconds_left:.0f} s left" if seconds_left >= 1 else ""
        wide, short = (f"{bar(done / total, width):<{width}} " for width in (_BAR_WIDTH, _SHORT_BAR))
        count, words = f"{done}/{total}", f"  {note}" if note else ""
        most = max(_terminal_width() - 1, _SMALLEST_WIDTH)
        forms = (wide + count + words + left, short + count + words + left, short + count + words, short + count)
        return next((f"{stage} {form}" for form in forms if len(stage) + len(form) < most), f"{stage} {count}"[:most])

    def close(self) -> None:
        """Remove the bar."""
        self._clear()

    def _clear(self) -> None:
        """Remove the bar, if one is drawn."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def suggest(*commands: str) -> None:
    """Show what to do next, on standard error if people read along: not in a script, not in a pipe."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        lines = [f"  {command}" for command in commands]
        print("\n".join([coloured("Next:", "1;36"), *lines]), file=sys.stderr, flush=True)


def coloured(text: str, code: str) -> str:
    """Return text in a colour of the terminal; as it is where NO_COLOR is set or the terminal has no colours.

    Args:
        text: The text.
        code: The numbers of an ANSI escape sequence, such as 1 for bold.
    """
    has_colours = sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM", "dumb") != "dumb"
    return f"\x1b[{code}m{text}\x1b[0m" if has_colours else text


def _terminal_width(stream: TextIO | None = None) -> int:
    """Return how many characters fit into a line of a terminal; by default that of standard error."""
    try:
        # A terminal without a window, such as that of a container, says 0.
        return os.get_terminal_size((stream or sys.stderr).fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):  # claims to be a terminal, but has no size
        return _USUAL_WIDTH
