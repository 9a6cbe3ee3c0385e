r"""The commands of the shell that are not SQL: ``\d``, ``\epsilon`` and the like. They read no rows."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

from hush.cli.terminal import table as lay_out
from hush.data.tables.catalog import PrivateTable, PublicTable, kind_of
from hush.errors import InvalidArgument, check_count, check_delta, check_positive

if TYPE_CHECKING:
    from hush.sql import Table

HELP = r"""  \d             tables: who is protected, and limits
  \d TABLE       its columns, bounds and keys
  \epsilon [X]   show or set what each answer may cost
  \delta [X]     the same for delta
  \limits [ROWS GROUPS]
                 show or set rows and groups per unit; auto: the table's, or chosen privately
  \q             leave, as Ctrl-D does"""


def run_command(line: str, people: Table, options: argparse.Namespace) -> bool:
    """Run a command, and return whether it ends the session."""
    name, *words = line.split()
    if name == r"\q":
        return True
    if name not in _COMMANDS:
        raise InvalidArgument("command", name, f"one of {', '.join([*_COMMANDS, chr(92) + 'q'])}")
    _COMMANDS[name](words, people, options)
    return False


def _describe(words: Sequence[str], people: Table, options: argparse.Namespace) -> None:
    r"""``\d``: list the tables, or the columns of one of them."""
    tables = people.catalog.tables
    if not words:
        header = ["table", "one unit is", "rows per unit", "groups per unit", "columns"]
        print(lay_out(header, [_summary(people, name) for name in tables]))
        return
    name = " ".join(words)
    known = {other.casefold(): other for other in tables}
    if name.casefold() not in known:
        raise InvalidArgument("table", name, f"one of {', '.join(tables)}")
    table = tables[known[name.casefold()]]
    header = ["column", "type", "bounds", "keys"]
    print(lay_out(header, [_column(table, column) for column in table.columns]))


def _summary(people: Table, name: str) -> list[str]:
    r"""Return a table's row of ``\d``."""
    table = people.catalog.tables[name]
    columns = shorten(", ".join(table.columns), 60, placeholder=" ...")
    if isinstance(table, PublicTable):
        return [name, "public", "", "", columns]
    limits = people.limits_of(name)
    unit = str(table.unit) if table.window is None else f"{table.unit} within a {table.window} of {table.time}"
    rows = f"{limits.rows_in_total} in total" if limits.rows_in_total else _limit(limits.rows_per_unit)
    rows = rows if limits.fact is None else f"{limits.fact}, as declared"
    return [name, unit, rows, _limit(limits.groups_per_unit), columns]


def _column(table: PrivateTable | PublicTable, name: str) -> list[str]:
    r"""Return a column's row of ``\d TABLE``."""
    kind = str(kind_of(table.columns[name]))
    if isinstance(table, PublicTable):
        return [name, kind, "", ""]
    bounds = " to ".join(f"{end:.6g}" for end in table.bounds.get(name, ()))
    keys = ", ".join("NULL" if key is None else str(key) for key in table.keys.get(name, ()))
    required = ", required" if name in table.required else ""
    unit = ", the unit" if name == table.unit else ""
    return [name, f"{kind}{required}{unit}", bounds, shorten(keys, 60, placeholder=" ...")]


def _epsilon(words: Sequence[str], people: Table, options: argparse.Namespace) -> None:
    r"""``\epsilon``: show or set what each answer may cost."""
    if words:
        options.epsilon, options.accuracy, options.expected = check_positive("epsilon", _number(words)), None, None
    print(f"epsilon {'is not set' if options.epsilon is None else f'{options.epsilon:.6g}'} for each answer")


def _delta(words: Sequence[str], people: Table, options: argparse.Namespace) -> None:
    r"""``\delta``: show or set the delta of each answer."""
    if words:
        options.delta = check_delta("delta", _number(words))
    print(f"delta {options.delta:.6g} for each answer")


def _limits(words: Sequence[str], people: Table, options: argparse.Namespace) -> None:
    r"""``\limits``: show or set the limits on contributions."""
    if words:
        rows, groups = [*words, "auto"][:2]
        options.rows_per_unit, options.groups_per_unit = _parse_limit(rows), _parse_limit(groups)
    print(f"rows per unit: {_limit(options.rows_per_unit)}; groups per unit: {_limit(options.groups_per_unit)}")


def _help(words: Sequence[str], people: Table, options: argparse.Namespace) -> None:
    r"""``\?``: list the commands."""
    print(f"Statements end with ; and are asked after you have seen their price.\n{HELP}")


def _limit(limit: int | None) -> str:
    return "auto" if limit is None else str(limit)


def _parse_limit(word: str) -> int | None:
    return None if word == "auto" else check_count("limits", int(word) if word.isdecimal() else word)


def _number(words: Sequence[str]) -> float | str:
    """Return a number, or a text for the checks to refuse."""
    try:
        return float(" ".join(words))
    except ValueError:
        return " ".join(words)


_COMMANDS: Mapping[str, Callable[[Sequence[str], Table, argparse.Namespace], None]] = {
    r"\d": _describe,
    r"\epsilon": _epsilon,
    r"\delta": _delta,
    r"\limits": _limits,
    r"\?": _help,
}
