"""`hush completion`: a script that completes commands, flags and their values in a shell.

The script follows from the parsers and calls nothing when a word is completed, so it is as fast as the shell.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

_HOW = """to switch it on:
  bash  hush completion bash > ~/.local/share/bash-completion/completions/hush
  zsh   hush completion zsh > "${fpath[1]}/_hush"
  fish  hush completion fish > ~/.config/fish/completions/hush.fish"""
_LONGEST_HELP = 60


@dataclass(frozen=True, slots=True)
class _Place:
    """What can follow some words, such as ``ledger create``: each word with its help, and the values of flags."""

    words: tuple[str, ...]
    commands: dict[str, str]
    flags: dict[str, str]
    values: dict[str, tuple[str, ...]]


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "completion",
        help="complete commands and flags with the tab key",
        description="Print a script that completes the commands and flags of hush with the tab key.",
        epilog=_HOW,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", choices=sorted(_WRITERS), help="the shell")
    parser.set_defaults(run=lambda options: print(completion_script(commands.choices, options.shell)))


def completion_script(parsers: dict[str, argparse.ArgumentParser], shell: str) -> str:
    """Return the script for a shell.

    Args:
        parsers: The parser of each command.
        shell: bash, zsh or fish.
    """
    root = _Place((), {name: parser.description or "" for name, parser in parsers.items()}, {"--version": ""}, {})
    places = [root, *(place for name, parser in parsers.items() for place in _places(parser, (name,)))]
    return _WRITERS[shell](places)


def _places(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[_Place]:
    """Yield what can follow a command, and each of its own commands."""
    flags: dict[str, str] = {}
    values: dict[str, tuple[str, ...]] = {}
    below: dict[str, argparse.ArgumentParser] = {}
    commands: dict[str, str] = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            below |= action.choices
        elif action.option_strings:
            flags |= {flag: action.help or "" for flag in action.option_strings if flag.startswith("--")}
            if action.choices is not None:
                values |= {flag: tuple(map(str, action.choices)) for flag in action.option_strings}
        elif action.choices is not None:
            commands |= dict.fromkeys(map(str, action.choices), "")
    commands |= {name: child.description or "" for name, child in below.items()}
    yield _Place(words, commands, flags, values)
    for name, child in below.items():
        yield from _places(child, (*words, name))


def _bash(places: list[_Place]) -> str:
    return f"""# completes the words of hush in bash
_hush() {{
    local word place="" current="${{COMP_WORDS[COMP_CWORD]}}" words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case "$place $word" in
            {_known(places)}) place="$place $word" ;;
        esac
    done
    case "$place ${{COMP_WORDS[COMP_CWORD-1]}}" in
{_cases(_after_flags(places), 'words="{}"')}
        *) case "$place" in
{_cases(_at_places(places), 'words="{}"')}
        esac ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o default -F _hush hush"""


def _zsh(places: list[_Place]) -> str:
    return f"""#compdef hush
# completes the words of hush in zsh
_hush() {{
    local word place=""
    for word in "${{(@)words[2,CURRENT-1]}}"; do
        case "$place $word" in
            {_known(places)}) place="$place $word" ;;
        esac
    done
    case "$place ${{words[CURRENT-1]}}" in
{_cases(_after_flags(places), "compadd -- {}; return")}
    esac
    case "$place" in
{_cases(_at_places(places), "compadd -- {}")}
    esac
    _files
}}
if [[ "$funcstack[1]" = _hush ]]; then _hush "$@"; else compdef _hush hush; fi"""


def _fish(places: list[_Place]) -> str:
    lines = ["# completes the words of hush in fish"]
    for place in places:
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in place.words)
        # A word that follows is offered until one of them is there.
        others = f"not __fish_seen_subcommand_from {' '.join(place.commands)}"
        for name, text in place.commands.items():
            condition = f"{seen}; and {others}" if seen else "__fish_use_subcommand"
            lines.append(f"complete -c hush -f -n {_quoted(condition)} -a {_quoted(name)} -d {_quoted(_help(text))}")
        for flag, text in place.flags.items():
            condition = seen or "__fish_use_subcommand"
            values = f" -x -a {_quoted(' '.join(place.values[flag]))}" if flag in place.values else ""
            option = f"-l {flag.removeprefix('--')}{values}"
            lines.append(f"complete -c hush -n {_quoted(condition)} {option} -d {_quoted(_help(text))}")
    return "\n".join(lines)


def _known(places: list[_Place]) -> str:
    """Return the pattern of all sequences of words that lead to a place."""
    return "|".join(f'" {" ".join(place.words)}"' for place in places if place.words)


def _after_flags(places: list[_Place]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for place in places:
        for flag, values in place.values.items():
            yield "".join(f" {word}" for word in (*place.words, flag)), values


def _at_places(places: list[_Place]) -> Iterator[tuple[str, tuple[str, ...]]]:
    for place in places:
        yield "".join(f" {word}" for word in place.words), (*place.commands, *place.flags)


def _cases(cases: Iterator[tuple[str, tuple[str, ...]]], line: str) -> str:
    return "\n".join(f'        "{key}") {line.format(" ".join(map(shlex.quote, words)))} ;;' for key, words in cases)


def _help(text: str) -> str:
    """Return the first words of a help text."""
    first = " ".join(text.replace("%%", "%").split()).partition(". ")[0]
    return first if len(first) <= _LONGEST_HELP else first[: _LONGEST_HELP - 3] + "..."


def _quoted(text: str) -> str:
    """Quote text for fish, in whose single quotes a backslash escapes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_WRITERS: dict[str, Callable[[list[_Place]], str]] = {"bash": _bash, "fish": _fish, "zsh": _zsh}
