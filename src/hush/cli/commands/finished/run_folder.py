"""What the commands on finished runs share: their first argument, and files that are not overwritten by accident."""

from __future__ import annotations

import argparse
from pathlib import Path

from hush.errors import InvalidArgument, Unsupported


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the folder of the run, and where to write."""
    parser.add_argument("folder", metavar="RUN", help="the folder of a finished run")
    parser.add_argument("--output", metavar="PATH", help="the file to write, which must not exist")


def add_factory(parser: argparse.ArgumentParser) -> None:
    """Add ``--model``, for models of one's own."""
    parser.add_argument("--model", help="for a model of your own: MODULE:FACTORY, as hush train had it; it is imported")


def free_path(name: str) -> Path:
    """Return the path of a file that does not exist yet."""
    path = Path(name)
    if path.exists():
        raise InvalidArgument("output", name, "a file that does not exist", "Nothing is overwritten")
    return path


def write(path: Path, text: str) -> None:
    """Write a text, or say that the place cannot be written to."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        raise InvalidArgument("output", str(path), "a file that can be written") from None


def check_installed() -> None:
    """Refuse, in one line, if a package that rebuilds models is missing."""
    try:
        import safetensors  # noqa: F401
        import torch  # noqa: F401
    except ImportError as error:
        missing = error.name or "a package"
        raise Unsupported(f"models need {missing}, which is not installed", "pip install 'hush[train]'") from None
