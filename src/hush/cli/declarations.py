"""Options that say where data are and what is known of them: for `hush train`, `hush tune` and `hush schema`."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hush.errors import InvalidArgument

if TYPE_CHECKING:
    from hush.data import Schema
    from hush.data.tables.columns import Column


def add_source(parser: argparse.ArgumentParser, *, optional: bool = False) -> None:
    """Add DATA, and how to find it."""
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs="?" if optional else None,
        help="a CSV, Parquet or NPZ file, a folder of IDX files or images, or digits, mnist, fashion-mnist, cifar10",
    )
    group = parser.add_argument_group("finding the data")
    group.add_argument("--data-dir", metavar="DIR", help="where known data sets are; $HUSH_DATA without it")
    group.add_argument("--no-download", action="store_true", help="do not download known data sets")
    group.add_argument("--delimiter", metavar="CHAR", help="what separates the columns of a CSV file")


def add_declarations(parser: argparse.ArgumentParser) -> None:
    """Add what can be declared: everything here counts as public."""
    group = parser.add_argument_group(
        "what is known of the data", "All of it counts as public. What is not declared is learned privately."
    )
    group.add_argument("--schema", metavar="FILE", help="a file with all of it; `hush schema DATA` writes a template")
    group.add_argument("--bounds", action="append", metavar="COLUMN=LOW:HIGH", help="the range of a column of numbers")
    group.add_argument(
        "--category", action="append", metavar="COLUMN[=A,B,...]", help="a column of a few values; learned, if not said"
    )
    group.add_argument("--vocabulary", action="append", metavar="COLUMN=FILE", help="a column of text, and its words")
    group.add_argument("--ignore", action="append", metavar="COLUMN", help="a column not to learn from")
    group.add_argument("--classes", metavar="A,B,...", help="the values of the target")
    group.add_argument("--group", action="append", metavar="COLUMN", help="a column to compare accuracy by")


def declared(options: argparse.Namespace) -> Schema | None:
    """Return what the schema file and the flags declare together; None if nothing."""
    from hush.data import Category, Ignore, Numeric, Schema, Text

    schema = Schema() if options.schema is None else Schema.load(options.schema)
    columns: dict[str, Column] = {}
    for text in options.bounds or ():
        name, given = pair("bounds", text, "COLUMN=LOW:HIGH")
        low, _, high = given.partition(":")
        columns[name] = Numeric(lower=number("bounds", text, low), upper=number("bounds", text, high))
    for text in options.category or ():
        name, found, values = text.partition("=")
        columns[name] = Category(values=_values("category", text, values) if found else None)
    for text in options.vocabulary or ():
        name, path = pair("vocabulary", text, "COLUMN=FILE")
        columns[name] = Text.from_file(Path(path))
    for name in options.ignore or ():
        columns[name] = Ignore()
    classes = None if options.classes is None else _values("classes", options.classes, options.classes)
    if not columns and classes is None:
        return None if options.schema is None else schema
    return replace(schema, columns={**schema.columns, **columns}, classes=classes or schema.classes)


def pair(flag: str, text: str, form: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE."""
    name, found, value = text.partition("=")
    if not (found and name and value):
        raise InvalidArgument(flag, text, form)
    return name, value


def number(flag: str, text: str, given: str) -> float:
    """Return a bound."""
    try:
        number = float(given)
    except ValueError:
        number = math.nan
    if not abs(number) < math.inf:
        raise InvalidArgument(flag, text, "COLUMN=LOW:HIGH with two numbers")
    return number


def _values(flag: str, text: str, given: str) -> tuple[str, ...]:
    values = tuple(value.strip() for value in given.split(","))
    if not all(values):
        raise InvalidArgument(flag, text, "values with commas between them")
    return values
