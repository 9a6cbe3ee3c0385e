"""`hush query`: a question in SQL, answered privately."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import TYPE_CHECKING, Any

from hush.cli._declared import number, pair
from hush.cli._terminal import table as lay_out
from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.statistics.sql import QueryAnswer


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help="answer a question in SQL privately",
        description="Answer a question in SQL about a file of personal data, privately: contributions of each unit are "
        "bounded by the query that the engine runs, and only noisy numbers leave it.",
        epilog='Example: hush query people.parquet "SELECT region, COUNT(*) FROM people GROUP BY region" '
        "--unit user_id --keys region=north,south --epsilon 0.5",
    )
    parser.add_argument("data", metavar="DATA", help="a Parquet or CSV file; the query calls it by its name")
    parser.add_argument("sql", metavar="SQL", help="a SELECT with aggregates")
    parser.add_argument("--unit", required=True, metavar="COLUMN", help="the column that says whose a row is")
    parser.add_argument("--window", nargs=2, metavar=("TIME", "LENGTH"), help="protect a user within a month, day, ...")
    parser.add_argument("--epsilon", type=float, required=True, help="what the answer may cost")
    parser.add_argument("--delta", type=float, default=0.0, help="needed where groups are not public (0)")
    parser.add_argument("--bounds", action="append", metavar="COLUMN=LOW:HIGH", help="the range of values that count")
    parser.add_argument("--keys", action="append", metavar="COLUMN=A,B,...", help="public groups")
    parser.add_argument("--max-groups", type=int, default=1, metavar="N", help="groups that a unit takes part in (1)")
    parser.add_argument("--max-rows", type=int, default=1, metavar="N", help="rows of a unit in a group that count (1)")
    parser.add_argument("--price", action="store_true", help="tell what it would cost, and look at no data")
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table", help="of the answer")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ask, and print the answer."""
    try:
        from hush.statistics.sql import table
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    unit = options.unit if options.window is None else (options.unit, *options.window)
    bounds, keys = _bounds(options.bounds or []), _keys(options.keys or [])
    try:
        people = table(options.data, unit=unit, bounds=bounds, keys=keys)
    except InvalidArgument:
        # A column of text may hold digits, and those of a CSV file are all text.
        texts = {name: [str(value) for value in values] for name, values in keys.items()}
        people = table(options.data, unit=unit, bounds=bounds, keys=texts)
    asked: dict[str, Any] = {
        "epsilon": options.epsilon,
        "delta": options.delta,
        "max_groups": options.max_groups,
        "max_rows": options.max_rows,
    }
    if options.price:
        price = people.price(options.sql, **asked)
        print(price.guarantee)
        print(lay_out(["released for each group", f"scale of {price.noise} noise"], _scales(price.scales)))
        return
    _print(people.sql(options.sql, **asked), options.format)


def _bounds(texts: list[str]) -> dict[str, tuple[float, float]]:
    found = {}
    for text in texts:
        name, given = pair("bounds", text, "COLUMN=LOW:HIGH")
        low, _, high = given.partition(":")
        found[name] = number("bounds", text, low), number("bounds", text, high)
    return found


def _keys(texts: list[str]) -> dict[str, list[str | int | float]]:
    found = {}
    for text in texts:
        name, given = pair("keys", text, "COLUMN=A,B,...")
        found[name] = [_key(value.strip()) for value in given.split(",")]
    return found


def _key(text: str) -> str | int | float:
    """Return a number if it is one: columns of a Parquet file have types."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if not text:
        raise InvalidArgument("keys", text, "values with commas between them")
    return text


def _print(answer: QueryAnswer, form: str) -> None:
    if form == "json":
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        print(json.dumps({"rows": rows, "guarantee": json.loads(answer.guarantee.to_json())}, default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout)
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        print(lay_out(list(answer.columns), [[_cell(value) for value in row] for row in answer.rows]))
        print(answer.guarantee, file=sys.stderr)


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _scales(scales: Any) -> list[list[str]]:
    return [[name, f"{scale:.4g}"] for name, scale in scales.items()]
