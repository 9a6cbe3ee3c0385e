"""From the parser's expressions to typed ones.

`Translator` looks up the rule for a node's type in `RULES`, the allow-list that `hush.sql.read.rules` fills. A node
without a rule is refused, and so is a node with a part that its rule does not know. Rules check kinds themselves: an
engine's implicit casts could fail on some row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr, literal, numeric
from hush.sql.syntax.reasons import reason
from hush.sql.syntax.refusal import Refuser

Rule = Callable[["Translator", Any], Expr]
Resolve = Callable[[exp.Column], Expr]
Hook = Callable[[exp.Expr], "Expr | None"]
Rebound = Callable[[Expr], Expr]

MAX_WEIGHT = 5_000
MOMENTS = (ColumnKind.INSTANT, ColumnKind.TIME, ColumnKind.DATE)  # the first of several is what they are compared as
ZONE_ADVICE = "Say in which time zone: m AT TIME ZONE 'Europe/Berlin'"
NUMBERS = (ColumnKind.INT, ColumnKind.FLOAT)
# `hush.sql.read.rules` fills both: rules need the translator, and the translator needs the rules.
RULES: dict[type[exp.Expr], Rule] = {}
PARTS: dict[type[exp.Expr], tuple[str, ...]] = {}  # the parts that a node may have, if not the default ones
_DEFAULT_PARTS = ("this", "expression")


class Translator:
    """Translates nodes into expressions, or refuses them."""

    def __init__(
        self, refuse: Refuser, resolve: Resolve, hook: Hook | None = None, rebound: Rebound | None = None
    ) -> None:
        """Make a translator for one scope.

        Args:
            refuse: Makes the refusals.
            resolve: Finds the column that a name refers to.
            hook: Translates nodes before the rules do, such as aggregates; it returns None for all other nodes.
            rebound: Gives bounds to columns, and to text that is read as a number; by default, nothing changes.
        """
        self.refuse, self._resolve, self._hook = refuse, resolve, hook
        self.rebound: Rebound = rebound or (lambda expression: expression)

    def __call__(self, node: exp.Expr) -> Expr:
        """Return the expression of a node, or refuse it."""
        expression = self._hook(node) if self._hook else None
        if expression is None:
            rule = RULES.get(type(node))
            if rule is None:
                raise self.refuse(node, *reason(node))
            self.refuse.unless_only(node, *PARTS.get(type(node), _DEFAULT_PARTS))
            expression = rule(self, node)
            self.refuse.unless_written(node, expression)
            if expression.weight() > MAX_WEIGHT:
                raise self.refuse(node, "the expression is too long", "Split it with a subquery")
        return expression

    def column(self, node: exp.Column) -> Expr:
        """Return the column that a name refers to."""
        return self.rebound(self._resolve(node))

    def number(self, node: exp.Expr) -> Expr:
        """Return a node as a number, for arithmetic."""
        return self.as_number(self(node), node)

    def as_number(self, expression: Expr, node: exp.Expr) -> Expr:
        """Return an expression as a number. Arithmetic is in double precision on every engine."""
        if expression.kind in (ColumnKind.FLOAT, ColumnKind.NULL):
            return expression
        if expression.kind is ColumnKind.INT:
            is_literal = expression.op == "literal"
            return replace(expression, kind=ColumnKind.FLOAT) if is_literal else numeric("number", expression)
        raise self.refuse(
            node, f"expected a number here, not {_with_article(expression.kind)}", *_number_advice(expression, node)
        )

    def condition(self, node: exp.Expr) -> Expr:
        """Return a node as a condition."""
        return self._of_kind(node, "a condition", "Compare it with a value", ColumnKind.BOOL)

    def text(self, node: exp.Expr) -> Expr:
        """Return a node as text."""
        return self._of_kind(node, "text", "Use CAST(... AS VARCHAR)", ColumnKind.TEXT)

    def moment(self, node: exp.Expr) -> Expr:
        """Return a node as a date or a timestamp."""
        expression = self(node)
        if expression.kind is ColumnKind.INSTANT:
            raise self.refuse(node, "a timestamp with a time zone has no date or hour of its own", ZONE_ADVICE)
        if expression.kind not in (ColumnKind.DATE, ColumnKind.TIME):
            raise self.refuse(
                node, f"expected a date here, not {_with_article(expression.kind)}", "Use CAST(... AS DATE)"
            )
        return expression

    def same_kind(self, nodes: list[exp.Expr]) -> tuple[Expr, ...]:
        """Return nodes as expressions of one kind, converting integers to numbers and dates to timestamps."""
        parts = [self(node) for node in nodes]
        kinds = {part.kind for part in parts} - {ColumnKind.NULL}
        if kinds <= set(NUMBERS):
            if len(kinds) > 1:
                parts = [self.as_number(part, node) for part, node in zip(parts, nodes, strict=True)]
            return tuple(parts)
        if kinds.intersection(MOMENTS):
            target = next(kind for kind in MOMENTS if kind in kinds)
            parts = [self._as_moment(part, node, target) for part, node in zip(parts, nodes, strict=True)]
            kinds = {part.kind for part in parts} - {ColumnKind.NULL}
        if len(kinds) > 1:
            names = " and ".join(sorted(kind.value for kind in kinds))
            advice = ZONE_ADVICE if ColumnKind.INSTANT in kinds else "Use CAST to convert them"
            raise self.refuse(nodes[0], f"these values are of different kinds: {names}", advice)
        return tuple(parts)

    def constant(self, node: exp.Expr, *types: type) -> Any:
        """Return the value of a literal."""
        expression = self(node)
        if expression.op != "literal" or not isinstance(expression.value, types):
            raise self.refuse(node, "expected a constant here", "Write the value itself")
        return expression.value

    def _of_kind(self, node: exp.Expr, expected: str, advice: str, kind: ColumnKind) -> Expr:
        """Return a node as an expression of one kind, or NULL."""
        expression = self(node)
        if expression.kind not in (kind, ColumnKind.NULL):
            raise self.refuse(node, f"expected {expected} here, not {_with_article(expression.kind)}", advice)
        return expression

    def _as_moment(self, part: Expr, node: exp.Expr, target: ColumnKind) -> Expr:
        """Return an operand as a date or timestamp. Text is converted if it is a constant; anything else stays."""
        if part.kind in (target, ColumnKind.NULL):
            return part
        if part.op == "literal" and part.kind is ColumnKind.TEXT:
            return moment_literal(self, node, part.value, target)
        if part.kind is ColumnKind.DATE and target is ColumnKind.TIME:
            return Expr("to_time", ColumnKind.TIME, (part,))
        return part


def _with_article(kind: ColumnKind) -> str:
    """Return a kind for a message."""
    return {ColumnKind.INT: "an integer", ColumnKind.TEXT: "text", ColumnKind.NULL: "NULL"}.get(kind, f"a {kind.value}")


def _number_advice(expression: Expr, node: exp.Expr) -> tuple[str, ...]:
    """Return how to make a number of an expression."""
    if expression.kind in MOMENTS:
        return ("Extract a part of it, such as EXTRACT(YEAR FROM ...)", "Compare dates with constant dates")
    if expression.kind is ColumnKind.TEXT and expression.op == "column":  # like all columns of a CSV file
        name = node.name or "x"
        declaration = f'bounds={{"{name}": (LOW, HIGH)}}, --bounds {name}=LOW:HIGH'
        return (f"Declare its bounds to read it as a number: {declaration}", "Or use CAST(... AS DOUBLE)")
    return ("Use CAST(... AS DOUBLE)",)


def _in_utc(translate: Translator, node: exp.Expr, moment: datetime) -> datetime:
    """Return a moment as a timestamp in UTC. Without an offset, the session's time zone would decide."""
    if moment.tzinfo is None:
        raise translate.refuse(node, "the time zone of this timestamp is not known", "Write 2024-12-31 23:59:59+00:00")
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:
        raise ValueError from None


def moment_literal(translate: Translator, node: exp.Expr, text: str, kind: ColumnKind) -> Expr:
    """Return a date or timestamp that the query writes as text."""
    try:
        moment = datetime.fromisoformat(text.strip())
        if kind is ColumnKind.INSTANT:
            moment = _in_utc(translate, node, moment)
        if moment.tzinfo is not None or (kind is ColumnKind.DATE and len(text.strip()) != 10):
            raise ValueError
    except ValueError:
        raise translate.refuse(
            node, f"{text!r} is not a {kind.value}", "Write 2024-12-31 or 2024-12-31 23:59:59"
        ) from None
    return literal(moment.date() if kind is ColumnKind.DATE else moment, kind)
