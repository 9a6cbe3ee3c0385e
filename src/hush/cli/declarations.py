"""Declarations about a table before it is read, as flags such as ``--bounds age=0:100``.

Everything that is declared counts as public. A schema file and flags can be combined; flags win.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from hush.data import Category, Column, Date, HashedText, Ignore, Numeric, Schema, Text
from hush.errors import InvalidArgument


def add_declarations(group: Any, schema_help: str) -> None:
    """Add the flags to a parser, or to a group of its arguments."""
    group.add_argument("--schema", metavar="FILE", help=schema_help)
    group.add_argument(
        "--bounds", action="append", metavar="COLUMN=LOW:HIGH", help="the range of a numeric column; may be repeated"
    )
    group.add_argument(
        "--category",
        action="append",
        metavar="COLUMN[=A,B,...]",
        help="a categorical column; values that you do not list are learned privately; may be repeated",
    )
    group.add_argument(
        "--vocabulary",
        action="append",
        metavar="COLUMN=FILE",
        help="a text column, and a file with its public vocabulary; may be repeated",
    )
    group.add_argument("--date", action="append", metavar="COLUMN", help="a column of dates; may be repeated")
    group.add_argument(
        "--words", action="append", metavar="COLUMN", help="a text column; its words are hashed; may be repeated"
    )
    group.add_argument(
        "--ignore", action="append", metavar="COLUMN", help="a column not to use as an input; may be repeated"
    )
    group.add_argument("--classes", metavar="A,B,...", help="the values of the target")


def schema_of(options: argparse.Namespace) -> Schema | None:
    """Return the combined declarations of schema file and flags; None without any."""
    schema = Schema() if options.schema is None else Schema.load(options.schema)
    columns: dict[str, Column] = {}
    for name, (lower, upper) in parse_bounds(options.bounds or ()).items():
        columns[name] = Numeric(lower=lower, upper=upper)
    for text in options.category or ():
        name, equals, values = text.partition("=")
        columns[name] = Category(values=parse_values("category", text, values) if equals else None)
    for text in options.vocabulary or ():
        name, path = parse_pair("vocabulary", text, "COLUMN=FILE")
        columns[name] = Text.from_file(Path(path))
    for name in options.date or ():
        columns[name] = Date()
    for name in options.words or ():
        columns[name] = HashedText()
    for name in options.ignore or ():
        columns[name] = Ignore()
    classes = None if options.classes is None else parse_values("classes", options.classes, options.classes)
    if not columns and classes is None:
        return None if options.schema is None else schema
    return replace(schema, columns={**schema.columns, **columns}, classes=classes or schema.classes)


def parse_pair(flag: str, text: str, form: str) -> tuple[str, str]:
    """Return the name and the value of ``NAME=VALUE``.

    >>> parse_pair("public", "zones=zones.csv", "NAME=FILE")
    ('zones', 'zones.csv')
    """
    name, equals, value = text.partition("=")
    if not (equals and name and value):
        raise InvalidArgument(flag, text, form)
    return name, value


def parse_bounds(texts: list[str] | tuple[()]) -> dict[str, tuple[float, float]]:
    """Return the bounds of each column of ``COLUMN=LOW:HIGH``.

    >>> parse_bounds(["age=0:100", "income=0:1e6"])
    {'age': (0.0, 100.0), 'income': (0.0, 1000000.0)}
    """
    bounds = {}
    for text in texts:
        name, limits = parse_pair("bounds", text, "COLUMN=LOW:HIGH")
        low, _, high = limits.partition(":")
        bounds[name] = _parse_bound(text, low), _parse_bound(text, high)
    return bounds


def _parse_bound(text: str, bound: str) -> float:
    """Read one end of a range, which has to be finite."""
    try:
        number = float(bound)
    except ValueError:
        number = math.nan
    if not abs(number) < math.inf:
        raise InvalidArgument("bounds", text, "COLUMN=LOW:HIGH with two numbers")
    return number


def parse_values(flag: str, text: str, values: str) -> tuple[str, ...]:
    """Return the values of ``A,B,...``; the message names the whole argument."""
    names = tuple(name.strip() for name in values.split(","))
    if not all(names):
        raise InvalidArgument(flag, text, "values separated by commas")
    return names
