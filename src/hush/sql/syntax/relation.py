"""Relations in which every row belongs to one unit (or that are public), and where their rows come from.

The invariant, by induction over the bodies below: a unit's rows are a function of that unit's rows in the base tables,
and of public tables. A filter, a projection, a join on the unit, a join with a public table and an aggregate per unit
all keep it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a relation: the name that queries use, the name in the plan, and what is known of its values."""

    name: str
    column: str
    about: Expr


@dataclass(frozen=True, slots=True)
class ScannedColumn:
    """A column as it is read: from its declared type to a kind, such that nothing raises."""

    column: str
    raw: str
    declared: str
    kind: ColumnKind


@dataclass(frozen=True, slots=True)
class Scan:
    """A table. ``unit`` and ``time`` are columns; ``window`` a calendar unit."""

    table: str
    columns: tuple[ScannedColumn, ...]
    unit: ScannedColumn | None
    time: ScannedColumn | None
    window: str | None


@dataclass(frozen=True, slots=True)
class NamedRelation:
    """A relation under a name of its own."""

    alias: str
    relation: QueryRelation


@dataclass(frozen=True, slots=True)
class Join:
    """A further relation. ``left`` keeps rows without a partner; ``on_unit`` joins the units."""

    source: NamedRelation
    left: bool
    on_unit: bool
    condition: Expr | None


@dataclass(frozen=True, slots=True)
class Origin:
    """What stands in FROM; ``owner`` is the source whose units the rows have."""

    first: NamedRelation
    joins: tuple[Join, ...]
    owner: NamedRelation | None


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows that a condition keeps, with columns computed from each row by itself."""

    origin: Origin
    where: Expr | None
    items: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class PerUnit:
    """Aggregates of each unit's rows, by further keys."""

    origin: Origin
    where: Expr | None
    keys: tuple[tuple[str, Expr], ...]
    aggregates: tuple[tuple[str, Expr], ...]


Body: TypeAlias = Scan | Chosen | PerUnit


@dataclass(frozen=True, slots=True)
class QueryRelation:
    """A body, its columns, and whose rows they are: ``units`` columns u0, ... identify the unit (none if public)."""

    body: Body
    fields: tuple[Field, ...]
    units: int = 0
    entity: str = ""  # what units are, and how they are written: two that differ are not compared

    @property
    def private(self) -> bool:
        """Whether rows belong to units."""
        return self.units > 0
