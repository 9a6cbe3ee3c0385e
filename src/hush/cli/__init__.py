"""The command line: `hush plan` and `hush account`.

Both print for people by default and for scripts with ``--json``. Errors go to standard error in one line, with exit
status 2; standard output then stays empty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hush import __version__
from hush.cli import _account, _plan
from hush.errors import HushError

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        options.run(options)
    except HushError as error:
        print(f"hush {options.command}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hush", description="Differential privacy that proves what it gave away.")
    parser.add_argument("--version", action="version", version=f"hush {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (_plan, _account):
        module.add_parser(commands)
    return parser
