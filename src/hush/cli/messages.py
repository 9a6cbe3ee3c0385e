"""Error messages for the command line: they name flags, and show values as you type them."""

from __future__ import annotations

import argparse
import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress

from hush.cli.words import NOISES
from hush.data import OpenQuestions
from hush.errors import HushError

# What errors of hush begin with: "delta=2: expected", "tables.people.unit='': expected". A message can list several.
_HEAD = re.compile(r"(?:^|(?<=[.:] ))(-{0,2}[A-Za-z_][^\s=]*)=(.*?): expected ", re.DOTALL | re.MULTILINE)


def open_questions(error: HushError, words: Sequence[str]) -> str | None:
    """Return what has to be settled before a run, with the command that would work; None for any other error."""
    return error.in_words(words) if isinstance(error, OpenQuestions) else None


def in_flags(message: str, parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """Return a message with the flags of a command in place of names in Python.

    ``delta=2: expected a number in [0, 1). Pass epsilon=, too.`` becomes ``--delta 2: expected a number in [0, 1). Pass
    --epsilon, too.``

    Args:
        message: What an error says.
        parser: The parser of `hush`.
        options: The arguments of the command that was run. Names without a flag stay as they are.
    """
    # Where a message has both forms, the one for Python goes: "--force (force=True)", or 'bounds={...}, --bounds ...'.
    message = re.sub(r"(?<=\w) \(\w+=True\)|\b\w+=\{[^{}]*\}, (?=--)", "", message)
    for word, kind in NOISES.items():
        message = message.replace(f"{kind.__name__}()", f"--noise {word}")
    flags = dict(_flags(parser, getattr(options, "command", None)))
    flags.pop("format", None)  # argparse checks --format; the format that an error names is that of a file

    def head(match: re.Match[str]) -> str:
        name, value = match[1], _in_words(match[2])
        # A value of something that has none here is from elsewhere, such as a file.
        is_flag = name in flags and (value == "None" or getattr(options, name, None) is not None)
        if is_flag or name.startswith("--"):
            # Nothing to show: it was left out, or takes no value.
            value = "" if value in ("None", "true") else f" {_as_typed(value)}"
            return f"{flags.get(name, name)}{value}: expected "
        return f"{name} is missing: expected " if value == "None" else f"{name} {value}: expected "

    def in_text(match: re.Match[str]) -> str:
        if not match[2]:
            return flags[match[1]]  # it is only named
        return match[0] if getattr(options, match[1], None) is None else f"{flags[match[1]]} {match[2]}"

    # What the person wrote is not searched for names.
    start = _HEAD.match(message)
    first, rest = (head(start), message[start.end() :]) if start is not None else ("", message)
    # Not inside a quoted value, a call or a longer name.
    named = r"(?<![\w.'\"(-])(" + "|".join(map(re.escape, flags)) + r")=([^\s,;:).]|\.\d)?"
    message = first + re.sub(named, in_text, _HEAD.sub(head, rest))
    return message.replace("expected None", "expected no value")


def _in_words(value: str) -> str:
    """Return a value as files and people write it: true for True, and the items of a list."""
    if re.fullmatch(r"\['.*'\]", value, re.DOTALL):
        with suppress(ValueError, SyntaxError):
            return " ".join(_as_typed(repr(item)) for item in ast.literal_eval(value))
    return {"True": "true", "False": "false"}.get(value, value)


def _as_typed(value: str) -> str:
    """Return the text of a string in Python as one would type it.

    >>> _as_typed("'a.csv'"), _as_typed("'a b.csv'"), _as_typed("''"), _as_typed("1e-05")
    ('a.csv', "'a b.csv'", "''", '1e-05')
    """
    text = value[1:-1]
    is_plain = value == f"'{text}'" and text.isprintable() and "\\" not in text
    return text if is_plain and (text == "..." or shlex.quote(text) == text) else value


def _flags(parser: argparse.ArgumentParser, command: str | None) -> Iterator[tuple[str, str]]:
    """Yield the name in Python and the flag of each option of a command and of its actions.

    An argument without a flag has the name under which the help shows it.
    """
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                if command in (None, name):
                    yield from _flags(inner, None)
        elif action.option_strings:
            yield action.dest, action.option_strings[-1]
        elif isinstance(action.metavar, str):
            yield action.dest, action.metavar
