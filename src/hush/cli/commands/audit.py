"""`hush audit`: a lower bound on epsilon from an attack, next to the claimed epsilon.

It has two modes. For the folder of a run, `hush.runs.audit` trains the model again with canaries and attacks it. A CSV
file has the scores of an attack that you ran yourself, one row per model or canary:

    score,member  ->  threshold rule  ->  true and false positives  ->  lower bound on epsilon  ->  verdict

The exit status is 3 if the bound exceeds the claim, so that a script can stop a release.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hush.audit import AuditResult, Comparison, audit_one_run, audit_scores
from hush.cli.terminal import wrapped
from hush.cli.words import BOUND_METHODS, THRESHOLD_RULES, threshold_rule
from hush.data import CsvFile
from hush.errors import InvalidArgument, check_delta
from hush.guarantee import Guarantee

_MEMBER_WORDS = {"true": True, "yes": True, "in": True, "false": False, "no": False, "out": False}
_SCORES_ONLY = ("delta", "epsilon", "method", "threshold", "one_run")  # options that a run has no use for
_DEFAULT_METHOD = "clopper-pearson"
_SECONDS = 60.0
_VIOLATED = 3  # exit status


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="measure a lower bound on epsilon, by attacking a run or from an attack's scores",
        description="Measure how much a model leaks: a lower bound on epsilon. RUN is the folder of a finished hush "
        "train; hush retrains it with canaries, attacks the models, and adds the result to the run's report. "
        "SCORES.csv has the columns score and member (1 or 0; higher scores mean members). Exit status 3 means that a "
        "claim is contradicted.",
        epilog="Example: hush audit runs/people-1 --seconds 120; hush audit scores.csv --delta 1e-5 --json",
    )
    parser.add_argument("data", metavar="RUN|SCORES.csv", help="the folder of a run, or a file of scores")
    parser.add_argument("--confidence", type=float, default=0.95, help="confidence of the bound (default: 0.95)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    folder = parser.add_argument_group("auditing a run")
    folder.add_argument("--seconds", type=float, help=f"how long to spend on retraining (default: {_SECONDS:g})")
    folder.add_argument(
        "--model",
        help="for a model of your own: MODULE:FACTORY as the run was started with; it is imported and run",
    )
    scores = parser.add_argument_group("bounding epsilon from a file of scores")
    scores.add_argument("--delta", type=float, help="the delta of the bound (default: 0)")
    scores.add_argument("--epsilon", type=float, help="the claimed epsilon to compare the bound with")
    methods = scores.add_mutually_exclusive_group()
    methods.add_argument(
        "--method", choices=list(BOUND_METHODS), help=f"how the bound is computed (default: {_DEFAULT_METHOD})"
    )
    methods.add_argument(
        "--one-run",
        action="store_true",
        default=None,
        help="the scores are for the canaries of one model, each included by a fair coin; their order must not depend "
        "on the coins",
    )
    scores.add_argument(
        "--threshold",
        metavar="NUMBER|RULE",
        help="a threshold that you fixed before seeing the scores, or a rule that chooses one: "
        f"{', '.join(THRESHOLD_RULES)} (default: bonferroni)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Audit, and print the result; return 3 if it contradicts the claim."""
    path = Path(options.data)
    if path.is_dir():
        return _audit_run(path, options)
    if not path.is_file():
        raise InvalidArgument("data", options.data, "the folder of a run, or a file of scores", "It does not exist")
    return _judge_scores(path, options)


def _judge_scores(path: Path, options: argparse.Namespace) -> int:
    """Compute the bound that a file of scores shows, and print it."""
    if options.seconds is not None:
        raise InvalidArgument("--seconds", options.seconds, "no value for a file of scores", "No model is trained")
    if options.model is not None:
        raise InvalidArgument("--model", options.model, "no value for a file of scores", "No model is trained")
    delta = check_delta("--delta", 0.0 if options.delta is None else options.delta)
    if options.method == "gaussian" and not delta > 0:
        raise InvalidArgument(
            "--delta", delta, "a number in (0, 1) for --method gaussian", "At delta 0, Gaussian noise has no epsilon"
        )
    scores, is_member = read_scores(path)
    rule = threshold_rule(options.threshold)
    if options.one_run:
        result = audit_one_run(scores, is_member, delta=delta, confidence=options.confidence, threshold=rule)
    else:
        result = audit_scores(
            scores[is_member],
            scores[~is_member],
            delta=delta,
            confidence=options.confidence,
            method=BOUND_METHODS[options.method or _DEFAULT_METHOD](),
            threshold=rule,
        )
    return _print_result(result, None if options.epsilon is None else result.compare(options.epsilon), options)


def _audit_run(path: Path, options: argparse.Namespace) -> int:
    """Attack a finished run, and print the bound."""
    for name in _SCORES_ONLY:
        if getattr(options, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InvalidArgument(flag, getattr(options, name), "no value for a run, which states its own claim")
    from hush.cli.outcomes import check_installed
    from hush.cli.terminal import TerminalProgress

    check_installed()
    from hush import runs

    seconds = _SECONDS if options.seconds is None else options.seconds
    progress = TerminalProgress(quiet=options.quiet)
    try:
        result = runs.audit(
            path, seconds=seconds, confidence=options.confidence, progress=progress, factory=options.model
        )
    finally:
        progress.close()
    claim = Guarantee.from_json((path / "guarantee.json").read_text(encoding="utf-8"))
    status = _print_result(result, result.compare(claim), options)
    if not options.json:
        print(f"Written to {path}: open {path / 'report.html'}")
    return status


def _print_result(result: AuditResult, comparison: Comparison | None, options: argparse.Namespace) -> int:
    """Print the result, and return the exit status."""
    status = _VIOLATED if comparison is not None and comparison.violated else 0
    if options.json:
        content = json.loads(result.to_json())
        if comparison is not None:
            content |= {"claimed_epsilon": comparison.claimed.epsilon, "verdict": comparison.verdict.value}
        print(json.dumps(content, allow_nan=False))
        return status
    print(wrapped(str(result), stream=sys.stdout))
    if "epsilon_at_best" in result.details:
        print(f"The largest epsilon that so many canaries could have shown: {result.details['epsilon_at_best']:.3g}.")
    if comparison is not None:
        print(wrapped(str(comparison), stream=sys.stdout))
    for assumption in result.assumptions:
        print(wrapped(f"Assumed: {assumption}.", stream=sys.stdout))
    return status


def read_scores(path: Path) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the scores in a CSV file, in its order, and which of them belong to members."""
    file = CsvFile(path)
    columns = [_column(file.columns, name, path) for name in ("score", "member")]
    rows = [[record[column] for column in columns] for batch in file.batches() for record in batch]
    scores = np.array([_score(score, number) for number, (score, _) in enumerate(rows, 1)], dtype=np.float64)
    members = [_member(member, number) for number, (_, member) in enumerate(rows, 1)]
    return scores, np.array(members, dtype=np.bool_)


def _column(names: list[str], name: str, path: Path) -> int:
    """Return the position of a column."""
    missing = sorted({"score", "member"} - set(names))
    if missing:
        raise InvalidArgument("scores", str(path), f"a column named {' and one named '.join(missing)}")
    return names.index(name)


def _member(text: str | None, number: int) -> bool:
    """Return whether a row belongs to a member."""
    word = (text or "").strip().lower()
    if word in _MEMBER_WORDS:
        return _MEMBER_WORDS[word]
    try:
        return {1.0: True, 0.0: False}[float(word)]
    except (ValueError, KeyError):
        raise InvalidArgument("member", text, f"1 or 0 in row {number}") from None


def _score(text: str | None, number: int) -> float:
    """Read a score."""
    try:
        return float(text or "")
    except ValueError:
        raise InvalidArgument("score", text, f"a number in row {number}") from None
