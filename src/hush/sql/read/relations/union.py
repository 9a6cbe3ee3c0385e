"""UNION ALL: the rows of several subqueries, whose rows keep their units.

A unit may contribute through each part. Contributions are bounded after the union, as they are after a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.read.translator import NUMBERS
from hush.sql.syntax.expression import union
from hush.sql.syntax.refusal import Refuser
from hush.sql.syntax.relation import Field, NamedRelation, QueryRelation, UnionAll


def union_parts(refuse: Refuser, node: exp.Expr) -> list[exp.Expr]:
    """Return the parts of a UNION ALL, in order; none if a node is something else."""
    parts: list[exp.Expr] = []
    while isinstance(node, exp.Union) and node.args.get("distinct") is False:
        refuse.unless_only(node, "this", "expression", "distinct", "with_")
        parts.append(node.expression)
        node = node.this
    return [node, *reversed(parts)] if parts else []


def name_columns(parts: Sequence[exp.Expr], names: Sequence[str]) -> None:
    """Give columns these names, in place, where they have none or that of another column."""
    for part in parts:
        if isinstance(part, exp.Select) and len(part.expressions) == len(names):
            seen = {""}
            for item, name in zip(list(part.expressions), names, strict=True):
                if name and item.alias_or_name.casefold() in seen and not item.is_star:
                    item.replace(exp.alias_(item.unalias().copy(), name, quoted=True))
                seen.add(item.alias_or_name.casefold())


def union_all(
    refuse: Refuser,
    nodes: Sequence[exp.Expr],
    relations: Sequence[QueryRelation],
    names: Iterator[str],
    aliases: Iterator[str],
) -> QueryRelation:
    """Return the rows of several relations as one relation, with the names of the first one's columns.

    Args:
        refuse: Makes the refusals.
        nodes: The parts in the query, for refusals.
        relations: The parts, none of which is a base table.
        names: New names of common table expressions.
        aliases: New aliases.
    """
    first = relations[0]
    for node, relation in zip(nodes, relations, strict=True):
        if (relation.units, relation.id_kind) != (first.units, first.id_kind):
            raise refuse(node, "the parts of UNION ALL have different units", "Let all be private, or all be public")
        if len(relation.fields) != len(first.fields):
            raise refuse(node, "the parts of UNION ALL must have equally many columns")
    columns = list(zip(*[relation.fields for relation in relations], strict=True))
    fields = tuple(_united(refuse, nodes, column) for column in columns)
    parts = tuple(NamedRelation(next(aliases), relation) for relation in relations)
    return QueryRelation(UnionAll(parts), fields, first.units, first.id_kind, next(names))


def _united(refuse: Refuser, nodes: Sequence[exp.Expr], column: Sequence[Field]) -> Field:
    """Return what is known about the column that combines several. In the plan, all of them have the same name."""
    alternatives = [entry.prototype for entry in column]
    kinds = {alternative.kind for alternative in alternatives}
    if ColumnKind.NULL in kinds or (len(kinds) > 1 and not kinds <= set(NUMBERS)):
        why = "columns of UNION ALL must be of the same kind"
        raise refuse(nodes[-1], why, "Use CAST to convert one, and CASE for one that is always NULL")
    keys = {alternative.owner_key for alternative in alternatives}
    prototype = replace(
        alternatives[0],
        **union(tuple(alternatives)),
        kind=kinds.pop() if len(kinds) == 1 else ColumnKind.FLOAT,
        unit=all(alternative.unit for alternative in alternatives),
        owner_key=keys.pop() if len(keys) == 1 else "",
        required=all(alternative.required for alternative in alternatives),
    )
    return Field(column[0].name, column[0].column, prototype)
