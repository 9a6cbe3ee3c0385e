"""The output of `hush query`: prices and answers, for people, as CSV or as JSON.

Standard output has the answer only, so that it can be piped; its guarantee goes to standard error, or into the
JSON object.
"""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hush.cli.terminal import table as lay_out
from hush.cli.terminal import wrapped

if TYPE_CHECKING:
    from hush.sql import Preview, QueryAnswer, QueryPrice

_NO_ROWS = "no rows: every group has too few units for this epsilon and delta, or HAVING removed it"
_MOST_LINES = 2  # of assumptions


def print_price(price: QueryPrice, form: str) -> None:
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
    for line in (str(price.guarantee), *price.limits):
        print(wrapped(line))
    if not price.scales:
        flags = "--rows-per-unit and --groups-per-unit (in the shell, \\limits), and --bounds for columns without any"
        print(wrapped(f"The noise depends on limits that are chosen first. To see it, give {flags}."))
        return
    print(lay_out(header, [[name, f"{scale:.4g}"] for name, scale in price.scales.items()]))
    if price.errors:
        print(lay_out(["column", "expected error"], [[name, f"{error:.4g}"] for name, error in price.errors.items()]))


def print_answer(answer: QueryAnswer | Preview, form: str, *, noise_intervals: bool = False) -> None:
    """Print an answer on standard output, and its guarantee on standard error or in the JSON object.

    Args:
        answer: The answer.
        form: table, csv or json.
        noise_intervals: Whether to show the intervals of the noise alone, which previews do not have.
    """
    from hush.sql import Preview, named_columns

    if noise_intervals and not isinstance(answer, Preview):
        answer = replace(answer, intervals=answer.noise_intervals)
    if form == "json":
        print(json.dumps(_json_object(answer), default=str))
        return
    if form == "csv":
        columns = named_columns(answer, intervals=True)
        rows = list(zip(*(values for _, values in columns), strict=True)) if answer.rows else []
        _write_csv([title for title, _ in columns], [list(row) for row in rows])
    else:
        print(lay_out(*_with_interval_texts(answer)))
    if not answer.rows:
        print(_NO_ROWS, file=sys.stderr)
    for line in [answer.note] if isinstance(answer, Preview) else answer.notes():
        print(wrapped(line), file=sys.stderr)
    if not isinstance(answer, Preview) and answer.guarantee.assumptions:
        assumed = f"This assumes that {'; that '.join(answer.guarantee.assumptions)}."
        print(wrapped(assumed, most_lines=_MOST_LINES, rest="... (--format json has all)"), file=sys.stderr)


def _json_object(answer: QueryAnswer | Preview) -> dict[str, Any]:
    """Return an answer for scripts."""
    from hush.sql import Preview, without_decimals

    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]

    def as_shown(intervals: list[dict[str, tuple[float, float]]]) -> list[dict[str, Any]]:
        """Return intervals; those of counts are integers, too."""
        return [
            {
                name: list(map(without_decimals, pair)) if isinstance(row[name], int) else pair
                for name, pair in ends.items()
            }
            for row, ends in zip(rows, intervals, strict=True)
        ]

    intervals = as_shown(answer.intervals)
    content: dict[str, Any] = {"rows": rows, "intervals": intervals, "confidence": answer.confidence}
    if isinstance(answer, Preview):
        return {**content, "preview": answer.note}
    answered = None if answer.answered is None else answer.answered.isoformat()
    guarantee = json.loads(answer.guarantee.to_json())
    limits = list(answer.limits)
    if answer.receipt is not None:
        content["charged"] = answer.receipt.to_dict()
    content["noise_intervals"] = as_shown(answer.noise_intervals) if answer.noise_intervals else []
    return {**content, "limits": limits, "guarantee": guarantee, "answered": answered, "replayed": answer.replayed}


def _write_csv(header: list[str], rows: list[list[Any]]) -> None:
    """Write rows as CSV to standard output."""
    from hush.sql import without_decimals

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([[without_decimals(cell) for cell in row] for row in rows])


def _with_interval_texts(answer: QueryAnswer | Preview) -> tuple[list[str], list[list[str]]]:
    """Return header and rows for people: an interval is one column, next to its number."""
    from hush.sql import end_titles, written

    header = []
    for name in answer.columns:
        header += [name, f"{100 * answer.confidence:.4g} % interval"] if end_titles(name, answer) else [name]
    rows = []
    for row, ends in zip(answer.rows, answer.intervals, strict=True):
        cells = []
        for name, value in zip(answer.columns, row, strict=True):
            cells += [written(value), *([" to ".join(map(written, ends[name]))] if name in ends else [])]
        rows.append(cells)
    return header, rows
