"""`hush train`: from a file of personal data to a private model and a report.

    arguments  ->  Settings (hush.cli.settings)  ->  hush.runs.train or resume  ->  Outcome  ->  hush.cli.outcomes

Nothing is computed here. `hush.runs.train` states the guarantee; this command checks that the packages for training
are installed, names the folder and prints the result.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from hush.cli.charging import add_charging, address, budget_at, budget_of, note_uncharged
from hush.cli.outcomes import add_output, check_installed, output_folder, print_outcome
from hush.cli.settings import add_settings, given_flags, settings_of
from hush.cli.terminal import TerminalProgress
from hush.errors import InvalidArgument

_USUAL_EPSILON = "3"
# What may be given with --resume; everything else is as it was when the run was started.
_RESUMABLE = ("command", "run", "resume", "quiet", "json", "device", "budget", "db", "model")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a private model; write it with its guarantee and a report",
        description="Train a model on personal data with differential privacy. hush uses only what you declare about "
        "the data, and what it learns privately. The result is a folder with the model, its guarantee and a report.",
        epilog="Example: hush train patients.csv --target diagnosis --unit patient --epsilon 3",
    )
    groups = add_settings(parser, "train", data_is_optional=True)
    add_charging(parser)
    add_output(groups["output"])
    groups["output"].add_argument("--resume", metavar="RUN", help="continue an interrupted run, as it began")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Train, or continue, and print the result."""
    check_installed()
    from hush import runs

    progress = TerminalProgress(quiet=options.quiet)
    try:
        if options.resume is not None:
            _refuse_settings(options)
            run_folder = Path(options.resume)
            budget = budget_at(runs.charged_to(run_folder), options)
            outcome = runs.resume(
                run_folder, progress=progress, device=options.device, budget=budget, factory=options.model
            )
        else:
            budget = budget_of(options)
            note_uncharged(budget)
            _ask_for_epsilon(options)
            settings = settings_of(options)
            folder = output_folder(options.output, settings.data)
            outcome = runs.train(settings, folder, progress=progress, budget=budget, charged_to=address(budget))
    finally:
        progress.close()
    print_outcome(outcome, options)


def _ask_for_epsilon(options: argparse.Namespace) -> None:
    """Ask for an epsilon together with all else that is missing, instead of one after the other."""
    if options.epsilon is not None or options.data is None:
        return
    from hush.data import OpenQuestions, Question
    from hush.runs import questions_about

    text = f"--epsilon, the privacy budget, is missing: 1 to {_USUAL_EPSILON} is usual, and less protects more"
    missing = Question(text=text, add=("--epsilon", _USUAL_EPSILON))
    raise OpenQuestions([missing, *questions_about(settings_of(options, epsilon=float(_USUAL_EPSILON)))])


def _refuse_settings(options: argparse.Namespace) -> None:
    """Refuse settings with ``--resume``, instead of ignoring them."""
    for name, flag in given_flags(options).items():
        if name not in _RESUMABLE:
            raise InvalidArgument(
                "resume", options.resume, f"no {flag} with --resume", "A run continues with the settings it began with"
            )
