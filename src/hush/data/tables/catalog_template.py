"""The template of a catalog file: it has the names of tables and columns, but no values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hush.data.tables.catalog import ColumnKind, kind_of
from hush.data.tables.catalog_toml import FORMAT, PASSWORDS, toml_key, toml_text
from hush.errors import InvalidArgument

_HEAD = f"""\
# What is publicly known about tables, for `hush query --catalog` and `hush.sql.load_catalog`.
# Everything here counts as public: write down what you know without looking at the data, and remove the # before it.
# `hush catalog check FILE` says what is missing or wrong. All private tables are about the same people.
#
# unit             the column that identifies a person; "row" if each row is a different person. To protect a person
#                  within each month: unit = {{column = "...", time = "...", window = "month"}}
# public           true for a public table, such as a list of postcodes; it has no unit, but bounds and decimal_comma
# rows_per_unit    how many rows of a person count in each group, and
# groups_per_unit  in how many groups a person counts, if you know; otherwise each query chooses limits privately
# rows_in_total    instead of rows_per_unit: rows of a person in all groups together. Limits that an answer chose are
#                  written so, and can be kept here: they were paid for
# most_rows        instead of rows_per_unit: a fact, that nobody has more rows than this. No row is left out
# decimal_comma    columns of a CSV file whose numbers have decimal commas: 1.234 is 1234 there, and 1,5 is 1.5
# required         columns with bounds, whose missing values count as the middle of the bounds
# bounds           the range of a column that is summed or averaged; values outside are moved to its ends
# keys             the groups to report, if they are public: all of them, with or without rows; NULL is {{null = true}}
format = "{FORMAT}"
"""
_DATABASE = f"# No password here. {PASSWORDS}.\n"
_DECLARATIONS = """\
unit = ""
# public = true
# rows_per_unit = 1
# groups_per_unit = 1
# required = []
"""
_NUMERIC_NAME = re.compile(r"[\d\s.,:;/+-]+")
_EXAMPLES = {ColumnKind.BOOL: "[true, false]", ColumnKind.INT: "[1, 2]", ColumnKind.TEXT: '["a", "b"]'}
_NUMBERS = (ColumnKind.INT, ColumnKind.FLOAT)


@dataclass(frozen=True, slots=True)
class TemplateTable:
    """A table for the template.

    Attributes:
        columns: The declared type of each column, by name.
        data: Its file, as the catalog names it; None for a table of the database.
        untyped: Whether all columns are text, because the file declares no types.
    """

    columns: Mapping[str, str]
    data: str | None = None
    untyped: bool = False


def catalog_template(tables: Mapping[str, TemplateTable], database: str | None = None) -> str:
    """Return the text of a catalog to fill in.

    >>> people = TemplateTable({"who": "BIGINT", "age": "INTEGER"}, "people.parquet")
    >>> print(catalog_template({"people": people}).partition("# Columns: ")[2].splitlines()[0])
    who (integer), age (integer)

    Args:
        tables: The tables by name.
        database: The address of the database that has them, if they are not files.
    """
    address = "" if database is None else f"{_DATABASE}database = {toml_text(database)}\n"
    return "\n".join([_HEAD + address, *(_section(name, table) for name, table in tables.items())])


def _section(name: str, table: TemplateTable) -> str:
    """Return one table's part."""
    _check_header(name, table)
    header = f"[tables.{toml_key(name)}]\n"
    data = "" if table.data is None else f"data = {toml_text(table.data)}\n"
    kinds = {column: kind_of(declared) for column, declared in table.columns.items()}
    listed = ", ".join(
        toml_key(column) if table.untyped else f"{toml_key(column)} ({kind})" for column, kind in kinds.items()
    )
    return f"{header}{data}# Columns: {listed}\n{_DECLARATIONS}{_columns(table, kinds)}"


def _columns(table: TemplateTable, kinds: Mapping[str, ColumnKind]) -> str:
    """Return the bounds and keys to fill in, as comments."""
    numbers = [column for column, kind in kinds.items() if table.untyped or kind in _NUMBERS]
    lines = [f"# bounds.{toml_key(column)} = [0, 100]" for column in numbers]
    lines += [f"# keys.{_example_keys(column, kinds)}" for column, kind in kinds.items() if kind in _EXAMPLES]
    return "".join(f"{line}\n" for line in lines)


def _example_keys(column: str, kinds: Mapping[str, ColumnKind]) -> str:
    return f"{toml_key(column)} = {_EXAMPLES[kinds[column]]}"


def _check_header(name: str, table: TemplateTable) -> None:
    """Refuse a file without a header. Its first line is a record, which must not be written to the catalog."""
    if table.untyped and any(_NUMERIC_NAME.fullmatch(column) for column in table.columns):
        why = "Some of its names are numbers, so that line may be a record"
        raise InvalidArgument("data", table.data or name, "a file whose first line names its columns", why)
