"""Joins: which rows they combine, and whether these belong to one unit.

The plan itself equates the units of private tables that are joined. So no join can combine rows of different units,
whatever the query says. A query that does not equate them itself is refused, because its answer would differ from what
it asks for. Two columns equate units if both identify the unit, or if one refers to the key that the other one holds
(`Through`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.relations.scope import Scope, find_column
from hush.sql.read.translator import Translator
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.refusal import QueryRefused, Refuser
from hush.sql.syntax.relation import NamedRelation

Pair = tuple[str, str]  # the aliases of two tables whose units are equal
WIDE_JOIN = "this join would combine rows of different units"
JOIN_ADVICE = "Write JOIN b ON a.unit = b.unit, or join a public table"
WIDE_SUBQUERY = "this subquery would read rows of other units"
NESTED_ADVICE = (
    "Let it read public tables only, or equate the units in its WHERE: inner.unit = outer.unit",
    "Or ask it as a query of its own, and write its released value here",
)
PUBLIC_ADVICE = "Join the private table instead"


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that AND joins at the top of a condition."""
    if condition is None:
        return []
    inner = condition.this if isinstance(condition, exp.Where) else condition
    inner = inner.unnest()
    if not isinstance(inner, exp.And):
        return [inner]
    return [part for side in (inner.this, inner.expression) for part in conjuncts(side)]


def equated_units(conditions: Iterable[exp.Expr], resolve: Callable[[exp.Column], Expr]) -> list[Pair]:
    """Return the pairs of tables whose units must be equal where all of these conditions hold."""
    pairs = []
    for condition in conditions:
        sides = [condition.this, condition.expression] if isinstance(condition, exp.EQ) else []
        if not sides or not all(isinstance(side, exp.Column) for side in sides):
            continue
        try:
            left, right = [resolve(side) for side in sides]
        except QueryRefused:  # the condition itself is translated later, and refused there
            continue
        pairs += equated_by(left, right)
    return pairs


def equated_by(left: Expr, right: Expr) -> list[Pair]:
    """Return the pair of tables whose units are equal if two columns are, or nothing."""
    if left.op != "column" or right.op != "column" or left.value[0] == right.value[0]:
        return []
    same_key = left.owner_key != "" and left.owner_key == right.owner_key
    return [(left.value[0], right.value[0])] if same_key or (left.unit and right.unit) else []


def reached(start: set[str], pairs: Iterable[Pair]) -> set[str]:
    """Return the tables whose units equal those of ``start``, by a chain of pairs."""
    reachable, pending = set(start), list(start)
    neighbours: dict[str, list[str]] = {}
    for left, right in pairs:
        neighbours.setdefault(left, []).append(right)
        neighbours.setdefault(right, []).append(left)
    while pending:
        for other in neighbours.get(pending.pop(), ()):
            if other not in reachable:
                reachable.add(other)
                pending.append(other)
    return reachable


def aliases_above(scope: Scope) -> set[str]:
    """Return the aliases of the enclosing SELECTs. Tables that a condition can equate belong to one unit."""
    aliases: set[str] = set()
    while scope.parent is not None:
        scope = scope.parent
        aliases |= {from_item.alias for from_item in scope.from_items.values()}
    return aliases


def check_comparable(refuse: Refuser, node: exp.Expr, owner: NamedRelation, from_item: NamedRelation) -> None:
    """Refuse two private relations whose units cannot be compared."""
    if owner.relation.id_kind is not from_item.relation.id_kind:
        raise refuse(
            node,
            "the units of these tables have different types",
            "Store both as integers, or both as texts",
        )
    if owner.relation.units > 1 or from_item.relation.units > 1:
        raise refuse(node, "tables whose unit is a user within a window cannot be joined")


def join_condition(
    refuse: Refuser, node: exp.Expr, scope: Scope, before: Mapping[str, NamedRelation], from_item: NamedRelation
) -> list[Expr]:
    """Return the parts of a join's condition, which all have to hold."""
    row = Translator(refuse, scope.resolve)
    merged = _common_names(before, from_item) if node.args.get("method") else node.args.get("using")
    if merged:
        return [_using(refuse, name, before, from_item, scope) for name in merged]
    if node.args.get("on") is None:
        return []
    on = node.args["on"]
    return [row.condition(part) for part in (on.flatten() if isinstance(on, exp.And) else [on])]


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    """Return the condition that several conditions hold, or None if there are none."""
    if not conditions:
        return None
    combined, *rest = conditions
    for part in rest:
        combined = Expr("and", ColumnKind.BOOL, (combined, part))
    return combined


def _using(
    refuse: Refuser, name: exp.Expr, before: Mapping[str, NamedRelation], from_item: NamedRelation, scope: Scope
) -> Expr:
    """Return the condition of one column of USING."""
    lower = name.name.casefold()
    lefts = [match for other in before.values() if (match := find_column(other, lower)) is not None]
    right = find_column(from_item, lower)
    if (len(lefts) != 1 and lower not in scope.merged) or right is None:
        raise refuse(name, "USING takes a column that both sides have exactly once")
    if lefts[0].kind is not right.kind or right.kind is ColumnKind.OTHER:
        raise refuse(name, "the two columns are of different kinds", "Use ON with CAST")
    scope.merged.add(lower)
    return Expr("eq", ColumnKind.BOOL, (lefts[0], right))


def _common_names(before: Mapping[str, NamedRelation], from_item: NamedRelation) -> list[exp.Expr]:
    """Return the columns of a NATURAL JOIN: those of the table that an earlier one has as well."""
    names = [entry.name for entry in from_item.relation.fields]
    return [
        exp.to_identifier(name)
        for name in names
        if any(find_column(other, name.casefold()) is not None for other in before.values())
    ]


def unmark_unit(scope: Scope, from_item: NamedRelation) -> None:
    """Stop treating columns of a table as the unit, or as keys that lead to it."""
    fields = tuple(
        replace(entry, prototype=replace(entry.prototype, unit=False, owner_key=""))
        for entry in from_item.relation.fields
    )
    for name, known in scope.from_items.items():
        if known is from_item:
            scope.from_items[name] = replace(from_item, relation=replace(from_item.relation, fields=fields))
