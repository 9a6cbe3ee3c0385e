"""Refusals of a query, with the line and column of the refused part."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from hush.errors import Unsupported
from hush.sql.syntax.expression import Expr


class QueryRefused(Unsupported):
    """The query, or a part of it, has no plan with bounded contributions. Nothing was run and nothing was charged.

    Attributes:
        line: The line in the query's text, from 1; 0 if the refusal concerns no particular part.
        column: The column in that line, from 1.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people (who BIGINT, age BIGINT)")
    >>> people = hush.table(connection, name="people", unit="who", bounds={"age": (0, 120)})
    >>> people.sql("SELECT MAX(age) FROM people", epsilon=1.0)
    Traceback (most recent call last):
        ...
    hush.sql.syntax.refusal.QueryRefused: line 1, column 12: MAX over all rows would show one unit's value. ...
    """

    def __init__(self, line: int, column: int, what: str, *advice: str) -> None:
        position = f"line {line}, column {column}: " if line else ""
        super().__init__(position + what, *advice)
        self.line, self.column = line, column


class Refuser:
    """Makes refusals for one query. It keeps the query's text, to locate nodes of the parser's tree.

    >>> from sqlglot import parse_one
    >>> text = "SELECT a FROM t"
    >>> str(Refuser(text)(parse_one(text).expressions[0], "this shows rows", "Use COUNT(*)"))
    'line 1, column 8: this shows rows. Use COUNT(*).'
    """

    def __init__(self, text: str, writes: Callable[[Expr], bool] | None = None, engine: str = "") -> None:
        """Take the text of the query, and the engine's name with what says whether it has an operation."""
        self._text, self._writes, self._engine = text, writes, engine

    def __call__(self, node: exp.Expr | None, what: str, *advice: str) -> QueryRefused:
        """Return the refusal of a node, for the caller to raise."""
        start = None if node is None else self._start(node)
        return QueryRefused(*((0, 0) if start is None else self._line_and_column(start)), what, *advice)

    def unless_written(self, node: exp.Expr, expression: Expr) -> None:
        """Refuse an operation that the engine cannot compute for every possible row."""
        for part in (expression, *expression.args):
            if self._writes is not None and not self._writes(part):
                what = f"{part.op.upper()} of {part.kind.value} values is not supported on {self._engine}"
                extreme = part.op in ("least", "greatest")
                advice = "Write CASE WHEN ... THEN ... END" if extreme else "Compute it in a view of the database"
                raise self(node, what, advice)

    def at(self, offset: int, what: str, *advice: str) -> QueryRefused:
        """Return the refusal of the part at an offset in the text, for the caller to raise."""
        return QueryRefused(*self._line_and_column(offset), what, *advice)

    def unless_only(self, node: exp.Expr, *allowed: str) -> None:
        """Refuse a node with any part but these. Ignoring a part would change the meaning of the query."""
        for name, part in node.args.items():
            if name not in allowed and part not in (None, False, []):
                first = part[0] if isinstance(part, list) else part
                clause = "SCHEMA" if name == "db" else name.rstrip("_").replace("_", " ").upper()
                raise self(
                    first if isinstance(first, exp.Expr) else node,
                    f"{clause} is not supported in {type(node).__name__.upper()}",
                    "Leave it out",
                )

    def _start(self, node: exp.Expr) -> int | None:
        """Return where a node begins in the text. Nodes without a position of their own have that of their parent."""
        starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return int(min(starts))
        return None if node.parent is None else self._start(node.parent)

    def _line_and_column(self, start: int) -> tuple[int, int]:
        """Return the line and the column of an offset in the text, both from 1."""
        before = self._text[:start]
        return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1
