"""Terminal output: tables, bars and progress."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_FEW_ITEMS = 20
_BAR_WIDTH = 24
_REDRAW_SECONDS = 0.1
_SMALLEST_WIDTH, _USUAL_WIDTH = 20, 80


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out columns: those of numbers to the right, the others to the left.

    >>> print(table(["who", "epsilon"], [["a", "0.5"], ["bob", "12"]]))
      who  epsilon
      a        0.5
      bob       12
    """
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    is_numeric = [all(_is_number(line[column]) for line in lines[1:]) for column in range(len(header))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_numeric, strict=True)
        ).rstrip()
        for line in lines
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


def wrapped(text: str, *, most_lines: int | None = None, rest: str = "...") -> str:
    """Break a line at the width of standard error, if that is a terminal.

    Args:
        text: The line.
        most_lines: How many lines to show at most.
        rest: Placeholder for the remaining lines.
    """
    if not sys.stderr.isatty():
        return text
    width = max(_terminal_width() - 1, _SMALLEST_WIDTH)
    placeholder = f" {rest}" if len(rest) < width else " ..."  # an error would end the output in a narrow terminal
    lines = [textwrap.fill(line, width, max_lines=most_lines, placeholder=placeholder) for line in text.split("\n")]
    return "\n".join(lines)


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
        seconds_left = (now - self._stage_start) / done * (total - done) if done else 0.0
        left = f"  {seconds_left:.0f} s left" if seconds_left >= 1 else ""
        line = (
            f"{stage} {bar(done / total, _BAR_WIDTH):<{_BAR_WIDTH}} {done}/{total}{f'  {note}' if note else ''}{left}"
        )
        line = line[: max(_terminal_width() - 1, _SMALLEST_WIDTH)]
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def close(self) -> None:
        """Remove the bar."""
        self._clear()

    def _clear(self) -> None:
        """Remove the bar, if one is drawn."""
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def _terminal_width() -> int:
    """Return how many characters fit into a line."""
    try:
        # A terminal without a window, such as that of a container, says 0.
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_WIDTH
    except (OSError, ValueError):  # claims to be a terminal, but has no size
        return _USUAL_WIDTH
