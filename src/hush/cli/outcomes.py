"""The parts that `hush train`, `hush tune` and `hush audit` share: required packages, the output folder, the result."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hush.errors import Unsupported

if TYPE_CHECKING:
    from hush.runs import Outcome


_LEFT_TO_REPORT = ("  - Delta:", "All of this takes")


def add_output(group: Any) -> None:
    """Add the output options to a group of arguments."""
    group.add_argument("--output", metavar="PATH", help="the folder to write; if omitted, runs/NAME-1, -2, ...")
    group.add_argument("--quiet", action="store_true", help="show no progress")
    group.add_argument("--json", action="store_true", help="print the result as one JSON object, in the last line")


def check_installed() -> None:
    """Refuse, in one line, if a package for training is missing."""
    try:
        import safetensors  # noqa: F401  # writes the model, after hours of training

        from hush.runs import train  # noqa: F401
    except ImportError as error:
        missing = error.name or "a package"
        raise Unsupported(f"training needs {missing}, which is not installed", "pip install 'hush[train]'") from None


def output_folder(output: str | None, data: str) -> Path:
    """Return the folder to write: the requested one, or the next free one named after the data."""
    if output is not None:
        return Path(output)
    name = Path(data).name.split(".")[0] or "run"
    number = 1
    while (folder := Path("runs") / f"{name}-{number}").exists():
        number += 1
    return folder


def _error(outcome: Outcome) -> str | None:
    """Return the measured error of a model of numbers, in words; None for other models."""
    error = _figures(outcome).get("error")
    if error is None:
        return None
    if error.get("value") is None:
        return "Held-out error: withheld. Too few held-out rows to measure through the noise."
    root, clamped_to = error.get("root_mean_square"), error.get("clamped_to")
    of, whose = ("", "the target's") if clamped_to is None else (_clamped(*clamped_to), "the clamped targets'")
    return (
        f"Held-out mean absolute error: {error['value']:.4g} ({error['low']:.4g} to {error['high']:.4g}){of}"
        + ("" if root is None else f"; root mean squared error: {root:.4g}")
        + f"; {whose} standard deviation: {error['baseline']:.4g}"
    )


def _clamped(lower: float, upper: float) -> str:
    return f", of targets clamped to [{lower:.6g}, {upper:.6g}]"


def print_outcome(outcome: Outcome, options: argparse.Namespace) -> None:
    """Print the result of a run, for people or as JSON."""
    from hush.runs import private_files

    guarantee = outcome.guarantee
    if options.json:
        content: dict[str, Any] = {
            "accuracy": outcome.accuracy,
            "epsilon": guarantee.epsilon,
            "delta": guarantee.delta,
            "noise_multiplier": outcome.noise_multiplier,
            "run": str(outcome.path),
        }
        if (measured := _figures(outcome).get("error")) is not None:
            content["error"] = measured
        if outcome.receipt is not None:
            content["charged"] = outcome.receipt.to_dict()
        print(json.dumps(content))
        return
    error = _error(outcome)
    if error is not None:
        print(error)
    elif outcome.accuracy is not None:
        print(f"Held-out accuracy: {outcome.accuracy:.1%}{_interval(outcome)}")
    elif (outcome.path / "figures.json").exists():
        print("Held-out accuracy: withheld. Too few held-out examples per class to measure through the noise.")
    print(guarantee if options.quiet else f"\n{_shortened(guarantee.explain())}\n")
    if outcome.receipt is not None:
        print(outcome.receipt)
    print(f"Written to {outcome.path}: open {outcome.path / 'report.html'}")
    if names := private_files(outcome.path):
        print(f"The guarantee covers all files there but {' and '.join(names)}: do not share those.")
    if not options.quiet:
        folder = shlex.quote(str(outcome.path))
        commands = (f"predict {folder} NEW-DATA", f"report {folder} --publishable", f"export {folder} --onnx")
        print("Next: " + ", or ".join(f"hush {command}" for command in commands))


def _shortened(explanation: str) -> str:
    """Return the part of an explanation that fits a terminal; the report has all of it."""
    lines = explanation.splitlines()
    end = next((number for number, line in enumerate(lines) if line.startswith(_LEFT_TO_REPORT)), len(lines))
    return "\n".join(
        [*lines[:end], *(["What it assumes, and what delta means, is in the report."] if end < len(lines) else [])]
    )


def _figures(outcome: Outcome) -> dict[str, Any]:
    """Return the held-out metrics; none, if nothing was held out."""
    path = outcome.path / "figures.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def _interval(outcome: Outcome) -> str:
    """Return the interval of the accuracy, in words; nothing, if there is none."""
    accuracy = _figures(outcome).get("accuracy", {})
    if accuracy.get("low") is None or accuracy.get("high") is None:
        return ""
    return f" ({accuracy['confidence']:.0%} interval: {accuracy['low']:.1%} to {accuracy['high']:.1%})"
