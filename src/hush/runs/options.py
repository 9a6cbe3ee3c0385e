"""Options: a setting of a run is declared once, and everything else follows from the declaration.

A field of `hush.runs.Settings` is written as ``name: type = option(default, help=..., ...)``. From that line follow

- the argument of `hush train` and `hush tune` (`hush.cli.settings` builds the parsers from `options_of`);
- its check, its JSON and its documentation in Python (`hush.runs.settings`);
- the command that repeats the run (`command_words`), and the row in the report's table (`reported`).

The type of the field decides how the option is written: a number or text takes one value, a tuple can be repeated, and
a bool is a switch, ``--name`` if it is off by default and ``--no-name`` if it is on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_KEY = "hush option"
_Settings = TypeVar("_Settings", bound="type[DataclassInstance]")
Check = Callable[[str, Any], object]


@dataclass(frozen=True, slots=True)
class OptionGroup:
    """A heading of ``--help``, and the options below it.

    Attributes:
        title: The heading.
        description: An explanation that applies to all options of the group, if needed.
    """

    title: str
    description: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The declaration of one setting.

    Attributes:
        name: The field's name, in Python and in JSON.
        type: Its type without None: float, int, str, bool, tuple, or a class.
        default: Its default; ``dataclasses.MISSING`` if it is required.
        help: What it sets, as a phrase that begins in lower case and has no full stop.
        unset: What happens if it is omitted, for a default that is None or empty.
        group: The heading of ``--help`` that it belongs to; None for the first, which has no title.
        flag: Its flag; a name in capitals for the positional argument.
        metavar: The placeholder for its value.
        check: Called with name and value, unless the value is None; raises `hush.errors.InvalidArgument`.
        label: Its name in the report's table; None keeps it out of the table.
        commands: Which commands have it.
        searchable: Whether `hush tune` may search over its values.
    """

    name: str
    type: type
    default: Any
    help: str
    unset: str | None
    group: OptionGroup | None
    flag: str
    metavar: str | None
    check: Check | None
    label: str | None
    commands: tuple[str, ...]
    searchable: bool

    @property
    def is_positional(self) -> bool:
        """Whether it has no flag."""
        return not self.flag.startswith("-")

    @property
    def description(self) -> str:
        """The text that ``--help`` shows: the help text and the default."""
        if self.unset is not None:
            return f"{self.help}; if omitted, {self.unset}"
        if isinstance(self.default, int | float) and self.type is not bool:
            return f"{self.help} (default: {self.default:g})"
        return f"do not {self.help}" if self.default is True else self.help

    def words(self, value: Any) -> list[str]:
        """Return the words of a command that set a value; none for the default.

        >>> from hush.runs import Settings
        >>> options = {option.name: option for option in options_of(Settings)}
        >>> options["num_steps"].words(40), options["averaging"].words(False), options["groups"].words(("sex", "age"))
        (['--num-steps', '40'], ['--no-averaging'], ['--group', 'sex', '--group', 'age'])
        """
        if value is None or value == self.default:
            return []
        if self.type is bool:
            return [self.flag]
        values = value if self.type is tuple else (value,)
        return [word for item in values for word in ((self.flag,) if not self.is_positional else ()) + (_text(item),)]


def option(
    default: Any = MISSING,
    *,
    help: str,  # noqa: A002  # as in argparse
    unset: str | None = None,
    group: OptionGroup | None = None,
    flag: str | None = None,
    metavar: str | None = None,
    check: Check | None = None,
    label: str | None = "",
    commands: tuple[str, ...] = ("train", "tune"),
    searchable: bool = False,
) -> Any:
    """Declare a field of the settings; `Option` explains the arguments.

    The flag and the label follow from the field's name, unless they are given.
    """
    declaration = {
        "help": help,
        "unset": unset,
        "group": group,
        "flag": flag,
        "metavar": metavar,
        "check": check,
        "label": label,
        "commands": commands,
        "searchable": searchable,
    }
    return field(default=default, metadata={_KEY: declaration})


def options_of(settings: type[DataclassInstance], command: str | None = None) -> list[Option]:
    """Return the options that a class of settings declares, in order; only those of one command, if it is named."""
    hints = get_type_hints(settings)
    declared = [_option(item, hints[item.name]) for item in fields(settings) if _KEY in item.metadata]
    return [item for item in declared if command is None or command in item.commands]


def _option(item: Field[Any], hint: Any) -> Option:
    """Complete a declaration by what follows from the field's name, type and default."""
    declaration = dict(item.metadata[_KEY])
    kind = _plain_type(hint)
    prefix = "--no-" if kind is bool and item.default is True else "--"
    declaration["flag"] = declaration["flag"] or prefix + item.name.replace("_", "-")
    if declaration["label"] == "":
        declaration["label"] = item.name.replace("_", " ")
    return Option(name=item.name, type=kind, default=item.default, **declaration)


def _plain_type(hint: Any) -> type:
    """Return the type of a hint such as ``float | None`` or ``tuple[str, ...]``."""
    if isinstance(hint, UnionType):
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    plain: type = get_origin(hint) or hint
    return plain


def documented(settings: _Settings) -> _Settings:
    """Add the options' documentation to the docstring of a settings class."""
    lines = [f"        {item.name}: {_sentence(item)}" for item in options_of(settings)]
    settings.__doc__ = "\n".join([(settings.__doc__ or "").rstrip(), "", "    Attributes:", *lines, ""])
    return settings


def _sentence(item: Option) -> str:
    """Write the help text of an option as a sentence."""
    text = item.help if item.unset is None else item.description
    return f"{text[0].upper()}{text[1:]}."


def reported(settings: DataclassInstance) -> dict[str, Any]:
    """Return the report's table of settings: the label and the value of every option that has a label."""
    return {
        item.label: item.unset or "none" if value in (None, ()) else value
        for item in options_of(type(settings))
        if item.label is not None
        for value in [getattr(settings, item.name)]
    }


def command_words(settings: DataclassInstance, command: str, *, schema: Path | None = None) -> list[str]:
    """Return the arguments with which a command has the same settings.

    Args:
        settings: The settings to write.
        command: The command; options that it does not have are left out.
        schema: The path of the stored declarations, which are too long for a command line.
    """
    words: list[str] = []
    for item in options_of(type(settings), command):
        value = getattr(settings, item.name)
        words += item.words(schema if item.name == "schema" and value is not None else value)
    return words


def _text(value: object) -> str:
    """Write a value so that it reads as the same one again; 3.0 as 3."""
    return str(value).removesuffix(".0") if isinstance(value, float) else str(value)
