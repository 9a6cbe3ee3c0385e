"""The command line: `hush train`, `tune`, `schema`, `query`, `ledger`, `plan`, `account`, `audit` and `attack`.

All print for people by default, and for scripts with ``--json``. Errors go to standard error in one line; standard
output then stays empty. Exit status: 0 if all went well, 2 if something was refused, 1 if the machine could not go on
(a full disk), 3 if an audit contradicts the claim, 130 if somebody stopped it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from hush.cli.commands import account, attack, audit, ledger, plan, query, schema, train, tune
from hush.errors import HushError
from hush.version import __version__

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        status = options.run(options)
    except HushError as error:
        print(f"hush {options.command}: {error}", file=sys.stderr)
        return getattr(error, "exit_status", 2)
    except KeyboardInterrupt:
        print(f"\nhush {options.command}: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 1
    return 0 if status is None else int(status)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hush", description="Differential privacy that proves what it gave away.")
    parser.add_argument("--version", action="version", version=f"hush {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in (train, tune, schema, query, ledger, plan, account, audit, attack):
        module.add_parser(commands)
    return parser
