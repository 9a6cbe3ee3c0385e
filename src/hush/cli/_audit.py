"""`hush audit`: what an attack shows, beside what was promised."""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from typing import Any

from hush.errors import InvalidArgument, check_delta
from hush.guarantee import Guarantee

_MEMBER = {"1": True, "true": True, "yes": True, "in": True, "0": False, "false": False, "no": False, "out": False}


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "audit",
        help="attack a run, or judge an attack's scores: a lower bound on epsilon",
        description="Put a number under the promise. RUN is the folder of a finished hush train: hush trains it again "
        "with canaries, attacks the models, and adds what it finds to the run's report. A CSV file with the columns "
        "score and member (1 or 0; higher scores mean members) is judged as it is.",
        epilog="Example: hush audit runs/people-1 --seconds 120; hush audit scores.csv --delta 1e-5 --json",
    )
    parser.add_argument("what", metavar="RUN|SCORES.csv", help="a run's folder, or a file of scores")
    parser.add_argument("--delta", type=float, help="of a file of scores (0); a run has its own")
    parser.add_argument("--confidence", type=float, default=0.95, help="of the bound (0.95)")
    parser.add_argument("--epsilon", type=float, help="the claim that a file of scores is compared with")
    parser.add_argument(
        "--method", choices=["clopper-pearson", "gaussian"], default="clopper-pearson", help="of a file"
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="time to train models again, for a run (60)")
    parser.add_argument("--quiet", action="store_true", help="show nothing but the result")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Audit, and print what was found."""
    place = Path(options.what)
    if place.is_dir():
        _run_folder(place, options)
        return
    if not place.is_file():
        raise InvalidArgument("what", options.what, "the folder of a run, or a file of scores")
    _scores(place, options)


def _scores(place: Path, options: argparse.Namespace) -> None:
    from hush.audit import ClopperPearson, GaussianDP, audit_scores

    members, others = read_scores(place)
    method = GaussianDP() if options.method == "gaussian" else ClopperPearson()
    delta = check_delta("delta", 0.0 if options.delta is None else options.delta)
    found = audit_scores(members, others, delta=delta, confidence=options.confidence, method=method)
    _print(found, None if options.epsilon is None else found.compare(options.epsilon), options)


def _run_folder(place: Path, options: argparse.Namespace) -> None:
    for name in ("delta", "epsilon"):
        if getattr(options, name) is not None:
            raise InvalidArgument(name, getattr(options, name), "nothing beside a run, which has made its own claim")
    from hush.cli._train import Shown, check_installed

    check_installed()
    from hush import runs

    progress = Shown(quiet=options.quiet)
    try:
        found = runs.audit(place, seconds=options.seconds, confidence=options.confidence, progress=progress)
    finally:
        progress.close()
    claimed = Guarantee.from_json((place / "guarantee.json").read_text(encoding="utf-8"))
    _print(found, found.compare(claimed), options)
    if not options.json:
        print(f"Written to {place}: open {place / 'report.html'}")


def _print(found: Any, comparison: Any, options: argparse.Namespace) -> None:
    if options.json:
        content = json.loads(found.to_json())
        if comparison is not None:
            content |= {"claimed_epsilon": comparison.claimed.epsilon, "verdict": comparison.verdict.value}
        print(json.dumps(content, allow_nan=False))
        return
    print(found)
    if comparison is not None:
        print(comparison)


def read_scores(place: Path) -> tuple[list[float], list[float]]:
    """Return the scores of members and of others from a CSV file with the columns score and member."""
    try:
        with place.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            missing = {"score", "member"} - set(reader.fieldnames or ())
            if missing:
                raise InvalidArgument("scores", str(place), f"a column named {' and '.join(sorted(missing))}")
            rows = list(enumerate(reader, 2))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidArgument("scores", str(place), "a readable CSV file", str(error)) from None
    found: dict[bool, list[float]] = {True: [], False: []}
    for line, row in rows:
        found[_member(row["member"], line)].append(_score(row["score"], line))
    return found[True], found[False]


def _member(text: str | None, line: int) -> bool:
    known = _MEMBER.get((text or "").strip().lower())
    if known is None:
        raise InvalidArgument("member", text, f"1 or 0 in line {line}")
    return known


def _score(text: str | None, line: int) -> float:
    try:
        return float(text or "")
    except ValueError:
        raise InvalidArgument("score", text, f"a number in line {line}") from None
