"""Turns flags into a table and the arguments of a query."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from hush.cli.commands.query.flags import DECLARING
from hush.cli.declarations import parse_bounds, parse_pair, parse_values
from hush.cli.words import NOISES
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow

if TYPE_CHECKING:
    from hush.sql import Preview, Table
    from hush.statistics import GaussianNoise, LaplaceNoise


def open_table(options: argparse.Namespace) -> Table:
    """Return the table that a catalog file or the flags declare."""
    try:
        from hush.sql import ContentKey, MostRows, load_catalog, table
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    content_key = None if options.content_key is None else ContentKey.from_file(options.content_key)
    if options.catalog is not None:
        _refuse_declarations(options)
        return load_catalog(options.catalog, content_key=content_key)
    if options.data is None:
        raise InvalidArgument("data", None, "a file or a database", "Or --catalog FILE, which names the data")
    if options.unit is None:
        advice = "If each row is a different person, write --unit row"
        raise InvalidArgument("unit", None, "the column that identifies the privacy unit", advice)
    keys = _parse_keys(options.keys or [])
    declared: dict[str, Any] = {
        "name": options.table,
        "unit": _unit(options),
        "bounds": parse_bounds(options.bounds or []),
        "decimal_comma": options.decimal_comma or [],
        "public": dict(_parse_public(text) for text in options.public_table or []),
        "rows_per_unit": None if options.most_rows is None else MostRows(options.most_rows),
        "content_key": content_key,
    }
    try:
        return table(options.data, keys=keys, **declared)
    except InvalidArgument:
        # A text column may hold digits, and every column of a CSV file is text.
        texts = {name: [str(value) for value in values] for name, values in keys.items()}
        return table(options.data, keys=texts, **declared)


def _refuse_declarations(options: argparse.Namespace) -> None:
    """Refuse flags for what the catalog declares, because two declarations of one fact could differ."""
    if options.data is not None:
        raise InvalidArgument("data", "...", "none with --catalog", "The catalog names the data of its tables")
    for name in DECLARING:
        if getattr(options, name) is not None:
            raise InvalidArgument(name, getattr(options, name), "none with --catalog", "Write it into the catalog")


def _unit(options: argparse.Namespace) -> str | UserWindow:
    """Return the unit's column; with ``--window``, a user within each window of the calendar."""
    if (options.window is None) != (options.time is None):
        raise InvalidArgument("window", options.window, "both --window and --time, or neither")
    if options.window is None:
        return str(options.unit)
    return UserWindow(options.unit, time=options.time, window=CalendarWindow(options.window))


def arguments_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Table.sql` and `Table.price`."""
    if options.epsilon is None and options.accuracy is None:
        raise InvalidArgument("epsilon", None, "a positive number", "Give --epsilon, or --accuracy and --expected")
    names = ("epsilon", "delta", "groups_per_unit", "rows_per_unit", "accuracy", "expected", "confidence")
    return {**{name: getattr(options, name) for name in names}, "noise": _noise(options)}


def _noise(options: argparse.Namespace) -> GaussianNoise | LaplaceNoise | None:
    """Return the noise that was named; None lets hush choose."""
    return None if options.noise is None else NOISES[options.noise]()


def preview(people: Table, text: str, options: argparse.Namespace) -> Preview:
    """Answer a query on invented rows.

    That costs nothing, so epsilon and delta may be omitted; an accuracy sets epsilon.
    """
    names = ("groups_per_unit", "rows_per_unit", "confidence")
    question: dict[str, Any] = {**{name: getattr(options, name) for name in names}, "noise": _noise(options)}
    if options.epsilon is not None or options.accuracy is not None or options.expected is not None:
        question["epsilon"] = people.price(text, **arguments_of(options)).guarantee.epsilon
        question["delta"] = options.delta
    elif options.delta:
        question["delta"] = options.delta
    return people.preview(text, **question)


def _parse_public(text: str) -> tuple[str, str | None]:
    """Return the name and the file of a public table; one in a database has no file."""
    return parse_pair("public_table", text, "NAME=FILE") if "=" in text else (text, None)


def _parse_keys(texts: list[str]) -> dict[str, list[str | int | float]]:
    """Return the public groups of each column of ``COLUMN=A,B,...``."""
    keys = {}
    for text in texts:
        name, values = parse_pair("keys", text, "COLUMN=A,B,...")
        keys[name] = [_number_or_text(value) for value in parse_values("keys", text, values)]
    return keys


def _number_or_text(text: str) -> str | int | float:
    """Return a number if the text is one: the columns of a Parquet file have types."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
