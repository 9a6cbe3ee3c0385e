"""What a terminal shows: tables, bars, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
_EIGHTHS = " ▏▎▍▌▋▊▉█"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Lay out columns: the first one left-aligned, the others too where they hold words, numbers to the right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    numeric = [all(_is_number(line[column]) for line in lines[1:]) for column in range(len(header))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    )


def _is_number(text: str) -> bool:
    return text.replace(",", "").replace(".", "").replace("-", "").replace("e", "").replace("+", "").isdigit()


def bar(share: float, width: int) -> str:
    """Draw a share of 1 as a bar."""
    eighths = round(8 * width * min(max(share, 0.0), 1.0))
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")


def progress(items: Sequence[_Item], label: str) -> Iterator[_Item]:
    """Iterate, showing how far it is on standard error if that is a terminal."""
    show = sys.stderr.isatty() and len(items) > 20
    for done, item in enumerate(items):
        if show:
            print(
                f"\r{label} {bar(done / len(items), 30):<30} {done}/{len(items)}", end="", file=sys.stderr, flush=True
            )
        yield item
    if show:
        print("\r" + " " * (len(label) + 50) + "\r", end="", file=sys.stderr, flush=True)
