"""`hush report RUN --publishable`: the report of a run, without the parts that are not private."""

from __future__ import annotations

import argparse
from pathlib import Path

from hush.cli.commands.finished.run_folder import add_run, free_path, write
from hush.errors import InvalidArgument
from hush.report import publishable

_PUBLIC_NAME = "report-publishable.html"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "report",
        help="find the report of a run, or write the version that may be published",
        description="Say where the report of a run is. With --publishable, write a copy without the parts that are not "
        "private: diagnostics of gradients, and audits.",
        epilog="Example: hush report runs/patients-1 --publishable",
    )
    add_run(parser)
    parser.add_argument("--publishable", action="store_true", help="write the version that may be published")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write or find the report."""
    source = Path(options.folder) / "report.html"
    try:
        page = source.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise InvalidArgument("run", options.folder, "the folder of a finished run, with a report.html") from None
    if not options.publishable:
        if options.output is not None:
            raise InvalidArgument(
                "output", options.output, "no file without --publishable", "The report exists already"
            )
        print(f"{source} has parts that are not private: --publishable writes a copy without them")
        return
    path = free_path(options.output or str(Path(options.folder) / _PUBLIC_NAME))
    write(path, publishable(page))
    print(f"Written to {path}: it may be published, with model.safetensors, model.json and guarantee.json")
