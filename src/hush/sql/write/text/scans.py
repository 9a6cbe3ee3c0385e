"""Base tables: their columns converted to their kinds, and the columns of their units."""

from __future__ import annotations

from hush.sql.syntax.relation import Origin, Scan, ScannedColumn
from hush.sql.write.dialects import Dialect


def write_scan(scan: Scan, dialect: Dialect) -> str:
    """Return a base table with its unit, its window and its columns converted to their kinds.

    Rows whose unit or time is NULL are dropped.
    """
    items, conditions = [], []
    if scan.unit is not None:
        raw = _raw_column(scan.unit, dialect)
        items.append(f"{dialect.unit_id(scan.unit, raw)} AS u0")
        conditions.append(f"{raw} IS NOT NULL")
    if scan.time is not None:
        time = dialect.read_column(scan.time, _raw_column(scan.time, dialect))
        items.append(f"{dialect.templates[f'truncate_{scan.window}'].format(time)} AS u1")
        conditions.append(f"{time} IS NOT NULL")
    supported = [column for column in scan.columns if column.kind.value != "other"]
    items += [f"{dialect.read_column(column, _raw_column(column, dialect))} AS {column.column}" for column in supported]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {', '.join(items or ['1 AS one'])} FROM {dialect.table(scan.table)} AS s{where}"


def _raw_column(column: ScannedColumn, dialect: Dialect) -> str:
    # Qualified, so that a column called u0 is not mistaken for a name of the plan.
    return f"s.{dialect.identifier(column.raw)}"


def unit_columns(origin: Origin) -> list[str]:
    """Return the items that select the unit's columns from the table that owns the rows."""
    owner = origin.owner
    return [] if owner is None else [f"{owner.alias}.u{index} AS u{index}" for index in range(owner.relation.units)]


def same_unit(left: str, right: str) -> str:
    """Return the condition that rows of two tables, by alias, belong to the same unit."""
    return f"{left}.u0 = {right}.u0"
