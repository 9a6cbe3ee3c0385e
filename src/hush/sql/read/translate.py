"""From the parser's tree to hush's expressions, by rules for what is allowed; whatever has no rule is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr, literal, numeric
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser

Rule = Callable[["Translator", Any], Expr]
Resolve = Callable[[exp.Column], Expr]
Hook = Callable[[exp.Expr], "Expr | None"]

MOST_WEIGHT = 5_000
NUMBERS = (ColumnKind.INT, ColumnKind.FLOAT)
RULES: dict[type[exp.Expr], Rule] = {}  # `_rules` fills both: rules need the translator, and it needs them
PARTS: dict[type[exp.Expr], tuple[str, ...]] = {}  # what a node may carry, where it is not the usual
_USUAL = ("this", "expression")


class Translator:
    """Turns expressions into typed, total ones. ``resolve`` finds columns; ``hook`` may take a node first."""

    def __init__(self, refuse: Refuser, resolve: Resolve, hook: Hook | None = None) -> None:
        """Take how to refuse, how to find a column, and what comes before the rules."""
        self.refuse, self._resolve, self._hook = refuse, resolve, hook

    def __call__(self, node: exp.Expr) -> Expr:
        """Return the expression that a node stands for, or refuse it."""
        found = self._hook(node) if self._hook else None
        if found is None:
            rule = RULES.get(type(node))
            if rule is None:
                raise self.refuse(node, *reason(node))
            self.refuse.only(node, *PARTS.get(type(node), _USUAL))
            found = rule(self, node)
            if found.weight() > MOST_WEIGHT:
                raise self.refuse(node, "the expression is too long", "Split it by a subquery")
        return found

    def column(self, node: exp.Column) -> Expr:
        """Return the column that a name stands for."""
        return self._resolve(node)

    def number(self, node: exp.Expr) -> Expr:
        """Return a node as a number, for arithmetic."""
        return self.as_number(self(node), node)

    def as_number(self, found: Expr, node: exp.Expr) -> Expr:
        """Return an expression as a number; arithmetic is in double precision on every engine."""
        if found.kind in (ColumnKind.FLOAT, ColumnKind.NULL):
            return found
        if found.kind is ColumnKind.INT:
            return numeric("number", found) if found.op != "literal" else replace(found, kind=ColumnKind.FLOAT)
        raise self.refuse(
            node, f"a number is expected here, and this is a {found.kind.value}", *_as_number_advice(found, node)
        )

    def truth(self, node: exp.Expr) -> Expr:
        """Return a node as a condition."""
        found = self(node)
        if found.kind not in (ColumnKind.BOOL, ColumnKind.NULL):
            raise self.refuse(node, f"a condition is expected here, and this is a {found.kind.value}", "Compare it")
        return found

    def text(self, node: exp.Expr) -> Expr:
        """Return a node as text."""
        found = self(node)
        if found.kind not in (ColumnKind.TEXT, ColumnKind.NULL):
            raise self.refuse(
                node, f"text is expected here, and this is a {found.kind.value}", "Use CAST(... AS VARCHAR)"
            )
        return found

    def moment(self, node: exp.Expr) -> Expr:
        """Return a node as a date or a timestamp."""
        found = self(node)
        if found.kind not in (ColumnKind.DATE, ColumnKind.TIME):
            raise self.refuse(
                node, f"a date is expected here, and this is a {found.kind.value}", "Use CAST(... AS DATE)"
            )
        return found

    def alike(self, nodes: list[exp.Expr]) -> tuple[Expr, ...]:
        """Return nodes as expressions of one kind; an engine's implicit casts could raise."""
        parts = [self(node) for node in nodes]
        kinds = {part.kind for part in parts} - {ColumnKind.NULL}
        if kinds <= set(NUMBERS):
            if len(kinds) > 1:
                parts = [self.as_number(part, node) for part, node in zip(parts, nodes, strict=True)]
            return tuple(parts)
        moments = kinds & {ColumnKind.DATE, ColumnKind.TIME}
        if moments:
            wanted = ColumnKind.TIME if ColumnKind.TIME in kinds else ColumnKind.DATE
            parts = [self._dated(part, node, wanted) for part, node in zip(parts, nodes, strict=True)]
            kinds = {part.kind for part in parts} - {ColumnKind.NULL}
        if len(kinds) > 1:
            shown = " and ".join(sorted(kind.value for kind in kinds))
            raise self.refuse(nodes[0], f"values of different kinds meet here: {shown}", "Use CAST to make them alike")
        return tuple(parts)

    def constant(self, node: exp.Expr, *kinds: type) -> Any:
        """Return the value of a literal."""
        found = self(node)
        if found.op != "literal" or not isinstance(found.value, kinds):
            raise self.refuse(node, "a constant is expected here", "Write the value itself")
        return found.value

    def _dated(self, part: Expr, node: exp.Expr, wanted: ColumnKind) -> Expr:
        if part.kind in (wanted, ColumnKind.NULL):
            return part
        if part.op == "literal" and part.kind is ColumnKind.TEXT:
            return moment_literal(self, node, part.value, wanted)
        if part.kind is ColumnKind.DATE:
            return Expr("to_time", ColumnKind.TIME, (part,))
        return part


def _as_number_advice(found: Expr, node: exp.Expr) -> tuple[str, ...]:
    if found.kind in (ColumnKind.DATE, ColumnKind.TIME):
        return ("Take a part of it, such as EXTRACT(YEAR FROM ...)", "Compare dates with constant dates")
    if found.kind is ColumnKind.TEXT and found.op == "column":  # as all columns of a CSV file are
        name = node.name or "x"
        bounds = f'Declare its bounds, and it is a number: bounds={{"{name}": (LOW, HIGH)}}, --bounds {name}=LOW:HIGH'
        return (bounds, "Or use CAST(... AS DOUBLE)")
    return ("Use CAST(... AS DOUBLE)",)


def moment_literal(to: Translator, node: exp.Expr, text: str, kind: ColumnKind) -> Expr:
    """Return a date or timestamp that is written in the query."""
    try:
        found = datetime.fromisoformat(text.strip())
        if found.tzinfo is not None or (kind is ColumnKind.DATE and len(text.strip()) != 10):
            raise ValueError
    except ValueError:
        raise to.refuse(node, f"{text!r} is not a {kind.value}", "Write 2024-12-31 or 2024-12-31 23:59:59") from None
    return literal(found.date() if kind is ColumnKind.DATE else found, kind)
