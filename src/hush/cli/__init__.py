"""The command line, `hush COMMAND`.

The commands are `train`, `tune`, `predict`, `report`, `export`, `schema`, `query`, `test`, `catalog`, `ledger`, `plan`,
`account`, `audit`, `attack`, and `completion` for the shell.

Every command is a module in ``commands`` with two functions: ``add_parser`` declares its arguments, ``run`` does the
work. What they share:

- ``settings``: the arguments of `hush train` and `hush tune`, which follow from `hush.runs.Settings`;
- ``declarations``: flags that declare what is known about a table, such as ``--bounds age=0:100``;
- ``words``: the one place where words, such as ``--noise laplace``, become types;
- ``options`` (``--relation``, ``--unit-kind``), ``charging`` (``--budget``), ``outcomes`` (what a finished run prints);
- ``messages``: error messages in terms of flags;
- ``terminal`` (tables, bars, progress), ``template_file`` (templates to fill in), ``plot`` (figures as SVG) and
  ``json_values`` (values for JSON).

Commands print for people by default, and JSON for scripts with ``--json``. On an error, standard error gets one line
(questions about a table: one for each, and the command that answers them) and standard output stays empty. The exit
status is 0 on success, 2 if something was refused, 1 if the machine failed (a full disk, for example), 3 if an audit
contradicts a claim, and 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from typing import Any

from hush.errors import HushError
from hush.version import __version__

__all__: list[str] = []  # the command line is for the shell; `main` is what its entry point calls

COMMANDS = (
    "train",
    "tune",
    "predict",
    "report",
    "export",
    "schema",
    "query",
    "test",
    "catalog",
    "ledger",
    "plan",
    "account",
    "audit",
    "attack",
    "completion",
)
_ON_FINISHED_RUNS = ("predict", "report", "export")
_NEEDS_ALL = "completion"  # which writes down the flags of all others


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status.

    Args:
        argv: The words after ``hush``; without them, those of this process.

    >>> main(["account", "--laplace-scale", "2", "--num-steps", "3", "--delta", "0", "--json"])
    {"pld": {"epsilon": 1.5, ...
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words[0] if words else None)
    options = parser.parse_args(words)
    try:
        status = options.run(options)
    except HushError as error:
        from hush.cli.messages import in_flags, open_questions

        message = open_questions(error, words) or in_flags(str(error), parser, options)
        print(f"hush {options.command}: {message}", file=sys.stderr)
        return getattr(error, "exit_status", 2)
    except KeyboardInterrupt:
        print(f"\nhush {options.command}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe, such as head, has closed it
        sys.stderr.close()
        return 1
    return 0 if status is None else int(status)


class _Parser(argparse.ArgumentParser):
    """A parser that accepts no abbreviated flags, because a new flag could change what an abbreviation means."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **{"allow_abbrev": False, **settings})


def build_parser(command: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of one command, or of all commands if none of them is named.

    Only the modules of these commands are imported, so that a command starts without waiting for the others.
    """
    parser = _Parser(
        prog="hush",
        description="Release statistics and train models with differential privacy, and account for the privacy they "
        "spend.",
    )
    parser.add_argument("--version", action="version", version=f"hush {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    is_alone = command in COMMANDS and command != _NEEDS_ALL
    for name in (command,) if is_alone else COMMANDS:
        folder = "commands.finished" if name in _ON_FINISHED_RUNS else "commands"
        importlib.import_module(f"hush.cli.{folder}.{name}").add_parser(commands)
    return parser
