"""The last stage of a query that reads nothing but public tables and released values. It costs no privacy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hush.data.tables.catalog import ColumnKind
from hush.errors import check_instance
from hush.sql.syntax.output import Order, evaluate, sort_key
from hush.sql.syntax.relation import NamedRelation, Origin, QueryRelation
from hush.sql.write.dialects import dialect_named
from hush.sql.write.text.relations import RelationWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicPlan:
    """A query of public tables and released values, whose rows are its answer.

    Attributes:
        relation: The rows, with columns that only ORDER BY needs at the end.
        num_columns: How many columns the answer has.
        distinct: Whether equal rows of the answer are shown once.
        order: The order of the rows, by columns of the relation.
        limit: The most rows of the answer.
        offset: How many rows are skipped before these.
    """

    relation: QueryRelation
    num_columns: int
    distinct: bool
    order: tuple[Order, ...]
    limit: int | None
    offset: int

    def __post_init__(self) -> None:
        """Check that no row belongs to a unit."""
        check_instance("relation", self.relation, QueryRelation)
        assert not self.relation.private

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the answer's columns."""
        return tuple(entry.name for entry in self.relation.fields[: self.num_columns])

    @property
    def origin(self) -> Origin:
        """Where the rows come from."""
        return Origin(NamedRelation("q", self.relation), (), None)

    def sql(self, dialect: str = "duckdb") -> str:
        """Return the query for all rows. `answer` reads its result."""
        origin = self.origin
        writer = RelationWriter(origin, None, dialect_named(dialect))
        definitions = ", ".join(f"{name} AS ({text})" for name, text in writer.definitions.items())
        selected = writer.select([f"q.{entry.column}" for entry in self.relation.fields], origin, None)
        return f"WITH {definitions} {selected}"

    def answer(self, rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
        """Return the rows of the answer from the result of `sql`."""
        types = [
            int if entry.prototype.integral else _TYPES.get(entry.prototype.kind) for entry in self.relation.fields
        ]
        read = [
            tuple(
                cell if cell is None or number is None else number(cell)
                for cell, number in zip(row, types, strict=True)
            )
            for row in rows
        ]
        read.sort(key=lambda row: tuple(_rank(by, row) for by in self.order))
        shown = [row[: self.num_columns] for row in read]
        shown = list(dict.fromkeys(shown)) if self.distinct else shown
        return shown[self.offset : None if self.limit is None else self.offset + self.limit]


def _rank(by: Order, row: tuple[Any, ...]) -> Any:
    """Return what a row is sorted by."""
    return sort_key(evaluate(by.expression, row, ()), by.descending, by.nulls_first)


_TYPES: Mapping[ColumnKind, Callable[[Any], Any]] = {
    ColumnKind.BOOL: bool,
    ColumnKind.INT: int,
    ColumnKind.FLOAT: float,
}
