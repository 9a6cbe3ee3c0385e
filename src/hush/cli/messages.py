"""Messages in the words of the command line: the flags that a person typed, not the arguments that Python has."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from hush.cli.words import NOISES


def in_flags(message: str, parser: argparse.ArgumentParser, command: str) -> str:
    """Return a message with the flags of a command in place of names in Python.

    Args:
        message: What an error says, such as ``delta=2: expected a number in [0, 1). Pass epsilon=, too.``
        parser: The parser of `hush`.
        command: The command that was run. What it has no flag for stays as it is.
    """
    for word, kind in NOISES.items():
        message = message.replace(f"{kind.__name__}()", f"--noise {word}")
    flags = dict(_flags(parser, command))
    # Not inside a quoted value, a call or a longer name. A flag that was left out, or is only named, has no value.
    name = r"(?<![\w.'\"(-])(" + "|".join(map(re.escape, flags)) + r")=(None(?=:)|(?=[\s,.;:)]|$))?"
    return re.sub(name, lambda match: flags[match[1]] + ("=" if match[2] is None else ""), message)


def _flags(parser: argparse.ArgumentParser, command: str | None) -> Iterator[tuple[str, str]]:
    """Yield the name in Python and the flag of each option of a command and of its actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if command in (None, name):
                    yield from _flags(inner, None)
        elif action.option_strings:
            yield action.dest, action.option_strings[-1]
