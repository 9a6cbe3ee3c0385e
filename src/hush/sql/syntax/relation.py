"""Relations: the tables, joins and subqueries that a query reads.

Every relation is public, or each of its rows belongs to one unit. The invariant, by induction over the bodies below:
the rows of a unit are a function of that unit's rows in the base tables and of public tables. A filter, a projection, a
join on the unit, a join with a public table, an aggregate per unit, a window within a unit and a union of relations all
preserve it. So does a subquery in a condition, if it reads public tables only, or no rows but those of the unit whose
row the condition is about (`NestedQuery`). `hush.sql.read` refuses everything else.

A base table without a unit column (`Through`) is joined with the units and keys of the rows that it refers to. Its rows
for a unit are a function of that unit's rows there and of the rows that refer to these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation.

    Attributes:
        name: Its name in queries.
        column: Its name in the plan.
        prototype: An expression with the kind, bounds and domain of its values.
    """

    name: str
    column: str
    prototype: Expr


@dataclass(frozen=True, slots=True)
class ScannedColumn:
    """A column of a base table.

    Attributes:
        column: Its name in the plan.
        raw: Its name in the table.
        declared: Its type as the engine declares it.
        kind: The kind it is converted to; values that do not fit become NULL.
    """

    column: str
    raw: str
    declared: str
    kind: ColumnKind


@dataclass(frozen=True, slots=True)
class Scan:
    """A base table. ``unit`` and ``time`` are columns, and None for a public table; ``window`` is a calendar unit."""

    table: str
    columns: tuple[ScannedColumn, ...]
    unit: ScannedColumn | None
    time: ScannedColumn | None
    window: str | None


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation under an alias that no other has."""

    alias: str
    relation: QueryRelation


@dataclass(frozen=True, slots=True)
class Join:
    """A relation that is joined. ``left`` keeps rows without a match; ``on_unit`` joins rows of the same unit."""

    item: NamedRelation
    left: bool
    on_unit: bool
    condition: Expr | None


@dataclass(frozen=True, slots=True)
class Origin:
    """A FROM clause. ``owner`` is the table whose units the rows belong to; None if all are public."""

    first: NamedRelation
    joins: tuple[Join, ...]
    owner: NamedRelation | None


@dataclass(frozen=True, slots=True)
class Projection:
    """The rows that meet a condition, with columns that are computed from each row by itself."""

    origin: Origin
    where: Expr | None
    items: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class PerUnit:
    """Aggregates of each unit's rows, grouped by further keys."""

    origin: Origin
    where: Expr | None
    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class UnionAll:
    """The rows of several relations of the same kind of unit, or of public ones."""

    parts: tuple[NamedRelation, ...]


Body: TypeAlias = Scan | Projection | PerUnit | UnionAll


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """A body with its columns and its unit.

    Attributes:
        body: How the rows are computed.
        fields: The columns.
        units: How many columns (u0, u1) identify the unit: 0 for a public relation, 2 for a user within a window.
        id_kind: Whether units are integers or texts; None if each row is a unit, or if the relation is public. Units of
            different kinds are never compared.
        name: The name of its common table expression in the plan; empty for a base table.
    """

    body: Body
    fields: tuple[Field, ...]
    units: int = 0
    id_kind: ColumnKind | None = None
    name: str = ""

    @property
    def private(self) -> bool:
        """Whether rows belong to units."""
        return self.units > 0


# Equal only if identical: comparing the relations that it reads could take exponential time.
@dataclass(frozen=True, slots=True, eq=False)
class NestedQuery:
    """The data that a subquery in a condition reads. It is the value of an expression whose last operand is its WHERE.

    Attributes:
        origin: Its FROM clause.
        units: The aliases of two tables, its own and that of the condition, whose units the plan equates: only rows of
            the unit that the condition is about are read. None if all tables of the subquery are public.
    """

    origin: Origin
    units: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class WindowClause:
    """The clause OVER of a window function. It is the value of an expression.

    The operands of that expression are the function, then ``num_parts`` expressions of PARTITION BY, then those of
    ORDER BY.

    Attributes:
        unit: The alias of the table whose unit the plan partitions by; None if all tables are public.
        num_parts: How many expressions PARTITION BY has, besides the unit.
        directions: For each expression of ORDER BY: ASC or DESC, NULLS FIRST or LAST.
    """

    unit: str | None
    num_parts: int
    directions: tuple[str, ...]


def subqueries(origin: Origin, where: Expr | None = None) -> list[QueryRelation]:
    """Return the subqueries that a SELECT reads, at any depth, each of them once and after all that it reads itself.

    A query may name one common table expression many times. As a tree, a chain in which each names the one before
    twice has 2^n leaves; here, every relation is visited once.

    Args:
        origin: The FROM clause of the SELECT.
        where: Its condition, which may contain subqueries as well.
    """
    ordered: dict[str, QueryRelation] = {}
    read_by: dict[str, list[QueryRelation]] = {}
    pending = list(reversed(_written_apart(_from_items(origin, where))))
    while pending:
        relation = pending[-1]
        if relation.name not in read_by:
            read_by[relation.name] = _written_apart(_below(relation.body))
            unread = [from_item for from_item in read_by[relation.name] if from_item.name not in ordered]
            if unread:
                pending += reversed(unread)
                continue
        pending.pop()
        ordered.setdefault(relation.name, relation)
    return list(ordered.values())


def scanned_tables(origin: Origin, where: Expr | None) -> set[str]:
    """Return the names of the base tables that a SELECT reads, at any depth."""
    from_items = [
        *_from_items(origin, where),
        *(s for relation in subqueries(origin, where) for s in _below(relation.body)),
    ]
    return {from_item.relation.body.table for from_item in from_items if isinstance(from_item.relation.body, Scan)}


def _below(body: Body) -> list[NamedRelation]:
    """Return the relations that a body names."""
    if isinstance(body, UnionAll):
        return list(body.parts)
    if isinstance(body, Scan):
        return []
    items = body.items if isinstance(body, Projection) else (*body.keys, *body.aggregates)
    return _from_items(body.origin, body.where, *[expression for _, expression in items])


def _from_items(origin: Origin, *expressions: Expr | None) -> list[NamedRelation]:
    """Return the relations that an origin and expressions name."""
    conditions = [join.condition for join in origin.joins]
    nested = [query.origin for query in _nested_queries([*conditions, *expressions])]
    return [from_item for clause in (origin, *nested) for from_item in from_items_of(clause)]


def _written_apart(from_items: Iterable[NamedRelation]) -> list[QueryRelation]:
    """Return the relations that are common table expressions of the plan: all but base tables."""
    return [from_item.relation for from_item in from_items if from_item.relation.name]


def from_items_of(origin: Origin) -> list[NamedRelation]:
    """Return the relations that an origin names, in order."""
    return [origin.first, *(join.item for join in origin.joins)]


def _nested_queries(expressions: Iterable[Expr | None]) -> Iterator[NestedQuery]:
    """Yield the subqueries in expressions, at any depth."""
    pending = [expression for expression in expressions if expression is not None]
    while pending:
        expression = pending.pop()
        pending += expression.args
        if isinstance(expression.value, NestedQuery):
            yield expression.value
