"""`hush train`: from a file of personal data to a private model and a report."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from hush.cli.charging import add_charging, budget_of
from hush.cli.declarations import add_declarations, add_source, declared
from hush.cli.terminal import bar
from hush.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hush.runs import Outcome, Settings

_ALONE = ("resume", "quiet", "json", "device", "budget", "db")  # what may be said beside --resume


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "train",
        help="train a model privately, and write it down with its guarantee and a report",
        description="Train a model on personal data, privately. Nothing about the data is used that was not declared "
        "or learned privately. The result is a folder with the model, its guarantee and a report.",
        epilog="Example: hush train patients.csv --target diagnosis --unit patient --epsilon 3",
    )
    add_source(parser, optional=True)
    parser.add_argument("--target", metavar="COLUMN", help="the column to predict")
    parser.add_argument("--epsilon", type=float, help="what the whole run may cost")
    add_budget(parser)
    add_declarations(parser)
    add_model(parser)
    add_transfer(parser)
    add_charging(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--output", metavar="RUN", help="the folder to write; runs/NAME-1, -2, ... without it")
    output.add_argument("--resume", metavar="RUN", help="go on with a run that was interrupted")
    output.add_argument("--quiet", action="store_true", help="show nothing but the result")
    output.add_argument("--json", action="store_true", help="print one object with the result in the last line")
    output.add_argument("--tensorboard", action="store_true", help="write scalars for TensorBoard into the run, too")
    parser.set_defaults(run=run)


def add_budget(parser: argparse.ArgumentParser) -> None:
    """Add what is protected, and how the budget is shared."""
    group = parser.add_argument_group("what is protected")
    group.add_argument("--delta", type=float, help="1e-5 without it, or less where there are more people")
    group.add_argument(
        "--unit", metavar="COLUMN", help="the column that says whose a row is; without it, rows are alone"
    )
    group.add_argument("--rows-per-unit", type=int, metavar="K", help="rows of one unit in a step at most (4)")
    group.add_argument("--holdout", type=float, metavar="SHARE", help="of units, held out to measure with (0.1)")
    group.add_argument(
        "--learn-share", type=float, metavar="SHARE", help="of the budget, to learn what is not declared (0.1)"
    )


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the model and how it is trained."""
    group = parser.add_argument_group("the model")
    group.add_argument(
        "--model",
        metavar="MODEL",
        help="softmax, mlp, cnn, scattering, or MODULE:FACTORY (called with the shape of an input and the number of "
        "classes); without it, scattering for images and softmax for tables",
    )
    group.add_argument("--epochs", type=float, help="how often each row is seen, on average (40)")
    group.add_argument("--steps", type=int, dest="num_steps", help="or how many steps are taken")
    group.add_argument("--batch-size", type=int, metavar="B", help="rows, or units, in a step on average")
    group.add_argument("--learning-rate", type=float, metavar="RATE", help="of SGD")
    group.add_argument("--momentum", type=float, help="of SGD (0.9)")
    group.add_argument("--clip-norm", type=float, metavar="C", help="clip at this norm instead of automatically")
    group.add_argument("--no-averaging", action="store_true", help="take the last weights, not their moving average")
    group.add_argument("--seed", type=int, help="of the starting weights, which are public (0)")
    group.add_argument("--device", help="such as cpu or cuda")


def add_transfer(parser: argparse.ArgumentParser) -> None:
    """Add how to start from a model that was trained on public data."""
    group = parser.add_argument_group("starting from a public model")
    group.add_argument("--start", metavar="FILE", help="a safetensors file with the weights of a public model")
    group.add_argument("--public", metavar="WHY", help="which data it was trained on, and why they are public")
    group.add_argument("--replace-head", action="store_true", help="begin with a new last layer")
    group.add_argument("--train-only", action="append", metavar="NAME", help="train these parameters or layers only")
    group.add_argument("--lora", type=int, metavar="RANK", help="train products of this rank beside frozen layers")


def run(options: argparse.Namespace) -> None:
    """Train, or go on, and say what came out."""
    check_installed()
    from hush import runs

    progress = ProgressBar(quiet=options.quiet)
    budget = budget_of(options)
    try:
        if options.resume is not None:
            _refuse_more(options)
            outcome = runs.resume(Path(options.resume), progress=progress, device=options.device, budget=budget)
        else:
            settings = settings_of(options)
            output = output_of(options.output, settings.data)
            outcome = runs.train(settings, output, progress=progress, budget=budget)
    finally:
        progress.close()
    report(outcome, options)


def settings_of(options: argparse.Namespace) -> Settings:
    """Return what the options say, with defaults for the rest."""
    from hush.runs import Settings

    if options.data is None:
        raise InvalidArgument("data", None, "a file, a folder or the name of a known data set")
    if options.epsilon is None:
        raise InvalidArgument("epsilon", None, "a number > 0", "Say how much the run may cost: --epsilon 3")
    names = (
        "data", "epsilon", "target", "delta", "model", "unit", "rows_per_unit", "holdout", "learn_share", "epochs",
        "num_steps", "batch_size", "learning_rate", "momentum", "clip_norm", "seed", "device", "data_dir", "delimiter",
        "start", "public", "lora",
    )  # fmt: skip
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    return Settings(
        **given,
        groups=tuple(options.group or ()),
        schema=declared(options),
        averaging=not options.no_averaging,
        train_only=tuple(options.train_only or ()),
        replace_head=options.replace_head,
        download=not options.no_download,
        tensorboard=getattr(options, "tensorboard", False),
    )


def report(outcome: Outcome, options: argparse.Namespace) -> None:
    """Print what came out: for a person, or one object."""
    claim = outcome.guarantee
    if options.json:
        found = {
            "accuracy": outcome.accuracy,
            "epsilon": claim.epsilon,
            "delta": claim.delta,
            "noise_multiplier": outcome.noise_multiplier,
            "run": str(outcome.path),
        }
        print(json.dumps(found))
        return
    if outcome.accuracy is not None:
        print(f"Accuracy on those held out: {outcome.accuracy:.1%}")
    elif (outcome.path / "figures.json").exists():
        print(
            "Accuracy on those held out: not told. Too few of them have one of the classes to stand out of the noise."
        )
    print(claim if options.quiet else f"\n{claim.explain()}\n")
    print(f"Written to {outcome.path}: open {outcome.path / 'report.html'}")


def check_installed() -> None:
    """Refuse, in one line, where the packages for training are missing."""
    try:
        import safetensors  # noqa: F401  # the model is written with it, when all is done

        import hush.runs  # noqa: F401
    except ImportError as error:
        missing = error.name or "a package"
        raise Unsupported(f"training needs {missing}, which is not installed", "pip install 'hush[train]'") from None


def _refuse_more(options: argparse.Namespace) -> None:
    """A run goes on as it began: what else is said beside --resume would be ignored."""
    for name, value in vars(options).items():
        if name not in (*_ALONE, "command", "run") and value is not None and value is not False:
            flag = "DATA" if name == "data" else "--" + name.replace("_", "-")
            raise InvalidArgument("resume", options.resume, f"no {flag} beside it", "A run goes on as it began")


def output_of(given: str | None, data: str) -> Path:
    """Return the folder to write: what was said, or the next free one of this name."""
    if given is not None:
        return Path(given)
    name = Path(data).name.split(".")[0] or "run"
    number = 1
    while (place := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return place


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError):  # a terminal that is none
        return 80


class ProgressBar:
    """Progress on standard error: a bar on a terminal, else a line for each stage."""

    def __init__(self, *, quiet: bool) -> None:
        """Begin."""
        self._quiet, self._terminal = quiet, sys.stderr.isatty()
        self._stage, self._since, self._drawn, self._width = "", 0.0, 0.0, 0

    def say(self, line: str) -> None:
        """Show a line."""
        self._clear()
        if not self._quiet:
            print(line, file=sys.stderr, flush=True)

    def show(self, stage: str, done: int, total: int, note: str = "") -> None:
        """Draw the bar again, ten times a second at most."""
        if self._quiet:
            return
        now = time.monotonic()
        if stage != self._stage:
            self._clear()
            self._stage, self._since, self._drawn = stage, now, 0.0
            if not self._terminal:
                print(f"{stage} ...", file=sys.stderr, flush=True)
        if not self._terminal or (now - self._drawn < 0.1 and done < total):
            return
        self._drawn = now
        left = (now - self._since) / done * (total - done) if done else 0.0
        ends = f"{done}/{total}" + (f"  {note}" if note else "") + (f"  {left:.0f} s left" if left >= 1 else "")
        line = f"{stage} {bar(done / total, 24):<24} {ends}"
        line = line[: max(_columns() - 1, 20)]
        print("\r" + line.ljust(self._width), end="", file=sys.stderr, flush=True)
        self._width = len(line)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._clear()

    def _clear(self) -> None:
        if self._width:
            print("\r" + " " * self._width + "\r", end="", file=sys.stderr, flush=True)
            self._width = 0
