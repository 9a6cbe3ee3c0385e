"""What a user says of tables, `hush.table(...)`: whose rows they are, and what is public about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hush.data.tables.catalog import Catalog, PrivateTable, PublicTable
from hush.errors import InvalidArgument, check_instance
from hush.sql.answer.table import Table
from hush.sql.engines.engine import Engine, EngineFailed
from hush.sql.engines.open import opened

UnitColumns = str | tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class JoinedTable:
    """One more private table, to be joined on the unit: ``private={"visits": JoinedTable("visits.parquet", unit="who")}``.

    Attributes:
        data: Where it is, as for `table`; None where the connection, database or session has it under its name.
        unit: The column that says whose each row is: the same people, written the same way, as in the first table.
        bounds: As for `table`.
        keys: As for `table`.
        required: As for `table`.
    """

    data: Any = field(repr=False)
    unit: UnitColumns
    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    keys: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    required: Sequence[str] = ()

    def on(self, engine: Engine, name: str, role: str) -> PrivateTable:
        """Return what is known of it, with the columns that the engine finds."""
        column, time, window = _unit_columns(self.unit)
        return PrivateTable(
            columns=_columns(engine, name, role),
            unit=column,
            time=time,
            window=window,
            bounds=self.bounds,
            keys=self.keys,
            required=frozenset(_names("required", self.required)),
        )


def table(
    data: Any,
    *,
    unit: UnitColumns,
    name: str | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    keys: Mapping[str, Sequence[Any]] | None = None,
    required: Sequence[str] = (),
    public: Mapping[str, Any] | None = None,
    private: Mapping[str, JoinedTable] | None = None,
) -> Table:
    """Return a table to ask questions of; data stay where they are.

    Args:
        data: Where the data are. Read by DuckDB: a Parquet or CSV file, an Arrow table, a pandas or Polars data
            frame, or a DuckDB connection. On PostgreSQL: an address, ``postgresql://user@host/database``, or a
            psycopg connection. On Spark: a data frame, or a session. Columns of a CSV file are text, but for those that
            have bounds, which are read as numbers.
        unit: The column that says whose each row is; or (column, time column, window): a user within an hour, day,
            week, month, quarter or year.
        name: What queries call it; the file's name without its ending, or ``data``. On a connection, a database or a
            Spark session, the name of the table or view there, which has to be given, without a schema.
        bounds: For columns that are summed, the least and the largest value that counts.
        keys: For columns that queries group by, the values to report, which are public. Others are chosen privately.
        required: Columns whose missing values count as the middle of their bounds, so that AVG shares COUNT(*).
        public: Tables about nobody, by name, to be joined; None for one that the connection, database or session has.
        private: More tables about the same people, by name, to be joined on the unit. A person who is added or
            removed is so in all of them.

    A password is better kept out of an address (``~/.pgpass``, ``PGPASSWORD``); messages do not repeat it.

    >>> import duckdb, tempfile
    >>> path = tempfile.mkdtemp() + "/people.parquet"
    >>> _ = duckdb.sql(f"COPY (SELECT i AS who, i % 2 AS sex, i % 70 AS age FROM range(5000) t(i)) TO '{path}'")
    >>> people = table(path, unit="who", bounds={"age": (0, 100)}, keys={"sex": [0, 1]})
    >>> answer = people.sql("SELECT sex, COUNT(*) AS n, AVG(age) AS age FROM people GROUP BY sex", epsilon=1.0)
    >>> answer.columns, len(answer.rows), abs(answer.rows[0][1] - 2500) < 100
    (('sex', 'n', 'age'), 2, True)
    """
    about, more = _tables("public", public), _tables("private", private)
    for given in more.values():
        check_instance("private", given, JoinedTable, "Write private={name: JoinedTable(data, unit=...)}")
    own = JoinedTable(data, unit, bounds or {}, keys or {}, required)
    _unit_columns(unit)  # before anything is opened
    sources = {**about, **{each: given.data for each, given in more.items()}}
    engine, called = opened(data, name, sources)
    for each in sources:
        if each.casefold() == called.casefold() or (each in about and each in more):
            raise InvalidArgument("private" if each in more else "public", each, "a name that no other table has")
    known: dict[str, PrivateTable | PublicTable] = {called: own.on(engine, called, "name")}
    known.update({each: given.on(engine, each, "private") for each, given in more.items()})
    known.update({each: PublicTable(columns=_columns(engine, each, "public")) for each in about})
    return Table(engine, Catalog(known), called)


def _unit_columns(unit: Any) -> tuple[str, str | None, str | None]:
    if isinstance(unit, str):
        return unit, None, None
    if isinstance(unit, (tuple, list)) and len(unit) == 3 and all(isinstance(part, str) for part in unit):
        return unit[0], unit[1], unit[2]
    expected = "a column, or (column, time column, window)"
    raise InvalidArgument("unit", unit, expected, 'Such as "user_id", or ("user_id", "day", "month")')


def _tables(role: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is not None and not isinstance(given, Mapping):
        raise InvalidArgument(role, type(given).__name__, "a dictionary of tables by name")
    return dict(given or {})


def _names(role: str, given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, Iterable) or not all(isinstance(name, str) for name in given):
        raise InvalidArgument(role, given, "a list of names of columns")
    return list(given)


def _columns(engine: Engine, name: str, role: str) -> dict[str, str]:
    """Return a table's columns; refuse a name under which the engine has no table, or none that may be read."""
    try:
        return engine.columns(name)
    except EngineFailed:
        advice = ["Check its spelling, and that it may be read"]
        if "." in name:
            advice.append("A schema is no part of the name: set the search path, or make a view")
        raise InvalidArgument(role, name, "a table or view that is there", *advice) from None
