"""Previews: the shape of an answer, on rows invented from the declarations.

`invented_engine` fills an empty DuckDB with rows that fit the catalog, and `Table.preview` asks it in place of the real
engine. No table is read, so a preview is free and says nothing about the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hush.data import connect, quote_name, quote_text
from hush.data.tables.catalog import Catalog, ColumnKind, PrivateTable, PublicTable, Through, kind_of
from hush.sql.answer.answer_html import answer_page
from hush.sql.engines.duckdb import DuckDBEngine
from hush.sql.read.relations.tables import referred_keys
from hush.sql.write.dialects import DIALECTS

NOTE = "PREVIEW: the rows are invented. They say nothing about your data."
_ROWS_PER_UNIT, _PUBLIC_ROWS = 2, 10
_TYPES: Mapping[ColumnKind, str] = {
    ColumnKind.BOOL: "BOOLEAN",
    ColumnKind.INT: "BIGINT",
    ColumnKind.FLOAT: "DOUBLE",
    ColumnKind.TEXT: "VARCHAR",
    ColumnKind.DATE: "DATE",
    ColumnKind.TIME: "TIMESTAMP",
    ColumnKind.INSTANT: "TIMESTAMP WITH TIME ZONE",
}
# The values of a column without bounds or keys; {h} is a hash of the row and the column.
_UNDECLARED: Mapping[ColumnKind, str] = {
    ColumnKind.BOOL: "{h} % 2 = 0",
    ColumnKind.INT: "{h} % 10",
    ColumnKind.FLOAT: "({h} % 1000) / 100.0",
    ColumnKind.TEXT: "'value ' || ({h} % 5)",
    ColumnKind.DATE: "DATE '2024-01-01' + CAST({h} % 366 AS INTEGER)",
    ColumnKind.TIME: "TIMESTAMP '2024-01-01' + to_hours(CAST({h} % 8784 AS INTEGER))",
    ColumnKind.INSTANT: "to_timestamp(1704067200 + 3600 * ({h} % 8784))",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """The shape of an answer, on invented rows. It costs nothing, so it has no guarantee.

    Attributes:
        columns: The names of the columns.
        rows: Numbers about invented units, with as much noise as a real answer would have.
        intervals: The intervals of each row, as in `QueryAnswer`.
        confidence: The confidence of each interval.
        note: A warning to print with the rows.

    >>> import duckdb, hush
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people (who BIGINT, region VARCHAR)")
    >>> people = hush.table(connection, name="people", unit="who", keys={"region": ["north", "south"]})
    >>> preview = people.preview("SELECT region, COUNT(*) AS n FROM people GROUP BY region")
    >>> preview.note
    'PREVIEW: the rows are invented. They say nothing about your data.'
    >>> [row[0] for row in preview.rows]
    ['north', 'south']
    """

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    intervals: list[dict[str, tuple[float, float]]]
    confidence: float
    note: str = NOTE

    def _repr_html_(self) -> str:
        """Return the preview for a notebook, with its warning."""
        return str(answer_page(self, self.confidence, [self.note]))


def invented_engine(catalog: Catalog, num_units: int) -> DuckDBEngine:
    """Return an engine with the catalog's tables and invented rows, two for each unit.

    A column with keys holds these, and so does a column of the same name in any other table, so that joins find
    matches. A column with bounds holds numbers between them. Public tables are invented as well.
    """
    connection = connect()
    keys_by_name = {
        name.casefold(): (tuple(values), kind_of(table.columns[name]))
        for table in catalog.tables.values()
        if isinstance(table, PrivateTable)
        for name, values in table.keys.items()
    }
    units = {name: table.unit for name, table in catalog.tables.items() if isinstance(table, PrivateTable)}
    referred = referred_keys(catalog.tables)
    referred |= {(name, unit.column) for name, unit in units.items() if isinstance(unit, Through)}
    for name, table in catalog.tables.items():
        items = [
            f"{_column(table, column, keys_by_name, (name, column) in referred)} AS {quote_name(column)}"
            for column in table.columns
        ]
        if isinstance(table, PrivateTable) and table.row_id is not None:
            number = "hush_row" if kind_of(table.row_id[1]) is ColumnKind.INT else "CAST(hush_row AS VARCHAR)"
            items.append(f"{number} AS {quote_name(table.row_id[0])}")
        num_rows = _ROWS_PER_UNIT * num_units if isinstance(table, PrivateTable) else _PUBLIC_ROWS
        connection.execute(
            f"CREATE TABLE {quote_name(name)} AS SELECT {', '.join(items)} FROM range({num_rows}) AS r(hush_row)"
        )
    return DuckDBEngine(connection=connection)


def _column(
    table: PrivateTable | PublicTable,
    column: str,
    keys_by_name: Mapping[str, tuple[tuple[Any, ...], ColumnKind]],
    is_key: bool,
) -> str:
    """Return the expression that invents a column's value from the number of its row, ``hush_row``.

    A row refers to the row of the same number: ``is_key`` says that the column holds these references, or their keys.
    """
    kind, number = kind_of(table.columns[column]), f"(hash(hush_row, {quote_text(column)}) % 1000003)"
    if is_key:
        return "'row ' || hush_row" if kind is ColumnKind.TEXT else "CAST(hush_row AS BIGINT)"
    if isinstance(table, PrivateTable) and column == table.unit:
        unit = f"hush_row // {_ROWS_PER_UNIT}"
        return f"'unit ' || ({unit})" if kind is ColumnKind.TEXT else f"CAST({unit} AS BIGINT)"
    if kind is ColumnKind.OTHER:
        return "CAST(NULL AS VARCHAR)"
    values, keys_kind = keys_by_name.get(column.casefold(), ((), kind))
    if values and keys_kind is kind:
        constants = [f"CAST({_constant(value, kind)} AS {_TYPES[kind]})" for value in values]
        return f"([{', '.join(constants)}])[CAST(1 + {number} % {len(constants)} AS INTEGER)]"
    if column in table.bounds and kind in (ColumnKind.INT, ColumnKind.FLOAT, ColumnKind.TEXT):
        low, high = (DIALECTS["duckdb"].real(end) for end in table.bounds[column])
        return f"TRY_CAST({low} + ({high} - {low}) * ({number} / 1000003.0) AS {_TYPES[kind]})"
    return f"CAST({_UNDECLARED[kind].format(h=number)} AS {_TYPES[kind]})"


def _constant(value: Any, kind: ColumnKind) -> str:
    """Return the text of a key."""
    # The keys of a text column with bounds are numbers.
    is_number = kind is ColumnKind.TEXT and isinstance(value, (int, float))
    return DIALECTS["duckdb"].constant(value, ColumnKind.FLOAT if is_number else kind)
