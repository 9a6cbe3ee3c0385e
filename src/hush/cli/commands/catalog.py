"""`hush catalog`: files that declare tables, for `hush query --catalog` and `hush.sql.load_catalog`.

``init`` writes a template with the names and types of columns, and ``check`` reports every mistake in a file. Neither
reads a value.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hush.cli.messages import in_flags
from hush.cli.template_file import write_template
from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.data import TemplateTable


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "catalog",
        help="write and check files that declare tables",
        description="Declare tables in a file: their data, privacy unit, bounds, keys and limits.",
        epilog="Example: hush catalog init visits.parquet people.csv --output clinic.toml; fill it in; hush catalog "
        'check clinic.toml; hush query --catalog clinic.toml "SELECT COUNT(*) FROM visits" --epsilon 0.5',
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser(
        "init",
        help="write a template to fill in, without reading any value",
        description="Write a template with the names of the tables and columns. No value is read.",
    )
    init.add_argument(
        "data", nargs="+", metavar="DATA", help="files with tables; or postgresql://user@host/database with --table"
    )
    init.add_argument(
        "--table", action="append", metavar="NAME", help="a table or view of the database; may be repeated"
    )
    init.add_argument("--output", metavar="PATH", help="the file to write; if omitted, the template is printed")
    init.set_defaults(run=_init)
    check = actions.add_parser(
        "check",
        help="report every mistake in a file, without reading any value",
        description="Report every mistake in a catalog file. No value is read. With mistakes, the exit status is 2.",
    )
    check.add_argument("file", metavar="CATALOG", help="the catalog file")
    check.set_defaults(run=_check)


def _init(options: argparse.Namespace) -> None:
    """Write a template."""
    from hush.data import catalog_template

    address = options.data[0] if "://" in options.data[0] else None
    if address is not None:
        text = _database_template(address, options)
    else:
        if options.table is not None:
            raise InvalidArgument("table", options.table, "none for files", "A file's name is its table's name")
        folder = Path() if options.output is None else Path(options.output).parent
        text = catalog_template(_files(options.data, folder))
    write_template(text, options.output, "hush catalog check")


def _files(names: list[str], folder: Path) -> dict[str, TemplateTable]:
    """Return the tables of files, by name; their paths are relative to the folder of the catalog."""
    from hush.data import ParquetFile, TemplateTable, open_table_file

    tables: dict[str, TemplateTable] = {}
    for name in names:
        path = Path(name)
        file = open_table_file(path, path.name) if path.is_file() else None
        if file is None:
            raise InvalidArgument("data", path.name, "an existing .csv, .xlsx or .parquet file")
        stem = path.name.split(".")[0]
        if stem.casefold() in map(str.casefold, tables):
            raise InvalidArgument("data", path.name, "files of different names", "A file's name is its table's name")
        is_typed = isinstance(file.file, ParquetFile)
        types = file.file.types if is_typed else ["VARCHAR"] * len(file.columns)
        columns = dict(zip(file.columns, types, strict=True))
        tables[stem] = TemplateTable(columns, Path(os.path.relpath(path, folder)).as_posix(), untyped=not is_typed)
    return tables


def _database_template(address: str, options: argparse.Namespace) -> str:
    """Return a template for tables of a database."""
    try:
        from hush.sql import database_columns
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    from hush.data import TemplateTable, catalog_template

    if len(options.data) > 1 or not options.table:
        raise InvalidArgument("table", options.table, "one address, and --table NAME for each table of the database")
    columns = database_columns(address, options.table)
    return catalog_template({name: TemplateTable(types) for name, types in columns.items()}, address)


def _check(options: argparse.Namespace) -> int:
    """Print all mistakes in a file, and return the exit status."""
    try:
        from hush.sql import catalog_problems
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    problems = catalog_problems(options.file)
    for problem in problems:
        print(in_flags(str(problem), argparse.ArgumentParser(), argparse.Namespace()), file=sys.stderr)
    if not problems:
        print(f"{options.file} has no mistakes.")
    return 2 if problems else 0
