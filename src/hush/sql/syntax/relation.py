"""Relations: the tables, joins and subqueries that a query reads.

Every relation is public, or each of its rows belongs to one unit. The invariant, by induction over the bodies below:
the rows of a unit are a function of that unit's rows in the base tables and of public tables. A filter, a projection, a
join on the unit, a join with a public table and an aggregate per unit all preserve it. `hush.sql.read.sources` refuses
everything else.
"""

from __future__ import annotations

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

    source: NamedRelation
    left: bool
    on_unit: bool
    condition: Expr | None


@dataclass(frozen=True, slots=True)
class Origin:
    """A FROM clause. ``owner`` is the source whose units the rows belong to; None if all sources are public."""

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


Body: TypeAlias = Scan | Projection | PerUnit


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """A body with its columns and its unit.

    Attributes:
        body: How the rows come about.
        fields: The columns.
        units: How many columns (u0, u1) identify the unit: 0 for a public relation, 2 for a user within a window.
        entity: What the unit identifies and how it is written. Units of different entities are never compared.
    """

    body: Body
    fields: tuple[Field, ...]
    units: int = 0
    entity: str = ""

    @property
    def private(self) -> bool:
        """Whether rows belong to units."""
        return self.units > 0


def subqueries(origin: Origin) -> list[QueryRelation]:
    """Return the subqueries that an origin reads, at any depth, each of them once and after all that it reads itself.

    A query may name one common table expression many times. As a tree, a chain in which each names the one before
    twice has 2^n leaves; here, every relation is visited once.
    """
    ordered: dict[int, QueryRelation] = {}
    pending = list(reversed(_sources(origin)))
    while pending:
        relation = pending[-1]
        unread = [] if isinstance(relation.body, Scan) else _sources(relation.body.origin)
        unread = [source for source in unread if id(source) not in ordered and not isinstance(source.body, Scan)]
        if unread and id(relation) not in ordered:
            pending += reversed(unread)
            continue
        pending.pop()
        if not isinstance(relation.body, Scan):
            ordered.setdefault(id(relation), relation)
    return list(ordered.values())


def _sources(origin: Origin) -> list[QueryRelation]:
    """Return the relations that an origin names, in order."""
    return [origin.first.relation, *(join.source.relation for join in origin.joins)]
