"""The table that `hush test` reads, and what is declared about it: by flags, or by a catalog."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.cli.declarations import parse_bounds, parse_pair, parse_values
from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.data import CatalogFile, DeclaredTable, TableData

# What a catalog declares. Beside one, these flags are refused.
_DECLARING = ("unit", "keys", "bounds")


@dataclass(frozen=True, slots=True, kw_only=True)
class TestedTable:
    """A file, and what is known about its columns.

    Attributes:
        path: The file; None if none is named.
        unit: The column that identifies a person, or ``row``; None if none is named.
        keys: The categories of columns.
        bounds: The ranges of columns of numbers.
        decimal_comma: The columns of a CSV file whose numbers have decimal commas.
        advice: How a column is declared, for messages; {0} is its name.
    """

    path: Path | None
    unit: str | None
    keys: Mapping[str, tuple[str, ...]]
    bounds: Mapping[str, tuple[float, float]]
    decimal_comma: tuple[str, ...] = ()
    advice: str = "--keys {0}=a,b,... makes it one of categories, --bounds {0}=0:100 one of numbers"

    def open(self, roles: Mapping[str, str | None]) -> TableData:
        """Return the file, whose rows are not read yet.

        Args:
            roles: The columns of the test, by the names of their flags.
        """
        from hush.data import open_table_file

        if self.unit is None:
            advice = "If each row is a different person, write --unit row"
            raise InvalidArgument("unit", None, "the column that identifies the privacy unit", advice)
        is_file = self.path is not None and self.path.is_file()
        data = open_table_file(self.path, self.path.name, None, self.decimal_comma) if self.path and is_file else None
        if data is None:
            name = None if self.path is None else str(self.path)
            raise InvalidArgument("data", name, "an existing .csv, .xlsx or .parquet file")
        for role, column in roles.items():
            if column is not None:
                data.check_column(role, column)
        if self.unit != "row":
            return data.with_ids(data.check_column("unit", self.unit))
        if "row" in data.columns:
            raise InvalidArgument("unit", "row", "a word that is no column", "Rename the column called row")
        return data


def tested_table(options: argparse.Namespace) -> TestedTable:
    """Return the table that flags or a catalog declare."""
    try:
        import hush.data  # noqa: F401
    except ImportError as error:
        raise Unsupported(f"files need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    if options.catalog is not None:
        return _of_catalog(options)
    if options.table is not None:
        raise InvalidArgument("table", options.table, "none without --catalog", "A file has one table")
    keys, bounds = _parse_keys(options.keys or []), parse_bounds(options.bounds or [])
    for name in {*keys, *bounds} - {options.outcome, options.between}:
        raise InvalidArgument("keys" if name in keys else "bounds", name, "a column of this test")
    path = None if options.data is None else Path(options.data)
    return TestedTable(path=path, unit=options.unit, keys=keys, bounds=bounds)


def _of_catalog(options: argparse.Namespace) -> TestedTable:
    """Return a table of a catalog. Flags for what it declares are refused: two declarations could differ."""
    from hush.data import read_catalog

    if options.data is not None:
        raise InvalidArgument("data", "...", "none with --catalog", "The catalog names the data of its tables")
    for flag in _DECLARING:
        if getattr(options, flag) is not None:
            raise InvalidArgument(flag, getattr(options, flag), "none with --catalog", "Write it into the catalog")
    file = read_catalog(options.catalog)
    if file.problems:
        advice = "`hush catalog check` lists all mistakes"
        raise InvalidArgument("catalog", file.path.name, "a catalog without mistakes", str(file.problems[0]), advice)
    name, table = _chosen_table(file, options.table)
    assert table.unit is not None
    if table.data is None:
        raise Unsupported(f"tests of {name}, which is a table of a database", "Name a file in the catalog")
    if table.unit.window is not None or table.unit.to is not None:
        advice = "Test a table with a column that identifies a person, or --unit without a catalog"
        raise Unsupported(f"tests of {name}: its unit is a window of time, or in another table", advice)
    columns = {options.outcome, options.between}
    return TestedTable(
        path=table.data,
        unit=table.unit.column,
        keys={column: _texts(column, keys) for column, keys in table.keys.items() if column in columns},
        bounds={column: pair for column, pair in table.bounds.items() if column in columns},
        decimal_comma=table.decimal_comma,
        advice="The catalog has to give {0} keys, or else bounds",
    )


def _chosen_table(file: CatalogFile, name: str | None) -> tuple[str, DeclaredTable]:
    """Return the table of this name, or the only one of people."""
    private = {table: entry for table, entry in file.tables.items() if entry.unit is not None}
    if name is None and len(private) == 1:
        return next(iter(private.items()))
    if name not in private:
        expected = "one of the tables with a unit: " + ", ".join(private)
        raise InvalidArgument("table", name, expected, "A test is about the people of one table")
    return name, private[name]


def _texts(column: str, keys: tuple[Any, ...]) -> tuple[str, ...]:
    """Return the keys of a column as the texts that a file has for them."""
    if any(not isinstance(key, (str, int)) for key in keys):
        advice = "Rows without a value are in no category. List the others as texts, in a catalog for tests"
        raise InvalidArgument("keys", column, "texts, whole numbers or truth values", advice)
    texts = tuple(str(key).lower() if isinstance(key, bool) else str(key) for key in keys)
    if not 2 <= len(texts) == len(set(texts)):
        raise InvalidArgument("keys", column, "two categories or more, each of them once")
    return texts


def _parse_keys(texts: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the categories of each column of ``COLUMN=A,B,...``: two or more, each named once.

    The tests get codes, which are always distinct.
    """
    keys: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, values = parse_pair("keys", text, "COLUMN=A,B,...")
        if name in keys:
            raise InvalidArgument("keys", text, f"the column {name} once")
        keys[name] = parse_values("keys", text, values)
        if not 2 <= len(keys[name]) == len(set(keys[name])):
            raise InvalidArgument("keys", text, "two categories or more, each of them once")
    return keys
