"""Options that several commands share, and those that name a privacy unit without naming a column.

- ``--relation``: how neighbouring datasets differ.
- ``--unit-kind`` and ``--window``: what is protected, where no data are read. Commands that read data take the column
  that identifies the unit instead: ``--unit COLUMN``.
"""

from __future__ import annotations

import argparse

from hush.cli.words import UNIT_KINDS
from hush.errors import InvalidArgument
from hush.guarantee import CalendarWindow, Relation, Unit


def add_relation(parser: argparse.ArgumentParser) -> None:
    """Add ``--relation``."""
    parser.add_argument(
        "--relation",
        type=Relation,
        choices=list(Relation),
        default=Relation.ADD_OR_REMOVE,
        metavar="RELATION",
        help="how neighbouring datasets differ: add-or-remove (default), replace or zero-out",
    )


def add_unit_kind(group: argparse._ArgumentGroup) -> None:
    """Add ``--unit-kind`` and ``--window``."""
    group.add_argument(
        "--unit-kind",
        choices=list(UNIT_KINDS),
        default="example",
        help="what one privacy unit is: an example (default), or all examples of a user",
    )
    group.add_argument(
        "--window",
        choices=[window.value for window in CalendarWindow],
        help="with --unit-kind user: protect what a user does within each such calendar window",
    )


def unit_of(options: argparse.Namespace) -> Unit:
    """Return the privacy unit that ``--unit-kind`` and ``--window`` name."""
    unit = UNIT_KINDS[options.unit_kind]()
    if options.window is None:
        return unit
    if unit != Unit.user():
        raise InvalidArgument(
            "window", options.window, f"a user's window, not that of an {options.unit_kind}", "Use --unit-kind user"
        )
    return Unit.user_calendar(CalendarWindow(options.window))
