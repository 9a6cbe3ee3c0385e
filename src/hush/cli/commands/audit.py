"""`hush audit`: what an attack shows, beside what was promised."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_delta
from hush.guarantee import Guarantee

_MEMBER = {"true": True, "yes": True, "in": True, "false": False, "no": False, "out": False}
_RULES = ("bonferroni", "split", "multi-split")
_OF_SCORES = ("delta", "epsilon", "method", "threshold", "one_run")
_SECONDS = 60.0
_VIOLATED = 3  # exit status


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="attack a run, or judge an attack's scores: a lower bound on epsilon",
        description="Put a number under the promise. RUN is the folder of a finished hush train: hush trains it again "
        "with canaries, attacks the models, and adds what it finds to the run's report. A CSV file with the columns "
        "score and member (1 or 0; higher scores mean members) is judged as it is. Exit status 3 means that a claim is "
        "contradicted.",
        epilog="Example: hush audit runs/people-1 --seconds 120; hush audit scores.csv --delta 1e-5 --json",
    )
    parser.add_argument("what", metavar="RUN|SCORES.csv", help="a run's folder, or a file of scores")
    parser.add_argument("--delta", type=float, help="of a file of scores (0); a run has its own")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bound (0.95)")
    parser.add_argument("--epsilon", type=float, help="the claim that a file of scores is compared with")
    methods = parser.add_mutually_exclusive_group()
    methods.add_argument("--method", choices=["clopper-pearson", "gaussian"], help="of a file (clopper-pearson)")
    methods.add_argument(
        "--one-run",
        action="store_true",
        default=None,
        help="the file has one model's canaries, each included by a fair coin, in an order that no coin decided",
    )
    parser.add_argument(
        "--threshold",
        metavar="NUMBER|RULE",
        help=f"of a file: one fixed before the scores were seen, or a rule: {', '.join(_RULES)} (bonferroni)",
    )
    parser.add_argument("--seconds", type=float, help=f"time to train models again, for a run ({_SECONDS:g})")
    parser.add_argument("--quiet", action="store_true", help="show nothing but the result")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, and print what was found; return 3 if that contradicts the claim."""
    place = Path(options.what)
    if place.is_dir():
        return _run_folder(place, options)
    if not place.is_file():
        raise InvalidArgument("what", options.what, "the folder of a run, or a file of scores")
    return _scores(place, options)


def _scores(place: Path, options: argparse.Namespace) -> int:
    from hush.audit import ClopperPearson, GaussianDP, audit_one_run, audit_scores

    if options.seconds is not None:
        raise InvalidArgument("--seconds", options.seconds, "nothing beside a file of scores", "No model is trained")
    delta = check_delta("--delta", 0.0 if options.delta is None else options.delta)
    if options.method == "gaussian" and not delta > 0:
        raise InvalidArgument("--delta", delta, "a number in (0, 1) for --method gaussian", "At 0 it has no epsilon")
    scores, member = read_scores(place)
    rule, settings = _rule(options.threshold), {"delta": delta, "confidence": options.confidence}
    if options.one_run:
        found = audit_one_run(scores, member, threshold=rule, **settings)
    else:
        method = GaussianDP() if options.method == "gaussian" else ClopperPearson()
        found = audit_scores(scores[member], scores[~member], method=method, threshold=rule, **settings)
    return _print(found, None if options.epsilon is None else found.compare(options.epsilon), options)


def _rule(text: str | None) -> Any:
    """Return the threshold rule of that name, or the threshold itself."""
    from hush.audit import Bonferroni, Explicit, MultiSplit, SplitScores

    if text is None:
        return None
    named = dict(zip(_RULES, (Bonferroni, SplitScores, MultiSplit), strict=True))
    if text in named:
        return named[text]()
    try:
        return Explicit(float(text))
    except (ValueError, InvalidArgument):
        raise InvalidArgument("--threshold", text, f"a number, or one of {', '.join(_RULES)}") from None


def _run_folder(place: Path, options: argparse.Namespace) -> int:
    for name in _OF_SCORES:
        if getattr(options, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise InvalidArgument(option, getattr(options, name), "nothing beside a run, which has made its own claim")
    from hush.cli.commands.train import ProgressBar, check_installed

    check_installed()
    from hush import runs

    seconds = _SECONDS if options.seconds is None else options.seconds
    progress = ProgressBar(quiet=options.quiet)
    try:
        found = runs.audit(place, seconds=seconds, confidence=options.confidence, progress=progress)
    finally:
        progress.close()
    claimed = Guarantee.from_json((place / "guarantee.json").read_text(encoding="utf-8"))
    status = _print(found, found.compare(claimed), options)
    if not options.json:
        print(f"Written to {place}: open {place / 'report.html'}")
    return status


def _print(found: Any, comparison: Any, options: argparse.Namespace) -> int:
    """Print what was found; return the exit status."""
    status = _VIOLATED if comparison is not None and comparison.violated else 0
    if options.json:
        content = json.loads(found.to_json())
        if comparison is not None:
            content |= {"claimed_epsilon": comparison.claimed.epsilon, "verdict": comparison.verdict.value}
        print(json.dumps(content, allow_nan=False))
        return status
    print(found)
    if "epsilon_at_best" in found.details:
        print(f"With so many canaries, {found.details['epsilon_at_best']:.3g} is the most that could have been shown.")
    if comparison is not None:
        print(comparison)
    for assumption in found.assumptions:
        print(f"Assumed: {assumption}.")
    return status


def read_scores(place: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return scores, and whose are members', from a CSV file with the columns score and member, in its order."""
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, skipinitialspace=True)
            names = [name.strip() for name in next(reader, [])]
            columns = [_column(names, name, place) for name in ("score", "member")]
            rows = [(line, [_cell(row, column) for column in columns]) for line, row in enumerate(reader, 2) if row]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("scores", str(place), "a readable CSV file", str(error)) from None
    scores = np.array([_score(row[0], line) for line, row in rows], dtype=np.float64)
    return scores, np.array([_member(row[1], line) for line, row in rows], dtype=np.bool_)


def _column(names: list[str], name: str, place: Path) -> int:
    missing = sorted({"score", "member"} - set(names))
    if missing:
        raise InvalidArgument("scores", str(place), f"a column named {' and '.join(missing)}")
    if names.count(name) > 1:
        raise InvalidArgument("scores", str(place), f"one column named {name}, not {names.count(name)}")
    return names.index(name)


def _cell(row: list[str], column: int) -> str | None:
    return row[column] if column < len(row) else None


def _member(text: str | None, line: int) -> bool:
    given = (text or "").strip().lower()
    if given in _MEMBER:
        return _MEMBER[given]
    try:
        return {1.0: True, 0.0: False}[float(given)]
    except (ValueError, KeyError):
        raise InvalidArgument("member", text, f"1 or 0 in line {line}") from None


def _score(text: str | None, line: int) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidArgument("score", text, f"a number in line {line}") from None
