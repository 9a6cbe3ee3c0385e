"""`hush query`: a question in SQL, answered with differential privacy.

    arguments  ->  hush.sql.Table  ->  price, preview or answer  ->  table, CSV or JSON

Standard output has the answer only, so that it can be piped; the guarantee goes to standard error, or into the JSON
object. With ``--budget`` the answer is charged to a ledger before it is shown.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hush.cli.charging import add_charging, budget_of
from hush.cli.declarations import parse_bounds, parse_pair, parse_values
from hush.cli.terminal import table as lay_out
from hush.cli.words import NOISES
from hush.errors import InvalidArgument, Unsupported
from hush.guarantee import CalendarWindow, UserWindow

if TYPE_CHECKING:
    from hush.sql import Preview, QueryAnswer, QueryPrice, Table
    from hush.statistics import GaussianNoise, LaplaceNoise

_NO_ROWS = "no rows: every group has too few units for this epsilon and delta, or HAVING removed it"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help="answer a question in SQL privately",
        description="Answer a question in SQL about a file or a table of personal data, with differential privacy. The "
        "query that the engine runs bounds the contribution of each privacy unit, and only noisy numbers leave it.",
        epilog='Example: hush query people.parquet "SELECT region, COUNT(*) FROM people GROUP BY region" '
        "--unit user_id --keys region=north,south --epsilon 0.5. Instead of --epsilon, you can ask for an accuracy: "
        "--accuracy 0.05 --expected 1000 means within 5 % for a group of about 1000 rows.",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a CSV, Excel or Parquet file, whose name is the table's name in the query; or "
        "postgresql://user@host/database with --table (keep the password in ~/.pgpass)",
    )
    parser.add_argument("sql", metavar="SQL", help="a SELECT with aggregates")
    parser.add_argument("--table", metavar="NAME", help="a table or view of the database; another name for a file")
    parser.add_argument(
        "--unit",
        required=True,
        metavar="COLUMN",
        help="the column that identifies the privacy unit; row, if each row is another person",
    )
    parser.add_argument(
        "--window",
        choices=[window.value for window in CalendarWindow],
        help="protect what a unit does within one such window of the calendar; needs --time",
    )
    parser.add_argument("--time", metavar="COLUMN", help="with --window: the column of dates or times")
    _add_cost(parser)
    _add_declarations(parser)
    parser.add_argument(
        "--price", action="store_true", help="show the cost without asking; with --expected, the expected errors, too"
    )
    parser.add_argument("--preview", action="store_true", help="answer for invented rows, without reading the data")
    parser.add_argument(
        "--noise-intervals",
        action="store_true",
        help="show intervals of the noise alone, which allow for nothing beyond the limits",
    )
    add_charging(parser)
    parser.add_argument(
        "--fresh", action="store_true", help="with --budget: ask again, and pay again, after the data have changed"
    )
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table", help="output format")
    parser.set_defaults(run=run)


def _add_cost(parser: argparse.ArgumentParser) -> None:
    """Add what the answer may cost, or how accurate it should be."""
    group = parser.add_argument_group("what the answer may cost")
    group.add_argument("--epsilon", type=float, help="the privacy budget of the answer (default for --preview: 1)")
    group.add_argument(
        "--accuracy", type=float, metavar="SHARE", help="instead of --epsilon: the relative error that you accept"
    )
    group.add_argument(
        "--expected", type=float, metavar="ROWS", help="with --accuracy or --price: about how many rows a group has"
    )
    group.add_argument("--delta", type=float, default=0.0, help="needed if the groups are not public (default: 0)")
    group.add_argument("--noise", choices=list(NOISES), help="the noise; if omitted, the one with less error")
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
        "--public-table",
        action="append",
        metavar="NAME=FILE",
        help="a public table (in a database: NAME); may be repeated",
    )
    group.add_argument(
        "--groups-per-unit",
        type=int,
        metavar="N",
        help="in how many groups a unit counts (default: chosen privately, on a tenth of epsilon)",
    )
    group.add_argument(
        "--rows-per-unit",
        type=int,
        metavar="K",
        help="how many rows of a unit count in each group (default: a limit for all groups is chosen privately)",
    )
    group.add_argument(
        "--most-rows",
        type=int,
        metavar="K",
        help="a fact: no unit has more rows than this. Intervals then hold for the truth",
    )


def run(options: argparse.Namespace) -> None:
    """Ask, and print the answer."""
    try:
        from hush.sql import MostRows, table
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    if options.price and options.preview:
        raise InvalidArgument("preview", True, "either --preview or --price", "Choose one of them")
    keys = _parse_keys(options.keys or [])
    declared: dict[str, Any] = {
        "name": options.table,
        "unit": _unit(options),
        "bounds": parse_bounds(options.bounds or []),
        "public": dict(_parse_public(text) for text in options.public_table or []),
        "rows_per_unit": None if options.most_rows is None else MostRows(options.most_rows),
    }
    try:
        people = table(options.data, keys=keys, **declared)
    except InvalidArgument:
        # A text column may hold digits, and every column of a CSV file is text.
        texts = {name: [str(value) for value in values] for name, values in keys.items()}
        people = table(options.data, keys=texts, **declared)
    if options.preview:
        _print_answer(_preview(people, options), options.format)
    elif options.price:
        _print_price(people.price(options.sql, **_question(options)), options.format)
    else:
        answer = people.sql(options.sql, **_question(options), budget=budget_of(options), fresh=options.fresh)
        if options.noise_intervals:
            answer = replace(answer, intervals=answer.noise_intervals)
        _print_answer(answer, options.format)


def _unit(options: argparse.Namespace) -> str | UserWindow:
    """Return the unit's column; with ``--window``, a user within each window of the calendar."""
    if (options.window is None) != (options.time is None):
        raise InvalidArgument("window", options.window, "--window LENGTH and --time COLUMN, or neither of them")
    if options.window is None:
        return str(options.unit)
    return UserWindow(options.unit, time=options.time, window=CalendarWindow(options.window))


def _question(options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `Table.sql` and `Table.price`."""
    if options.epsilon is None and options.accuracy is None:
        raise InvalidArgument("epsilon", None, "a positive number", "Give --epsilon, or --accuracy and --expected")
    names = ("epsilon", "delta", "groups_per_unit", "rows_per_unit", "accuracy", "expected", "confidence")
    return {**{name: getattr(options, name) for name in names}, "noise": _noise(options)}


def _noise(options: argparse.Namespace) -> GaussianNoise | LaplaceNoise | None:
    """Return the noise that was named; None lets hush choose."""
    return None if options.noise is None else NOISES[options.noise]()


def _preview(people: Table, options: argparse.Namespace) -> Preview:
    """Answer for invented rows. That costs nothing, so epsilon and delta may be left out; an accuracy sets epsilon."""
    names = ("groups_per_unit", "rows_per_unit", "confidence")
    question: dict[str, Any] = {**{name: getattr(options, name) for name in names}, "noise": _noise(options)}
    if options.epsilon is not None or options.accuracy is not None or options.expected is not None:
        question["epsilon"] = people.price(options.sql, **_question(options)).guarantee.epsilon
        question["delta"] = options.delta
    elif options.delta:
        question["delta"] = options.delta
    return people.preview(options.sql, **question)


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


def _print_price(price: QueryPrice, form: str) -> None:
    """Print what a query would cost."""
    if form == "json":
        content = {"noise": price.noise, "scales": dict(price.scales), "errors": dict(price.errors)}
        print(json.dumps({**content, "limits": price.limits, "guarantee": json.loads(price.guarantee.to_json())}))
        return
    header = ["released for each group", f"scale of {price.noise} noise"]
    if form == "csv":
        _write_csv(header, [[name, scale] for name, scale in price.scales.items()])
        print(price.guarantee, file=sys.stderr)
        return
    print(price.guarantee)
    print("\n".join(price.limits))
    if not price.scales:
        print(
            "The noise depends on limits that are chosen first. To see it, give --rows-per-unit and --groups-per-unit, "
            "and --bounds for columns without any."
        )
        return
    print(lay_out(header, [[name, f"{scale:.4g}"] for name, scale in price.scales.items()]))
    if price.errors:
        print(lay_out(["column", "expected error"], [[name, f"{error:.4g}"] for name, error in price.errors.items()]))


def _print_answer(answer: QueryAnswer | Preview, form: str) -> None:
    """Print an answer on standard output, and what it guarantees on standard error, or in the JSON object."""
    from hush.sql import Preview

    note = answer.note if isinstance(answer, Preview) else "\n".join([*answer.limits, str(answer.guarantee)])
    if form == "json":
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        content: dict[str, Any] = {"rows": rows, "intervals": answer.intervals, "confidence": answer.confidence}
        if isinstance(answer, Preview):
            content["preview"] = note
        else:
            content["noise_intervals"] = answer.noise_intervals
            content["limits"] = list(answer.limits)
            content["guarantee"] = json.loads(answer.guarantee.to_json())
        print(json.dumps(content, default=str))
        return
    if form == "csv":
        _write_csv(*_with_interval_columns(answer))
    else:
        print(lay_out(*_with_interval_texts(answer)))
    if not answer.rows:
        print(_NO_ROWS, file=sys.stderr)
    print(note, file=sys.stderr)


def _write_csv(header: list[str], rows: list[list[Any]]) -> None:
    """Write rows as CSV to standard output."""
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_without_decimals(cell) for cell in row] for row in rows])


def _without_decimals(value: Any) -> Any:
    """Return an integer for a float that is one, as counts are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _with_interval_columns(answer: QueryAnswer | Preview) -> tuple[list[str], list[list[Any]]]:
    """Return header and rows for scripts: two more columns, the ends, after each that has an interval."""
    header = [title for name in answer.columns for title in (name, *_end_titles(name, answer))]
    rows = [
        [cell for name, value in zip(answer.columns, row, strict=True) for cell in (value, *ends.get(name, ()))]
        for row, ends in zip(answer.rows, answer.intervals, strict=True)
    ]
    return header, rows


def _end_titles(name: str, answer: QueryAnswer | Preview) -> list[str]:
    """Return the titles of an interval's ends, which no column of the answer has; none without an interval."""
    if not any(name in ends for ends in answer.intervals):
        return []
    taken = {column.casefold() for column in answer.columns}
    titles = [f"{name}_low", f"{name}_high"]
    while taken.intersection(title.casefold() for title in titles):
        titles = [f"{title}_" for title in titles]
    return titles


def _with_interval_texts(answer: QueryAnswer | Preview) -> tuple[list[str], list[list[str]]]:
    """Return header and rows for people: an interval is one column, next to its number."""
    header = []
    for name in answer.columns:
        header += [name, f"{100 * answer.confidence:.4g} % interval"] if _end_titles(name, answer) else [name]
    rows = []
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        cells = []
        for name, value in zip(answer.columns, row, strict=True):
            cells += [_cell(value), *([" to ".join(map(_cell, ends[name]))] if name in ends else [])]
        rows.append(cells)
    return header, rows


def _cell(value: Any) -> str:
    """Write a cell, with six digits for a float."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)
