"""`hush tune`: a search for hyper-parameters on private data, paid for."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from hush.cli.charging import add_charging, budget_of
from hush.cli.commands.train import (
    ProgressBar,
    add_budget,
    add_model,
    add_transfer,
    check_installed,
    output_of,
    report,
    settings_of,
)
from hush.cli.declarations import add_declarations, add_source
from hush.errors import InvalidArgument

_WHOLE = ("batch_size", "num_steps")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "tune",
        help="search for the best hyper-parameters, with the cost of the search accounted for",
        description="Train a secret, random number of models with settings drawn at random, and write down the best "
        "only. The whole search stays within epsilon (Papernot & Steinke 2022).",
        epilog="Example: hush tune patients.csv --target diagnosis --epsilon 3 --search learning-rate=0.1,0.3,1",
    )
    add_source(parser)
    parser.add_argument("--target", metavar="COLUMN", help="the column to predict")
    parser.add_argument("--epsilon", type=float, help="what the whole search may cost")
    parser.add_argument(
        "--search",
        action="append",
        metavar="NAME=A,B,...",
        help="values to choose from: model, learning-rate, batch-size, epochs, steps, clip-norm or momentum; several "
        "are combined. Without any, learning rates around the default",
    )
    parser.add_argument("--runs", type=float, default=10.0, metavar="MEAN", help="how many models on average (10)")
    add_budget(parser)
    add_declarations(parser)
    add_model(parser)
    add_transfer(parser)
    add_charging(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="RUN", help="the folder to write; runs/NAME-1, -2, ... without it")
    output.add_argument("--quiet", action="store_true", help="show nothing but the result")
    output.add_argument("--json", action="store_true", help="print one object with the result in the last line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Search, and say what came out."""
    check_installed()
    from hush import runs

    progress = ProgressBar(quiet=options.quiet)
    try:
        settings = settings_of(options)
        space = dict(_searched(text) for text in options.search or ())
        place = Path(output_of(options.output, settings.data))
        budget = budget_of(options)
        outcome = runs.tune(settings, space, place, mean_runs=options.runs, progress=progress, budget=budget)
    finally:
        progress.close()
    report(outcome, options)


def _searched(text: str) -> tuple[str, list[Any]]:
    name, found, values = text.partition("=")
    name = {"steps": "num_steps"}.get(name, name.replace("-", "_"))
    parts = [part.strip() for part in values.split(",")]
    if not found or not all(parts):
        raise InvalidArgument("search", text, "NAME=A,B,...")
    if name == "model":
        return name, parts
    try:
        return name, [int(part) if name in _WHOLE else float(part) for part in parts]
    except ValueError:
        raise InvalidArgument("search", text, "NAME=A,B,... with numbers") from None
