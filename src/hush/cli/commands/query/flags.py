"""The flags of `hush query`."""

from __future__ import annotations

import argparse

from hush.cli.charging import add_charging
from hush.cli.words import NOISES
from hush.guarantee import CalendarWindow

# What a catalog file declares. Beside one, these flags are refused.
DECLARING = ("table", "unit", "window", "time", "bounds", "keys", "decimal_comma", "public_table", "most_rows")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "data",
        nargs="?",
        metavar="DATA",
        help="a CSV, Excel or Parquet file, whose name is the table's name in the query; or "
        "postgresql://user@host/database with --table (keep the password in ~/.pgpass). Omit it with --catalog",
    )
    parser.add_argument("sql", nargs="?", metavar="SQL", help="a SELECT with aggregates; if omitted, a shell opens")
    parser.add_argument(
        "--catalog",
        metavar="FILE",
        help="a file that declares the tables and their data; `hush catalog init` writes one",
    )
    parser.add_argument("--table", metavar="NAME", help="a table or view of the database, or another name for a file")
    parser.add_argument(
        "--unit",
        metavar="COLUMN",
        help="the column that identifies the privacy unit; or the word row, if each row is a different person",
    )
    parser.add_argument(
        "--window",
        choices=[window.value for window in CalendarWindow],
        help="protect what a unit does within each such calendar window; needs --time",
    )
    parser.add_argument("--time", metavar="COLUMN", help="with --window: the column of dates or times")
    _add_cost(parser)
    _add_declarations(parser)
    parser.add_argument(
        "--price", action="store_true", help="show the cost without running the query; with --expected, also the error"
    )
    parser.add_argument(
        "--preview", action="store_true", help="run the query on invented rows, without reading the data"
    )
    parser.add_argument(
        "--noise-intervals",
        action="store_true",
        help="show intervals that cover the noise only, not what limits may leave out",
    )
    add_charging(parser)
    parser.add_argument(
        "--new-data",
        action="store_true",
        help="with --budget: the data have changed, so run the query again and pay again",
    )
    parser.add_argument(
        "--content-key",
        metavar="FILE",
        help="with --budget: recognise files by their content, under the secret key in this file (32 random bytes)",
    )
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table", help="output format")


def _add_cost(parser: argparse.ArgumentParser) -> None:
    """Add the cost of the answer, or how accurate it should be."""
    group = parser.add_argument_group("the cost of the answer")
    group.add_argument("--epsilon", type=float, help="the privacy budget of the answer (default for --preview: 1)")
    group.add_argument(
        "--accuracy", type=float, metavar="SHARE", help="instead of --epsilon: the relative error that you accept"
    )
    group.add_argument(
        "--expected", type=float, metavar="ROWS", help="with --accuracy or --price: roughly how many rows a group has"
    )
    group.add_argument("--delta", type=float, default=0.0, help="needed if the groups are not public (default: 0)")
    group.add_argument(
        "--noise", choices=list(NOISES), help="the kind of noise; if omitted, the one with the smaller error"
    )
    group.add_argument(
        "--confidence", type=float, default=0.95, help="confidence of --accuracy and of the intervals (default: 0.95)"
    )


def _add_declarations(parser: argparse.ArgumentParser) -> None:
    """Add what is known about the table."""
    group = parser.add_argument_group("what is known about the data", "Everything declared here is taken as public.")
    group.add_argument(
        "--bounds",
        action="append",
        metavar="COLUMN=LOW:HIGH",
        help="the range to which values are clipped (default: learned privately); may be repeated",
    )
    group.add_argument(
        "--keys", action="append", metavar="COLUMN=A,B,...", help="the groups, if they are public; may be repeated"
    )
    group.add_argument(
        "--decimal-comma",
        action="append",
        metavar="COLUMN",
        help="a column of a CSV file whose numbers have decimal commas, so that 1.234 is 1234; may be repeated",
    )
    group.add_argument(
        "--public-table",
        action="append",
        metavar="NAME=FILE",
        help="a public table (in a database: NAME); may be repeated",
    )
    group.add_argument(
        "--groups-per-unit",
        type=int,
        metavar="N",
        help="the most groups in which a unit counts (default: chosen privately, on a tenth of epsilon)",
    )
    group.add_argument(
        "--rows-per-unit",
        type=int,
        metavar="K",
        help="the most rows of a unit that count in each group (default: a limit for all groups is chosen privately)",
    )
    group.add_argument(
        "--most-rows",
        type=int,
        metavar="K",
        help="your assurance that no unit has more rows than this. Intervals then cover the true answer",
    )
