"""`hush query`: a question in SQL, answered privately."""

from __future__ import annotations

import argparse
import csv
import json
import sys
from typing import TYPE_CHECKING, Any

from hush.cli.charging import add_charging, budget_of
from hush.cli.declarations import number, pair
from hush.cli.terminal import table as lay_out
from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.sql import Preview, QueryAnswer, QueryPrice, Table
    from hush.statistics import GaussianNoise, LaplaceNoise


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help="answer a question in SQL privately",
        description="Answer a question in SQL about a file or a table of personal data, privately: contributions of "
        "each unit are bounded by the query that the engine runs, and only noisy numbers leave it.",
        epilog='Example: hush query people.parquet "SELECT region, COUNT(*) FROM people GROUP BY region" '
        "--unit user_id --keys region=north,south --epsilon 0.5; or, in place of --epsilon, "
        "--accuracy 0.05 --expected 1000: within 5 % where a group has about 1000 rows",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        help="a Parquet or CSV file, which the query calls by its name; or postgresql://user@host/database, with "
        "--table (a password is better kept in ~/.pgpass)",
    )
    parser.add_argument("sql", metavar="SQL", help="a SELECT with aggregates")
    parser.add_argument("--table", metavar="NAME", help="a table or view of a database; for a file, another name")
    parser.add_argument("--unit", required=True, metavar="COLUMN", help="the column that says whose a row is")
    parser.add_argument("--window", nargs=2, metavar=("TIME", "LENGTH"), help="protect a user within a month, day, ...")
    parser.add_argument("--epsilon", type=float, help="what the answer may cost (of a preview: 1)")
    parser.add_argument("--accuracy", type=float, metavar="SHARE", help="in place of --epsilon: the relative error")
    parser.add_argument("--expected", type=float, metavar="ROWS", help="with --accuracy or --price: rows of a group")
    parser.add_argument("--delta", type=float, default=0.0, help="needed where groups are not public (0)")
    parser.add_argument("--bounds", action="append", metavar="COLUMN=LOW:HIGH", help="the range of values that count")
    parser.add_argument("--keys", action="append", metavar="COLUMN=A,B,...", help="public groups")
    parser.add_argument(
        "--public", action="append", metavar="NAME=FILE", help="a table about nobody (in a database: NAME)"
    )
    parser.add_argument(
        "--groups-per-unit", type=int, default=1, metavar="N", help="groups that a unit takes part in (1)"
    )
    parser.add_argument(
        "--rows-per-unit", type=int, default=1, metavar="N", help="rows of a unit in a group that count (1)"
    )
    parser.add_argument("--noise", choices=["laplace", "gaussian"], help="unless given, the one with the smaller error")
    parser.add_argument("--confidence", type=float, default=0.95, help="of --accuracy and of intervals (0.95)")
    parser.add_argument(
        "--price", action="store_true", help="tell what it would cost (and with --expected, what errors it has)"
    )
    parser.add_argument("--preview", action="store_true", help="show the answer for invented rows, and look at no data")
    add_charging(parser)
    parser.add_argument("--fresh", action="store_true", help="with --budget: ask again, and pay again, after a change")
    parser.add_argument("--format", choices=["table", "csv", "json"], default="table", help="of the answer")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Ask, and print the answer."""
    try:
        from hush.sql import table
    except ImportError as error:
        raise Unsupported(f"queries need {error.name}, which is not installed", "pip install 'hush[sql]'") from None
    unit = options.unit if options.window is None else (options.unit, *options.window)
    bounds, keys = _bounds(options.bounds or []), _keys(options.keys or [])
    public = dict(_public(each) for each in options.public or [])
    about: dict[str, Any] = {"name": options.table, "unit": unit, "bounds": bounds, "public": public}
    try:
        people = table(options.data, keys=keys, **about)
    except InvalidArgument:
        # A column of text may hold digits, and those of a CSV file are all text.
        texts = {name: [str(value) for value in values] for name, values in keys.items()}
        people = table(options.data, keys=texts, **about)
    if options.price and options.preview:
        raise InvalidArgument("preview", True, "nothing, where --price is given", "Leave one of both out")
    if options.preview:
        _print_answer(_preview(people, options), options.format)
    elif options.price:
        _print_price(people.price(options.sql, **_asked(options)), options.format)
    else:
        answer = people.sql(options.sql, **_asked(options), budget=budget_of(options), fresh=options.fresh)
        _print_answer(answer, options.format)


def _asked(options: argparse.Namespace) -> dict[str, Any]:
    if options.epsilon is None and options.accuracy is None:
        raise InvalidArgument(
            "epsilon", None, "a positive number", "Give --epsilon, or --accuracy and --expected instead of it"
        )
    names = ("epsilon", "delta", "groups_per_unit", "rows_per_unit", "accuracy", "expected", "confidence")
    return {**{name: getattr(options, name) for name in names}, "noise": _noise(options.noise)}


def _noise(name: str | None) -> GaussianNoise | LaplaceNoise | None:
    from hush.statistics import GaussianNoise, LaplaceNoise

    if name is None:
        return None
    return LaplaceNoise() if name == "laplace" else GaussianNoise()


def _preview(people: Table, options: argparse.Namespace) -> Preview:
    """Ask invented rows. It costs nothing, so epsilon and delta may be left out; an accuracy is what sets them."""
    names = ("groups_per_unit", "rows_per_unit", "confidence")
    asked: dict[str, Any] = {**{name: getattr(options, name) for name in names}, "noise": _noise(options.noise)}
    if options.epsilon is not None or options.accuracy is not None or options.expected is not None:
        asked["epsilon"] = people.price(options.sql, **_asked(options)).guarantee.epsilon
        asked["delta"] = options.delta
    elif options.delta:
        asked["delta"] = options.delta
    return people.preview(options.sql, **asked)


def _public(text: str) -> tuple[str, str | None]:
    """Return a public table's name and file; a database has it under its name."""
    return pair("public", text, "NAME=FILE") if "=" in text else (text, None)


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


def _print_price(price: QueryPrice, form: str) -> None:
    if form == "json":
        told = {"noise": price.noise, "scales": dict(price.scales), "errors": dict(price.errors)}
        print(json.dumps({**told, "guarantee": json.loads(price.guarantee.to_json())}))
        return
    rows = [[name, f"{scale:.4g}"] for name, scale in price.scales.items()]
    header = ["released for each group", f"scale of {price.noise} noise"]
    if form == "csv":
        _write_csv(header, [[name, scale] for name, scale in price.scales.items()])
        print(price.guarantee, file=sys.stderr)
    else:
        print(price.guarantee)
        print(lay_out(header, rows))
        if price.errors:
            print(lay_out(["column", "expected error"], [[name, f"{off:.4g}"] for name, off in price.errors.items()]))


def _print_answer(answer: QueryAnswer | Preview, form: str) -> None:
    from hush.sql import Preview

    note = answer.note if isinstance(answer, Preview) else str(answer.guarantee)
    if form == "json":
        told = (
            {"preview": note} if isinstance(answer, Preview) else {"guarantee": json.loads(answer.guarantee.to_json())}
        )
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        found = {"rows": rows, "intervals": answer.intervals, "confidence": answer.confidence, **told}
        print(json.dumps(found, default=str))
        return
    if form == "csv":
        _write_csv(*_with_ends(answer))
    else:
        print(lay_out(*_with_spans(answer)))
    if not answer.rows:
        print(
            "no rows: no group was told (each has too few units for this epsilon and delta), or HAVING", file=sys.stderr
        )
    print(note, file=sys.stderr)


def _write_csv(header: list[str], rows: list[list[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[_whole(cell) for cell in row] for row in rows])


def _whole(value: Any) -> Any:
    """Return a whole number without its decimals, as counts are."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def _with_ends(answer: QueryAnswer | Preview) -> tuple[list[str], list[list[Any]]]:
    """Return the answer with two more columns behind each that has an interval, its ends."""
    header = [title for name in answer.columns for title in (name, *_ends_of(name, answer))]
    rows = [
        [cell for name, value in zip(answer.columns, row, strict=True) for cell in (value, *ends.get(name, ()))]
        for row, ends in zip(answer.rows, answer.intervals, strict=True)
    ]
    return header, rows


def _ends_of(name: str, answer: QueryAnswer | Preview) -> list[str]:
    if not any(name in ends for ends in answer.intervals):
        return []
    taken = {column.casefold() for column in answer.columns}
    titles = [f"{name}_low", f"{name}_high"]
    while taken.intersection(title.casefold() for title in titles):
        titles = [f"{title}_" for title in titles]
    return titles


def _with_spans(answer: QueryAnswer | Preview) -> tuple[list[str], list[list[str]]]:
    """Return the same for people: an interval is one column, beside its number."""
    header = []
    for name in answer.columns:
        header += [name, f"{100 * answer.confidence:.4g} % interval"] if _ends_of(name, answer) else [name]
    rows = []
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        cells = []
        for name, value in zip(answer.columns, row, strict=True):
            cells += [_cell(value), *([" to ".join(map(_cell, ends[name]))] if name in ends else [])]
        rows.append(cells)
    return header, rows


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
