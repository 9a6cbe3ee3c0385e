"""Options of the commands that plan and account: ``--relation``, and ``--unit`` with its bounds."""

from __future__ import annotations

import argparse
from datetime import timedelta

from hush.cli.words import EXAMPLE, UNITS, USER, USER_WINDOW
from hush.errors import InvalidArgument, check_positive
from hush.guarantee import Relation, Unit

_SECONDS_PER_DAY = 86400


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


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add ``--unit``, and the bounds that a user needs."""
    parser.add_argument(
        "--unit",
        choices=UNITS,
        default=EXAMPLE,
        help="the privacy unit: one example (default), all examples of a user, or a user's within any time window",
    )
    parser.add_argument(
        "--rows-per-unit",
        type=int,
        metavar="K",
        help="the most examples that one user has (in one window); you must enforce this bound",
    )
    parser.add_argument("--window-days", type=float, metavar="DAYS", help="the length of a window, in days")


def unit_of(options: argparse.Namespace) -> tuple[Unit, int]:
    """Return the privacy unit, and how many examples it may have."""
    if options.unit == EXAMPLE:
        if options.rows_per_unit is not None:
            raise InvalidArgument(
                "rows_per_unit", options.rows_per_unit, "no value with --unit example", "Use --unit user"
            )
        if options.window_days is not None:
            raise InvalidArgument(
                "window_days", options.window_days, "no value with --unit example", "Use --unit user-window"
            )
        return Unit.example(), 1
    if options.rows_per_unit is None:
        raise InvalidArgument(
            "rows_per_unit",
            None,
            f"a number with --unit {options.unit}",
            "A user's protection depends on how many examples the user has: enforce a bound, and give --rows-per-unit",
        )
    if options.unit == USER:
        return Unit.user(), options.rows_per_unit
    if options.window_days is None:
        raise InvalidArgument("window_days", None, f"a number with --unit {USER_WINDOW}", "Give --window-days")
    days = check_positive("window_days", options.window_days, maximum=1e6)
    return Unit.user_window(timedelta(seconds=round(days * _SECONDS_PER_DAY))), options.rows_per_unit
