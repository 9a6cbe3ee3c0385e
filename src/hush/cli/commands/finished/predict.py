"""`hush predict RUN new.csv`: what a finished model says about new rows or images, as CSV.

Predictions are computed from new data, which the guarantee of the run does not protect; the model is protected already.
So what is written is as sensitive as the new data are.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from typing import Any

from hush.cli.commands.finished.run_folder import add_factory, add_run, check_installed, free_path, write
from hush.data import Schema, written


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "predict",
        help="predict for new rows with a finished model",
        description="Predict with the model of a finished run: one line for each row or image, as CSV. Predictions are "
        "as sensitive as the new data: the run's guarantee protects the data that the model was trained on.",
        epilog="Example: hush predict runs/patients-1 new-patients.csv --output predictions.csv",
    )
    add_run(parser)
    parser.add_argument("data", metavar="DATA", help="new data, with the columns that the run used")
    parser.add_argument(
        "--probabilities", action="store_true", help="also write the probability of each class or label"
    )
    parser.add_argument("--delimiter", metavar="CHAR", help="the column separator of a CSV file")
    add_factory(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Predict, and print or write the predictions."""
    path = None if options.output is None else free_path(options.output)
    check_installed()
    from hush import runs
    from hush.data import open_data

    trained = runs.load(options.folder, factory=options.model)
    data = open_data(options.data, delimiter=options.delimiter)
    text = _as_csv(_lines(trained, data, with_probabilities=options.probabilities))
    if path is None:
        sys.stdout.write(text)
    else:
        write(path, text)
        print(f"Written to {path}: {text.count(chr(10)) - 1:,} predictions", file=sys.stderr)


def _lines(trained: Any, data: Any, *, with_probabilities: bool) -> list[list[str]]:
    """Return the header, and a line for each row."""
    target, labels = trained.schema.target or "label", trained.schema.labels
    predicted = trained.predict(data)
    header = list(labels) if labels else [f"predicted {target}"]
    lines = [
        [str(int(label in item)) for label in labels] if labels else [_text(item, trained.schema)] for item in predicted
    ]
    if with_probabilities:
        header += [f"probability of {name}" for name in trained.classes]
        for line, probabilities in zip(lines, trained.probabilities(data), strict=True):
            line += [f"{value:.6g}" for value in probabilities]
    return [header, *lines]


def _text(value: object, schema: Schema) -> str:
    """Write a prediction: a class, a number, or a date."""
    if schema.target_range is not None and isinstance(value, float):
        return written(schema.target_range, value)
    return str(value)


def _as_csv(lines: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
