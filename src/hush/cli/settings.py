"""The arguments of `hush train`, `tune`, `plan` and `schema`, made from the options of `hush.runs.Settings`.

This module names no individual setting: a field that is added there becomes an argument here. The type of a field
decides how its argument is read. An argument that is not given is None in the namespace, so that a default stays a
default.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import MISSING
from typing import Any

from hush.cli.declarations import add_declarations, schema_of
from hush.data import Schema
from hush.errors import InvalidArgument
from hush.runs import Option, OptionGroup, Settings, options_of

ArgumentGroups = dict[str, Any]  # by title; argparse has no public type for them


def add_settings(
    parser: argparse.ArgumentParser,
    command: str,
    settings: type[Settings] = Settings,
    *,
    data_is_optional: bool = False,
) -> ArgumentGroups:
    """Add an argument for every setting that a command has.

    Args:
        parser: The command's parser.
        command: The command's name.
        settings: The class that declares the settings.
        data_is_optional: Whether the positional argument may be left out, as with ``--resume``.

    Returns:
        The groups of arguments, to which a command may add its own.
    """
    groups: ArgumentGroups = {}
    for item in options_of(settings, command):
        group = parser if item.group is None else _group(parser, groups, item.group)
        if item.is_positional:
            nargs = "?" if data_is_optional else None
            group.add_argument(item.name, metavar=item.flag, nargs=nargs, help=item.description)
        else:
            _ADD.get(item.type, _add_value)(group, item)
    return groups


def _group(parser: argparse.ArgumentParser, groups: ArgumentGroups, group: OptionGroup) -> Any:
    """Return the group of arguments with a title; add it if it is not there yet."""
    if group.title not in groups:
        groups[group.title] = parser.add_argument_group(group.title, group.description)
    return groups[group.title]


def _add_value(group: Any, item: Option) -> None:
    """Add an option with one value."""
    group.add_argument(item.flag, dest=item.name, type=item.type, metavar=item.metavar, help=item.description)


def _add_repeated(group: Any, item: Option) -> None:
    """Add an option that can be repeated."""
    group.add_argument(item.flag, dest=item.name, action="append", metavar=item.metavar, help=item.description)


def _add_switch(group: Any, item: Option) -> None:
    """Add a switch that turns a default around."""
    group.add_argument(item.flag, dest=item.name, action="store_const", const=not item.default, help=item.description)


def _add_schema(group: Any, item: Option) -> None:
    """Add the flags that together make a schema."""
    add_declarations(group, item.description)


_ADD: dict[type, Callable[[Any, Option], None]] = {tuple: _add_repeated, bool: _add_switch, Schema: _add_schema}


def settings_of(options: argparse.Namespace, settings: type[Settings] = Settings, **given: Any) -> Settings:
    """Return the settings that a command's arguments describe."""
    values: dict[str, Any] = dict(given)
    for item in options_of(settings, options.command):
        value: Any = schema_of(options) if item.type is Schema else getattr(options, item.name)
        if value is not None:
            values[item.name] = tuple(value) if item.type is tuple else value
        elif item.default is MISSING and item.name not in given:
            raise InvalidArgument(item.name, None, item.help, f"Give {item.flag}")
    return settings(**values)


def given_flags(options: argparse.Namespace, settings: type[Settings] = Settings) -> dict[str, str]:
    """Return the flag of each argument that was given, by its name in the namespace."""
    flags = {item.name: item.flag for item in options_of(settings, options.command)}
    return {
        name: flags.get(name, "--" + name.replace("_", "-"))
        for name, value in vars(options).items()
        if value is not None and (value is not False or name in flags)
    }
