"""Options that commands share."""

from __future__ import annotations

import argparse
from datetime import timedelta

from hush.errors import InvalidArgument, check_positive
from hush.guarantee import Relation, Unit


def add_relation(parser: argparse.ArgumentParser) -> None:
    """Add --relation."""
    parser.add_argument(
        "--relation",
        type=Relation,
        choices=list(Relation),
        default=Relation.ADD_OR_REMOVE,
        metavar="RELATION",
        help="what neighbouring data sets are: add-or-remove (default), replace or zero-out",
    )


def add_unit(parser: argparse.ArgumentParser) -> None:
    """Add --unit and what it needs."""
    parser.add_argument(
        "--unit",
        choices=["example", "user", "user-window"],
        default="example",
        help="what is protected: one example (default), all of a user's, or a user's within any time window",
    )
    parser.add_argument(
        "--rows-per-unit", type=int, metavar="K", help="most examples of one user (in one window): a bound you enforce"
    )
    parser.add_argument("--window-days", type=float, metavar="DAYS", help="length of the window for --unit user-window")


def unit_of(options: argparse.Namespace) -> tuple[Unit, int]:
    """Return the unit, and how many examples it may have."""
    if options.unit == "example":
        if options.rows_per_unit is not None:
            raise InvalidArgument(
                "rows_per_unit", options.rows_per_unit, "no value with --unit example", "Use --unit user"
            )
        if options.window_days is not None:
            raise InvalidArgument("window_days", options.window_days, "no value with --unit example", "Use user-window")
        return Unit.example(), 1
    if options.rows_per_unit is None:
        raise InvalidArgument(
            "rows_per_unit",
            None,
            f"a number with --unit {options.unit}",
            "A user's protection depends on how many examples the user has: bound it, and say so with --rows-per-unit",
        )
    if options.unit == "user":
        return Unit.user(), options.rows_per_unit
    if options.window_days is None:
        raise InvalidArgument("window_days", None, "a number with --unit user-window", "Say it with --window-days")
    days = check_positive("window_days", options.window_days, maximum=1e6)
    return Unit.user_window(timedelta(seconds=round(days * 86400))), options.rows_per_unit
