"""UNION ALL: the rows of several subqueries, each of which keeps its unit.

A unit may contribute through each part. Contributions are bounded after the union, as they are after a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr, union
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
    """Give the columns without a name these names, in place: those after AS, or those of the first part of a union."""
    for part in parts:
        if isinstance(part, exp.Select) and len(part.expressions) == len(names):
            for item, name in zip(list(part.expressions), names, strict=True):
                if name and not item.alias_or_name and not item.is_star:
                    item.replace(exp.alias_(item.copy(), name, quoted=True))


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
        if (relation.units, relation.entity) != (first.units, first.entity):
            raise refuse(node, "the parts of UNION ALL have different units", "Let all be private, or all be public")
        kinds = [entry.prototype.kind for entry in relation.fields]
        if kinds != [entry.prototype.kind for entry in first.fields] or ColumnKind.NULL in kinds:
            why = "the parts of UNION ALL must have equally many columns, of the same kinds"
            raise refuse(node, why, "Use CAST to convert one, and CASE for one that is always NULL")
    prototypes = [_union_of([entry.prototype for entry in column]) for column in zip(*_fields(relations), strict=True)]
    fields = tuple(
        Field(entry.name, entry.column, prototype) for entry, prototype in zip(first.fields, prototypes, strict=True)
    )
    parts = tuple(NamedRelation(next(aliases), relation) for relation in relations)
    return QueryRelation(UnionAll(parts), fields, first.units, first.entity, next(names))


def _fields(relations: Sequence[QueryRelation]) -> list[tuple[Field, ...]]:
    """Return the columns of each relation. Their names in the plan are those of the first one: c0, c1 and so on."""
    return [relation.fields for relation in relations]


def _union_of(alternatives: list[Expr]) -> Expr:
    """Return what is known about the values of a column that comes from several ones."""
    first = alternatives[0]
    keys = {alternative.owner_key for alternative in alternatives}
    return replace(
        first,
        **union(tuple(alternatives)),
        unit=all(alternative.unit for alternative in alternatives),
        owner_key=first.owner_key if len(keys) == 1 else "",
        required=all(alternative.required for alternative in alternatives),
    )
