"""`load_catalog` declares tables from a file, as `hush.table` does in Python.

`hush.data.tables.catalog_toml` reads the file. This module matches its declarations with the columns that the engine
reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from hush.data import CatalogFile, DeclaredTable, DeclaredUnit, checked_address, read_catalog, toml_key
from hush.data.tables.catalog import ROW, Catalog, PrivateTable, PublicTable, Through
from hush.errors import HushError, InvalidArgument
from hush.guarantee import CalendarWindow, UserWindow
from hush.sql.answer.choices.limits import RequestedLimits
from hush.sql.answer.declaration import JoinedTable, UnitColumns, table_columns
from hush.sql.answer.table import Table
from hush.sql.engines.data_identity import ContentKey
from hush.sql.engines.engine import Engine
from hush.sql.engines.openers import open_engine


def load_catalog(path: str | Path, *, connection: Any = None, content_key: ContentKey | None = None) -> Table:
    r"""Return the tables that a catalog file declares, ready to query. `hush catalog init` writes such a file.

    Limits on contributions that the file gives to a table, and facts (``most_rows``, as `MostRows`), hold for queries
    of that table alone. Queries that join tables choose theirs, unless you give them.

    Args:
        path: The file. The paths in it are relative to its folder.
        connection: Has the tables for which the file names no data: a DuckDB or psycopg connection, or a Spark session.
        content_key: As for `table`.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "people.csv").write_text("who,age\n" + "".join(f"{i},{i % 70}\n" for i in range(5000)))
    >>> lines = ['format = "hush.catalog/1"', "[tables.people]", 'data = "people.csv"', 'unit = "who"']
    >>> _ = (folder / "clinic.toml").write_text("\n".join([*lines, "bounds.age = [0, 100]"]))
    >>> people = load_catalog(folder / "clinic.toml")
    >>> answer = people.sql("SELECT AVG(age) AS age FROM people", epsilon=1.0)
    >>> abs(answer.rows[0][0] - 34.5) < 3
    True
    """
    file = read_catalog(path)
    _refuse_problems(file, [str(problem) for problem in file.problems])
    engine = _engine_of(file, file.tables, connection)
    _refuse_problems(file, _misfits(engine, file.tables))
    tables = {name: _declared(engine, name, entry) for name, entry in file.tables.items()}
    limits = {
        name: RequestedLimits(
            rows_per_unit=entry.rows_per_unit,
            groups_per_unit=entry.groups_per_unit,
            rows_in_total=entry.rows_in_total,
            most_rows=entry.most_rows,
        )
        for name, entry in file.tables.items()
    }
    private = {name: entry.unit for name, entry in file.tables.items() if entry.unit is not None}
    # One that names people by a column of its own, if there is one; `Catalog` refuses references that lead nowhere.
    first = min(private, key=lambda name: private[name].to is not None)
    return Table(engine, Catalog(tables), first, table_limits=limits, content_key=content_key)


def catalog_problems(path: str | Path) -> list[str]:
    """Return all mistakes in a catalog file, including mismatches with the data. No rows are read."""
    file = read_catalog(path)
    problems = [str(problem) for problem in file.problems]
    # Files are opened one by one, so that all that are missing are named; not those whose declaration is refused.
    alone = [{name: entry} for name, entry in file.tables.items() if not _is_refused(name, problems)]
    together = [file.tables] if file.database else alone
    for tables in together if file.tables else ():
        try:
            problems += _misfits(_engine_of(file, tables, None), tables)
        except HushError as problem:
            problems.append(f"tables.{toml_key(next(iter(tables)))}: {problem}" if len(tables) == 1 else str(problem))
    return problems


def _is_refused(name: str, problems: Sequence[str]) -> bool:
    """Return whether a file's declaration of a table's data is refused already."""
    return any(problem.startswith(f"tables.{toml_key(name)}.data=") for problem in problems)


def database_columns(address: str, names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the declared types of the columns of some tables of a database, for a template. No rows are read."""
    first, *others = dict.fromkeys(names)
    engine, _ = open_engine(checked_address("data", address), first, dict.fromkeys(others))
    return {name: table_columns(engine, name, "table") for name in (first, *others)}


def _refuse_problems(file: CatalogFile, problems: Sequence[str]) -> None:
    """Refuse a file that has mistakes, with the first of them."""
    if problems:
        more = [f"It has {len(problems)} mistakes: `hush catalog check` lists them"] if len(problems) > 1 else []
        raise InvalidArgument("catalog", file.path.name, "a catalog without mistakes", problems[0], *more)


def _engine_of(file: CatalogFile, tables: Mapping[str, DeclaredTable], connection: Any) -> Engine:
    """Return the engine for some tables of a file. All tables of a catalog are joined, so they share it."""
    data = {name: None if entry.data is None else str(entry.data) for name, entry in tables.items()}
    without_data = [name for name, file_name in data.items() if file_name is None]
    if connection is not None and (file.database is not None or not without_data):
        raise InvalidArgument("connection", "...", "None: the catalog says where all of its tables are")
    database = file.database if connection is None else connection
    if database is None and without_data:
        advice = "Name its file, or the database of the catalog; in Python, you can also pass a connection"
        raise InvalidArgument(f"tables.{toml_key(without_data[0])}.data", None, "a file", advice)
    first = next(iter(without_data or data))
    others = {name: file_name for name, file_name in data.items() if name != first}
    return open_engine(data[first] if database is None else database, first, others)[0]


def _misfits(engine: Engine, tables: Mapping[str, DeclaredTable]) -> list[str]:
    """Return the declarations that do not fit the tables' columns, each with its place in the file."""
    return [
        f"tables.{toml_key(name)}: {problem}"
        for name, entry in tables.items()
        for problem in _misfit(engine, name, entry)
    ]


def _misfit(engine: Engine, name: str, entry: DeclaredTable) -> list[HushError]:
    """Return the declarations of one table that do not fit, by trying each of them without the others."""
    try:
        columns = table_columns(engine, name, "name")
    except HushError as problem:
        return [problem]
    known = {column: declared for column, declared in columns.items() if column != ROW}
    alone = partial(PrivateTable, columns=known, unit=ROW, row_id=("hush_row", "BIGINT"))
    bounds = {column: {column: pair} for column, pair in entry.bounds.items()}
    attempts: list[Callable[[], Any]] = [] if entry.unit is None else [partial(_joined, entry.unit, name, engine)]
    attempts += [partial(alone, bounds=pair) for pair in bounds.values()]
    attempts += [
        partial(alone, keys={column: keys}, bounds=bounds.get(column, {})) for column, keys in entry.keys.items()
    ]
    if entry.decimal_comma:
        attempts.append(partial(JoinedTable(None, decimal_comma=entry.decimal_comma).without_unit, engine, name))
    attempts += [
        partial(alone, required=frozenset({column}), bounds=bounds.get(column, {})) for column in entry.required
    ]
    return [problem for problem in map(_refusal, attempts) if problem is not None]


def _refusal(attempt: Callable[[], Any]) -> HushError | None:
    """Return why an attempt is refused; None if it is not."""
    try:
        attempt()
    except HushError as problem:
        return problem
    return None


def _joined(unit: DeclaredUnit, name: str, engine: Engine) -> PrivateTable:
    """Return a table with its unit and nothing else."""
    return JoinedTable(None, _unit_of(unit)).on(engine, name, "name")


def _declared(engine: Engine, name: str, entry: DeclaredTable) -> PrivateTable | PublicTable:
    """Return a table of a file, with the columns that the engine reports."""
    if entry.unit is None:
        public = JoinedTable(None, bounds=entry.bounds, decimal_comma=entry.decimal_comma)
        return public.without_unit(engine, name)
    joined = JoinedTable(None, _unit_of(entry.unit), entry.bounds, entry.keys, entry.required, entry.decimal_comma)
    return joined.on(engine, name, "name")


def _unit_of(unit: DeclaredUnit) -> UnitColumns:
    """Return the unit that a file declares, as `table` takes it."""
    if unit.to is not None:
        assert unit.key is not None  # read_catalog refuses one without the other
        return Through(unit.column, to=unit.to, key=unit.key)
    if unit.time is None:
        return unit.column
    assert unit.window is not None  # read_catalog refuses one without the other
    return UserWindow(unit.column, time=unit.time, window=CalendarWindow(unit.window), zone=unit.zone or "UTC")
