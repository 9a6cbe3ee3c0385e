"""Declared tables as relations, including tables whose unit is found through other tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hush.data.tables.catalog import ColumnKind, PrivateTable, PublicTable, Through, kind_of
from hush.sql.read.relations.scope import find_column
from hush.sql.syntax.expression import Expr
from hush.sql.syntax.relation import (
    Field,
    Join,
    NamedRelation,
    Origin,
    PerUnit,
    Projection,
    QueryRelation,
    Scan,
    ScannedColumn,
)

Tables = Mapping[str, PrivateTable | PublicTable]


def scan(name: str, tables: Tables) -> QueryRelation:
    """Return a base table as a relation. Text columns with bounds are read as numbers, as in CSV files."""
    table = tables[name]
    columns = [
        ScannedColumn(f"c{index}", raw, declared, _kind(table, raw))
        for index, (raw, declared) in enumerate(table.columns.items())
    ]
    fields = tuple(Field(column.raw, column.column, _prototype(name, column, tables)) for column in columns)
    if isinstance(table, PublicTable) or isinstance(table.unit, Through):  # `referring` adds the units
        return QueryRelation(Scan(name, tuple(columns), None, None, None), fields)
    if table.row_id is not None:  # no field shows this unit, so a query can neither join on it nor group by it
        raw, declared = table.row_id
        row = ScannedColumn("", raw, declared, kind_of(declared))
        return QueryRelation(Scan(name, tuple(columns), row, None, None), fields, 1)
    by_name = {column.raw: column for column in columns}
    time = by_name[table.time] if table.time else None
    body = Scan(name, tuple(columns), by_name[table.unit], time, table.window)
    # Comparing an integer with text, an engine would cast the text, and could raise.
    id_kind = ColumnKind.INT if by_name[table.unit].kind is ColumnKind.INT else ColumnKind.TEXT
    return QueryRelation(body, fields, 1 if time is None else 2, id_kind)


def _kind(table: PrivateTable | PublicTable, column: str) -> ColumnKind:
    """Return the kind of a column as queries see it."""
    kind = kind_of(table.columns[column])
    return ColumnKind.FLOAT if column in table.bounds and kind is ColumnKind.TEXT else kind


def _prototype(name: str, column: ScannedColumn, tables: Tables) -> Expr:
    """Return the declarations about a column's values."""
    table, is_integer = tables[name], column.kind is ColumnKind.INT
    low, high = table.bounds.get(column.raw, (float("-inf"), float("inf")))
    prototype = Expr("column", column.kind, (), None, low, high, is_integer)
    if isinstance(table, PublicTable):
        return prototype
    keys = table.keys.get(column.raw)
    return replace(
        prototype,
        domain=None if keys is None else tuple(keys),
        unit=column.raw == table.unit and table.row_id is None,
        owner_key=_owner_key(name, column.raw, tables),
        required=column.raw in table.required,
    )


def _owner_key(name: str, column: str, tables: Tables) -> str:
    """Return the key whose values a column holds, if tables refer to it; else an empty text."""
    table = tables[name]
    if isinstance(table, PrivateTable) and isinstance(table.unit, Through) and table.unit.column == column:
        return _owner_key(table.unit.to, table.unit.key, tables)
    return f"{name}.{column}" if (name, column) in referred_keys(tables) else ""


def referred_keys(tables: Tables) -> set[tuple[str, str]]:
    """Return the keys that tables refer to, each as a table and its column."""
    units = [table.unit for table in tables.values() if isinstance(table, PrivateTable)]
    return {(unit.to, unit.key) for unit in units if isinstance(unit, Through)}


def referring(
    reference: Through, rows: QueryRelation, target: QueryRelation, names: Iterator[str], aliases: Iterator[str]
) -> QueryRelation:
    """Return the rows of a table that refers to another one, each with the unit of the row that it refers to.

    The keys of the other table are joined once for each unit. A key that two units have gives each of them a copy of
    the rows that refer to it: the rows of a unit do not depend on whether another one has its keys.

    Args:
        reference: How the table refers to the other one.
        rows: The table, as `scan` returns it.
        target: The table that it refers to.
        names: New names of common table expressions.
        aliases: New aliases.
    """
    parent = NamedRelation(next(aliases), target)
    key = find_column(parent, reference.key.casefold())
    assert key is not None
    owners = PerUnit(Origin(parent, (), parent), None, (("k0", key),), ())
    from_item = NamedRelation(next(aliases), QueryRelation(owners, (), target.units, target.id_kind, next(names)))
    child = NamedRelation(next(aliases), rows)
    column = find_column(child, reference.column.casefold())
    assert column is not None
    same_key = Expr("eq", ColumnKind.BOOL, (column, replace(key, value=(from_item.alias, "k0"))))
    origin = Origin(child, (Join(from_item, left=False, on_unit=False, condition=same_key),), from_item)
    fields = tuple(entry for entry in rows.fields if entry.prototype.kind is not ColumnKind.OTHER)
    items = tuple((entry.column, column_of(child, entry)) for entry in fields)
    return QueryRelation(Projection(origin, None, items), fields, target.units, target.id_kind, next(names))


def column_of(from_item: NamedRelation, entry: Field) -> Expr:
    """Return the column of a table that a field describes."""
    return replace(entry.prototype, op="column", args=(), value=(from_item.alias, entry.column))
