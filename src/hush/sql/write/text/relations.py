"""What a SELECT reads: tables, and subqueries as common table expressions."""

from __future__ import annotations

from hush.data.tables.catalog import ColumnKind
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import (
    Origin,
    PerUnit,
    Projection,
    QueryRelation,
    ReleasedRows,
    UnionAll,
    subqueries,
)
from hush.sql.write.dialects import Dialect
from hush.sql.write.text.expressions import write_expression, write_origin
from hush.sql.write.text.scans import unit_columns


class RelationWriter:
    """Writes what a SELECT reads. Every subquery is a common table expression, however often the query names it.

    Attributes:
        definitions: The text of each common table expression by its name. Each refers only to those before it.
    """

    def __init__(self, origin: Origin, where: Expr | None, dialect: Dialect) -> None:
        """Write the subqueries of a FROM clause and of a condition."""
        self._dialect = dialect
        self.definitions = {relation.name: self._subquery(relation) for relation in subqueries(origin, where)}

    def select(self, items: list[str], origin: Origin, where: Expr | None) -> str:
        """Return a SELECT of items, which are text already, from an origin."""
        condition = "" if where is None else f" WHERE {write_expression(where, self._dialect)}"
        # No engine takes an empty list of items.
        return f"SELECT {', '.join(items or ['1 AS one'])} FROM {write_origin(origin, self._dialect)}{condition}"

    def _subquery(self, relation: QueryRelation) -> str:
        """Return a subquery as a SELECT of the unit's columns (u0, u1) and its own."""
        body = relation.body
        if isinstance(body, PerUnit):
            return self._per_unit(body)
        if isinstance(body, UnionAll):
            return _union(relation, body, self._dialect)
        if isinstance(body, ReleasedRows):
            return _released_rows(body, self._dialect)
        assert isinstance(body, Projection)
        items = [f"{write_expression(item, self._dialect)} AS {name}" for name, item in body.items]
        return self.select([*unit_columns(body.origin), *items], body.origin, body.where)

    def _per_unit(self, body: PerUnit) -> str:
        """Return aggregates of each unit's rows, grouped by the unit and by further keys."""
        units = unit_columns(body.origin)
        keys = [f"{write_expression(key, self._dialect)} AS {name}" for name, key in body.keys]
        aggregates = [f"{write_expression(aggregate, self._dialect)} AS {name}" for name, aggregate in body.aggregates]
        positions = ", ".join(str(index + 1) for index in range(len(units) + len(keys)))
        group_by = f" GROUP BY {positions}" if positions else ""
        return self.select([*units, *keys, *aggregates], body.origin, body.where) + group_by


def _union(relation: QueryRelation, body: UnionAll, dialect: Dialect) -> str:
    """Return the rows of several relations. Each row keeps its unit. Integers become numbers where others are."""
    units = [f"u{index}" for index in range(relation.units)]
    selects = []
    for part in body.parts:
        columns = [
            f"{dialect.templates['number'].format(entry.column)} AS {entry.column}"
            if field.prototype.kind is not entry.prototype.kind
            else entry.column
            for field, entry in zip(relation.fields, part.relation.fields, strict=True)
        ]
        selects.append(f"SELECT {', '.join([*units, *columns])} FROM {part.relation.name} AS {part.alias}")
    return " UNION ALL ".join(selects)


def _released_rows(body: ReleasedRows, dialect: Dialect) -> str:
    """Return released rows, column by column: every engine has lists of constants with their indices."""
    items, lists = [], []
    for index, kind in enumerate(body.kinds):
        values = [row[index] for row in body.rows] or [None]
        constants = [dialect.null(kind) if value is None else dialect.constant(value, kind) for value in values]
        lists.append(dialect.public_list(f"l{index}", constants))
        text = dialect.templates["text_column"] if kind is ColumnKind.TEXT else "{0}"
        items.append(f"{text.format(f'l{index}.k')} AS c{index}")
    joined = [f"INNER JOIN {text} ON l{index}.i = l0.i" for index, text in enumerate(lists) if index]
    rows = " ".join([lists[0], *joined])
    return f"SELECT {', '.join(items)} FROM {rows}{'' if body.rows else ' WHERE 1 = 0'}"
