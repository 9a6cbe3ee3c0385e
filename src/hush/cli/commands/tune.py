"""`hush tune`: a private search for hyper-parameters, whose whole cost is accounted for.

It has the settings of `hush train`, and ``--search NAME=A,B,...`` for each setting that varies. Which settings may
vary is declared with them, in `hush.runs.Settings`.
"""

from __future__ import annotations

import argparse
from typing import Any

from hush.cli.charging import add_charging, budget_of, note_uncharged
from hush.cli.outcomes import add_output, check_installed, output_folder, print_outcome
from hush.cli.settings import add_settings, settings_of
from hush.cli.terminal import TerminalProgress
from hush.errors import InvalidArgument
from hush.runs import Option, Settings, options_of


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "tune",
        help="search for hyper-parameters privately; write the best model",
        description="Train a secret, random number of models with settings drawn at random, and write only the best. "
        "The whole search stays within epsilon (Papernot & Steinke 2022).",
        epilog="Example: hush tune patients.csv --target diagnosis --epsilon 3 --search learning-rate=0.1,0.3,1",
    )
    add_settings(parser, "tune")
    search = parser.add_argument_group("the search")
    search.add_argument(
        "--search",
        action="append",
        metavar="NAME=A,B,...",
        help=f"the values to try, for {', '.join(_searchable())}; may be repeated to combine settings; if omitted, "
        "learning rates around the default",
    )
    search.add_argument(
        "--runs", type=float, default=10.0, metavar="MEAN", help="how many models to train, on average (default: 10)"
    )
    add_charging(parser)
    add_output(parser.add_argument_group("output"))
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Search, and print the result."""
    check_installed()
    from hush import runs

    progress = TerminalProgress(quiet=options.quiet)
    try:
        settings = settings_of(options)
        space = dict(parse_search(text) for text in options.search or ())
        folder = output_folder(options.output, settings.data)
        budget = budget_of(options)
        note_uncharged(budget)
        outcome = runs.tune(settings, space, folder, mean_runs=options.runs, progress=progress, budget=budget)
    finally:
        progress.close()
    print_outcome(outcome, options)


def _searchable() -> dict[str, Option]:
    """Return the settings that can be searched, by their flag without dashes."""
    return {item.flag.lstrip("-"): item for item in options_of(Settings, "tune") if item.searchable}


def parse_search(text: str) -> tuple[str, list[Any]]:
    """Return the setting that ``NAME=A,B,...`` names, and its values.

    >>> parse_search("num-steps=100,200"), parse_search("model=softmax,mlp")
    (('num_steps', [100, 200]), ('model', ['softmax', 'mlp']))
    """
    flag, _, values = text.partition("=")
    options = _searchable()
    by_name = {item.name.replace("_", "-"): item for item in options.values()}
    item = options.get(flag) or by_name.get(flag)
    if item is None:
        raise InvalidArgument("search", text, f"NAME=A,B,... with a NAME out of {', '.join(options)}")
    words = [word.strip() for word in values.split(",")]
    if not all(words):
        raise InvalidArgument("search", text, "NAME=A,B,...")
    try:
        return item.name, [item.type(word) for word in words]
    except ValueError:
        raise InvalidArgument("search", text, "NAME=A,B,... with numbers") from None
