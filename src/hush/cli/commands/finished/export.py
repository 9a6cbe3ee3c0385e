"""`hush export RUN --onnx`: the model of a finished run in a format that other programs run."""

from __future__ import annotations

import argparse
from pathlib import Path

from hush.cli.commands.finished.run_folder import add_factory, add_run, check_installed, free_path
from hush.errors import InvalidArgument

_ONNX_NAME = "model.onnx"


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "export",
        help="write a finished model for other programs",
        description="Write the network of a finished run for other programs, with the guarantee and the schema in its "
        "metadata. The file depends on the data only through the model, so the run's guarantee covers it.",
        epilog="Example: hush export runs/patients-1 --onnx",
    )
    add_run(parser)
    parser.add_argument("--onnx", action="store_true", help="as an ONNX file, for onnxruntime and many other programs")
    add_factory(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Write the file."""
    if not options.onnx:
        raise InvalidArgument("--onnx", None, "a format", "ONNX is the only one")
    path = free_path(options.output or str(Path(options.folder) / _ONNX_NAME))
    check_installed()
    from hush import runs

    runs.load(options.folder, factory=options.model).to_onnx(path)
    print(f"Written to {path}: its input is what hush.data.transform makes of a table or of images")
