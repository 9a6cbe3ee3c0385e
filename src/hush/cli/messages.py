"""Error messages for the command line: they name flags instead of Python arguments."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from hush.cli.words import NOISES


def in_flags(message: str, parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return a message with the flags of a command in place of names in Python.

    Args:
        message: What an error says, such as ``delta=2: expected a number in [0, 1). Pass epsilon=, too.``
        parser: The parser of `hush`.
        options: The arguments of the command that was run. Names without a flag stay as they are.
    """
    # Where a message has both forms, the one for Python goes: "--force (force=True)", or 'bounds={...}, --bounds ...'.
    message = re.sub(r"(?<=\w) \(\w+=True\)|\b\w+=\{[^{}]*\}, (?=--)", "", message)
    for word, kind in NOISES.items():
        message = message.replace(f"{kind.__name__}()", f"--noise {word}")
    flags = dict(_flags(parser, options.command))
    # Not inside a quoted value, a call or a longer name. A flag that was left out, or is only named, has no value.
    name = r"(?<![\w.'\"(-])(" + "|".join(map(re.escape, flags)) + r")=(None(?=:)|(?=[\s,;:)]|\.(?!\d)|$))?"

    def in_flag(match: re.Match[str]) -> str:
        if match[2] is not None:
            return flags[match[1]]
        # A value of something that has none here is from elsewhere, such as a file.
        return match[0] if getattr(options, match[1], None) is None else f"{flags[match[1]]}="

    return re.sub(name, in_flag, message)


def _flags(parser: argparse.ArgumentParser, command: str | None) -> Iterator[tuple[str, str]]:
    """Yield the name in Python and the flag of each option of a command and of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if command in (None, name):
                    yield from _flags(inner, None)
        elif action.option_strings:
            yield action.dest, action.option_strings[-1]
