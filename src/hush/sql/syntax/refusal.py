"""Refusals of a query, with the place in its text."""

from __future__ import annotations

from sqlglot import exp

from hush.errors import Unsupported


class QueryRefused(Unsupported):
    """A query, or a part of one, for which no bounded plan exists; nothing was run.

    Attributes:
        line: The line in the query's text, from 1; 0 where there is no place to name.
        column: The column in that line, from 1.
    """

    def __init__(self, line: int, column: int, what: str, *advice: str) -> None:
        place = f"line {line}, column {column}: " if line else ""
        super().__init__(place + what, *advice)
        self.line, self.column = line, column


class Refuser:
    """Knows the text of a query, so that it can say where a part of it stands."""

    def __init__(self, text: str) -> None:
        """Take the text of the query."""
        self._text = text

    def __call__(self, node: exp.Expr | None, what: str, *advice: str) -> QueryRefused:
        """Return the refusal of a node, to be raised."""
        start = None if node is None else self._start(node)
        return QueryRefused(*((0, 0) if start is None else self._place(start)), what, *advice)

    def only(self, node: exp.Expr, *allowed: str) -> None:
        """Refuse a node that carries any part but these: what is not understood must not be dropped silently."""
        for name, part in node.args.items():
            if name not in allowed and part not in (None, False, []):
                found = part[0] if isinstance(part, list) else part
                shown = name.rstrip("_").replace("_", " ").upper()
                raise self(
                    found if isinstance(found, exp.Expr) else node,
                    f"{shown} is not supported in {type(node).__name__.upper()}",
                    "Leave it out",
                )

    def _start(self, node: exp.Expr) -> int | None:
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        return None if node.parent is None else self._start(node.parent)

    def _place(self, start: int) -> tuple[int, int]:
        before = self._text[:start]
        return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
