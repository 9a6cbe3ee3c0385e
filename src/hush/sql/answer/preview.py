"""Invented rows, from what is declared and nothing else, to write queries with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable, PublicTable, kind_of
from hush.sql.engines.duckdb import DuckDBEngine, _connect, quoted, text
from hush.sql.write.dialects import DIALECTS

NOTE = "PREVIEW: invented rows; this says nothing about the data"
_TYPES: Mapping[ColumnKind, str] = {
    ColumnKind.BOOL: "BOOLEAN",
    ColumnKind.INT: "BIGINT",
    ColumnKind.FLOAT: "DOUBLE",
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.DATE: "DATE",
    ColumnKind.TIME: "TIMESTAMP",
}
# What a column holds of which nothing is declared; {h} is a large number that looks random.
_ANYTHING: Mapping[ColumnKind, str] = {
    ColumnKind.BOOL: "{h} % 2 = 0",
    ColumnKind.INT: "{h} % 10",
    ColumnKind.FLOAT: "({h} % 1000) / 100.0",
    ColumnKind.TEXT: "'value ' || ({h} % 5)",
    ColumnKind.DATE: "DATE '2024-01-01' + CAST({h} % 366 AS INTEGER)",
    ColumnKind.TIME: "TIMESTAMP '2024-01-01' + to_hours(CAST({h} % 8784 AS INTEGER))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an answer would look like. It is about nobody, costs nothing and has no guarantee to offer.

    Attributes:
        columns: Names of the columns.
        rows: Numbers of invented people, with noise as a true answer would have it.
        intervals: As a true answer would have them, for each row by column.
        confidence: Of the intervals.
        note: Says so, for whoever prints it.
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    intervals: list[dict[str, tuple[float, float]]]
    confidence: float
    note: str = NOTE


def invented(catalog: Catalog, num_units: int) -> DuckDBEngine:
    """Return an engine whose tables have the catalog's columns and two invented rows of each unit.

    Columns with keys hold these, in whatever table they have the same name, so that joins find something; columns with
    bounds hold numbers between them. Public tables are invented too.
    """
    connection = _connect()
    pool = {
        name.casefold(): (tuple(values), kind_of(table.columns[name]))
        for table in catalog.tables.values()
        if isinstance(table, PrivateTable)
        for name, values in table.keys.items()
    }
    for name, table in catalog.tables.items():
        items = [f"{_column(table, column, pool)} AS {quoted(column)}" for column in table.columns]
        amount = 2 * num_units if isinstance(table, PrivateTable) else 10
        connection.execute(
            f"CREATE TABLE {quoted(name)} AS SELECT {', '.join(items)} FROM range({amount}) AS r(hush_row)"
        )
    return DuckDBEngine(connection=connection)


def _column(
    table: PrivateTable | PublicTable, column: str, pool: Mapping[str, tuple[tuple[Any, ...], ColumnKind]]
) -> str:
    kind, number = kind_of(table.columns[column]), f"(hash(hush_row, {text(column)}) % 1000003)"
    if isinstance(table, PrivateTable) and column == table.unit:
        return "'unit ' || (hush_row // 2)" if kind is ColumnKind.TEXT else "CAST(hush_row // 2 AS BIGINT)"
    if kind is ColumnKind.OTHER:
        return "CAST(NULL AS VARCHAR)"
    values, listed = pool.get(column.casefold(), ((), kind))
    if values and listed is kind:
        constants = [f"CAST({_constant(value, kind)} AS {_TYPES[kind]})" for value in values]
        return f"([{', '.join(constants)}])[CAST(1 + {number} % {len(constants)} AS INTEGER)]"
    if (
        isinstance(table, PrivateTable)
        and column in table.bounds
        and kind in (ColumnKind.INT, ColumnKind.FLOAT, ColumnKind.TEXT)
    ):
        low, high = (DIALECTS["duckdb"].real(end) for end in table.bounds[column])
        return f"TRY_CAST({low} + ({high} - {low}) * ({number} / 1000003.0) AS {_TYPES[kind]})"
    return f"CAST({_ANYTHING[kind].format(h=number)} AS {_TYPES[kind]})"


def _constant(value: Any, kind: ColumnKind) -> str:
    number = kind is ColumnKind.TEXT and isinstance(value, (int, float))  # as keys of a text column that has bounds are
    return DIALECTS["duckdb"].constant(value, ColumnKind.FLOAT if number else kind)
