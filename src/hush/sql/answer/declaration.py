"""`hush.table`: declares tables and what is public about them. `catalog_file` reads the same from a file.

The declarations become a `Catalog`, the data an engine; together they are a `Table`. Names and types of columns are
read from the engine. No rows are read before the first query.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hush.data.tables.catalog import ROW, Catalog, PrivateTable, PublicTable, Through
from hush.errors import InvalidArgument, Unsupported, check_instance
from hush.guarantee import CalendarWindow, UserWindow
from hush.sql.answer.choices.limits import MostRows, RequestedLimits
from hush.sql.answer.table import Table
from hush.sql.engines.data_identity import ContentKey
from hush.sql.engines.engine import Engine, EngineFailed, NumbersRows, ReadsNumbers
from hush.sql.engines.openers import open_engine
from hush.statistics import EachRow

UnitColumns = str | UserWindow | EachRow | Through


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """A further table, for ``private=`` or ``public=`` of `table`. Queries join private ones on the unit.

    Attributes:
        data: The data, as for `table`; None if the connection, database or session has a table of that name.
        unit: As for `table`. The column holds the same ids as the unit column of the first table. If the table has no
            such column, but its rows refer to another private table: a `Through`, such as
            ``Through("l_orderkey", to="orders", key="o_orderkey")``. None for a public table.
        bounds: As for `table`.
        keys: As for `table`. Not for public tables.
        required: As for `table`. Not for public tables.
        decimal_comma: As for `table`.

    >>> import duckdb, hush
    >>> from hush.randomness import TestSource
    >>> from hush.sql import JoinedTable
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE people AS SELECT i AS who, i % 70 AS age FROM range(5000) AS t(i)")
    >>> _ = connection.execute("CREATE TABLE visits AS SELECT i % 5000 AS visitor FROM range(9000) AS t(i)")
    >>> visits = JoinedTable(None, unit="visitor")
    >>> people = hush.table(connection, name="people", unit="who", private={"visits": visits})
    >>> query = "SELECT COUNT(*) AS n FROM people p JOIN visits v ON p.who = v.visitor WHERE p.age < 35"
    >>> answer = people.sql(query, epsilon=1.0, rows_per_unit=2, source=TestSource(1))
    >>> abs(answer.rows[0][0] - 4_500) < 50
    True
    """

    data: Any = field(repr=False)
    unit: UnitColumns | None = None
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    required: Sequence[str] = ()
    decimal_comma: Sequence[str] = ()

    def on(self, engine: Engine, name: str, argument: str) -> PrivateTable:
        """Return the table's declarations, with the columns that the engine reports.

        Args:
            engine: The engine.
            name: The table's name.
            argument: The argument to name in messages.
        """
        unit, time, window = _unit_columns(self.unit)
        if unit in self.decimal_comma:  # 1.234 and 1234 would be one person
            raise InvalidArgument("decimal_comma", unit, "columns of numbers, not the unit")
        zone = self.unit.zone if isinstance(self.unit, UserWindow) else "UTC"
        columns = self._columns(engine, name, argument)
        if unit == ROW and ROW in columns:
            advice = "Rename the column in the file, or in a view if the table is in a database"
            raise InvalidArgument("unit", ROW, "an unambiguous name: the table has a column called row", advice)
        return PrivateTable(
            columns=columns,
            unit=unit,
            time=time,
            window=window,
            zone=zone,
            bounds=self.bounds,
            keys=self.keys,
            required=frozenset(_column_names("required", self.required)),
            row_id=_row_id(engine, name) if unit == ROW else None,
        )

    def without_unit(self, engine: Engine, name: str) -> PublicTable:
        """Return the declarations of a public table, with the columns that the engine reports."""
        if self.unit is not None or self.keys or self.required:
            raise InvalidArgument("public", name, "a table without unit, keys or required", "Or declare it in private=")
        return PublicTable(columns=self._columns(engine, name, "public"), bounds=self.bounds)

    def _columns(self, engine: Engine, name: str, argument: str) -> dict[str, str]:
        """Return the table's columns, once the engine knows which of them have decimal commas."""
        commas = _column_names("decimal_comma", self.decimal_comma)
        if commas and not isinstance(engine, ReadsNumbers):
            raise InvalidArgument("decimal_comma", commas, "none, unless the data are a CSV file")
        if commas and isinstance(engine, ReadsNumbers):
            engine.read_decimal_commas(name, commas)
        return table_columns(engine, name, argument)


def table(
    data: Any,
    *,
    unit: UnitColumns,
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    required: Sequence[str] = (),
    decimal_comma: Sequence[str] = (),
    public: Mapping[str, Any] | None = None,
    private: Mapping[str, JoinedTable] | None = None,
    rows_per_unit: int | MostRows | None = None,
    groups_per_unit: int | None = None,
    content_key: ContentKey | None = None,
) -> Table:
    """Declare a private table, to query it with `Table.sql`. The data stay where they are.

    Everything you declare is public. Choose bounds and keys from what you know about the table, not from its rows.

    Args:
        data: The data. Read by DuckDB: a Parquet, CSV or Excel file, an Arrow table, a pandas or Polars data frame, or
            a DuckDB connection. On PostgreSQL: an address, ``postgresql://user@host/database``, or a psycopg
            connection. On Spark: a data frame or a session. On other databases: an engine or a connection of
            SQLAlchemy, or a connection of ADBC. Columns of CSV and Excel files are text, except those with
            bounds, which are read as numbers.
        unit: The column that identifies the privacy unit; `hush.statistics.EachRow` or the word ``row``, if there is no
            such column and each row belongs to a different person; or a `hush.guarantee.UserWindow` with a window of
            the calendar, to protect a user within each hour, day, week, month, quarter or year; it says in which time
            zone the column of dates or times is written.
        name: The table's name in queries; by default the file's name without its ending, or ``data``. On a connection,
            a database or a Spark session, the name of the table or view there, without a schema. You must give it then.
        bounds: The lower and upper bound of columns that are summed. Values outside are clamped. Without any, queries
            learn bounds privately.
        keys: The values of each column that queries group by. All of them are reported. For other columns, the groups
            to report are selected privately.
        required: Columns whose missing values count as the middle of their bounds, so that AVG shares the count of
            COUNT(*).
        decimal_comma: The columns of a CSV file whose numbers have decimal commas. There, 1.234 is 1234, 1,5 is 1.5,
            and what is no such number is missing. No cell decides how others are read, so 1.234 has to be declared.
        public: Public tables to join, by name. None for a table that the connection, database or session has; a
            `JoinedTable` without a unit for one whose columns need bounds.
        private: Further private tables about the same people, by name, to join on the unit. Adding or removing a person
            means adding or removing their rows in all tables.
        rows_per_unit: The most rows of a unit in one group that count, in all queries. If you know that no unit has
            more than so many rows, declare that as a fact: `MostRows`. Otherwise each query chooses limits privately.
        groups_per_unit: The most groups of a unit that count, likewise.
        content_key: A ledger gives a stored answer again only about the same data. Files are the same if their path and
            the time of their last change are; data frames, only within this `Table`. With a key, files and data frames
            are recognised by their content.

    Do not put a password into an address; use ``~/.pgpass`` or ``PGPASSWORD``. Messages never repeat the address.

    >>> import duckdb, tempfile
    >>> path = tempfile.mkdtemp() + "/people.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT i AS who, i % 2 AS sex, i % 70 AS age FROM range(5000) t(i)) TO '{path}'")
    >>> limits = {"rows_per_unit": 1, "groups_per_unit": 1}  # each person has one row
    >>> people = table(path, unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]}, **limits)
    >>> answer = people.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex", epsilon=1.0)
    >>> answer.columns, len(answer.rows), abs(answer.rows[0][1] - 2500) < 100
    (('sex', 'n', 'age'), 2, True)
    """
    limits = (
        RequestedLimits(most_rows=rows_per_unit.rows, groups_per_unit=groups_per_unit)
        if isinstance(rows_per_unit, MostRows)
        else RequestedLimits(rows_per_unit=rows_per_unit, groups_per_unit=groups_per_unit)
    )
    public_tables, private_tables = _tables("public", public), _tables("private", private)
    for joined in private_tables.values():
        check_instance("private", joined, JoinedTable, "Write private={name: JoinedTable(data, unit=...)}")
    lookups = {
        other: value if isinstance(value, JoinedTable) else JoinedTable(value) for other, value in public_tables.items()
    }
    if content_key is not None:
        check_instance("content_key", content_key, ContentKey, "Write ContentKey(secrets.token_bytes(32))")
    first = JoinedTable(data, unit, bounds or {}, keys or {}, required, decimal_comma)
    _unit_columns(unit)  # refuse a wrong unit before anything is opened
    others = {other: joined.data for other, joined in {**lookups, **private_tables}.items()}
    engine, table_name = open_engine(data, name, others)
    for other in others:
        if other.casefold() == table_name.casefold() or (other in public_tables and other in private_tables):
            argument = "private" if other in private_tables else "public"
            raise InvalidArgument(argument, other, "a name that no other table has")
    tables: dict[str, PrivateTable | PublicTable] = {table_name: first.on(engine, table_name, "name")}
    tables.update({other: joined.on(engine, other, "private") for other, joined in private_tables.items()})
    if private_tables and any(isinstance(entry, PrivateTable) and entry.row_id for entry in tables.values()):
        raise InvalidArgument("unit", ROW, "a column that identifies people, if there are further private tables")
    tables.update({other: lookup.without_unit(engine, other) for other, lookup in lookups.items()})
    return Table(engine, Catalog(tables), table_name, limits, content_key=content_key)


def _unit_columns(unit: Any) -> tuple[str | Through, str | None, str | None]:
    """Return the unit's column, its time column and the word of its window; the last two may be None.

    This is the only function that reads a ``unit`` argument.
    """
    if isinstance(unit, EachRow):
        return ROW, None, None
    if isinstance(unit, (str, Through)):
        return unit, None, None
    if not isinstance(unit, UserWindow):
        example = 'Write UserWindow("user_id", time="day", window=CalendarWindow.MONTH)'
        raise InvalidArgument(
            "unit", unit, "the name of a column, EachRow(), a Through, or a hush.guarantee.UserWindow", example
        )
    if not isinstance(unit.window, CalendarWindow):
        why = "Engines cut time into hours, days, weeks, months, quarters and years only"
        raise InvalidArgument("window", unit.window, "a CalendarWindow", why, "Such as CalendarWindow.MONTH")
    return unit.column, unit.time, unit.window.value


def _row_id(engine: Engine, name: str) -> tuple[str, str]:
    """Return a column of the engine that no two rows share."""
    if not isinstance(engine, NumbersRows):
        why = "it may read rows again in another order"
        raise Unsupported(f"{engine.dialect} has no number of a row: {why}", "Add a column of row numbers")
    return engine.row_id(name)


def _tables(argument: str, tables: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a dictionary of tables. A message shows the type of a wrong value only, which may be data."""
    if tables is not None and not isinstance(tables, Mapping):
        raise InvalidArgument(argument, type(tables).__name__, "a dictionary of tables by name")
    return dict(tables or {})


def _column_names(argument: str, names: Any) -> list[str]:
    """Return names of columns. A single string is refused: it would be split into its letters."""
    if isinstance(names, str) or not isinstance(names, Iterable) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(argument, names, "a list of column names")
    return list(names)


def table_columns(engine: Engine, name: str, argument: str) -> dict[str, str]:
    """Return a table's columns. Refuse the name if the engine has no such table, or may not read it."""
    try:
        return engine.columns(name)
    except EngineFailed:
        advice = ["Check the spelling, and that you may read it"]
        if "." in name:
            advice.append("Names have no schema: set the search path, or create a view")
        raise InvalidArgument(argument, name, "an existing table or view", *advice) from None
