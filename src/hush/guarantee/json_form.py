"""The JSON form of a guarantee, format ``hush.guarantee/3``.

Run folders, ledgers and model files store guarantees in this form. `load` accepts exactly the fields that `dump`
writes. Anything else is refused, because a guess about a missing or unknown field could change the guarantee.

A unit is stored by its name, as in events and ledgers. Version 2 stored its kind, windows and group size. Version 1
stored the length of a window, but not where windows begin; it is read as `UnrecordedWindows`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeVar

from hush.errors import InvalidArgument, check_instance
from hush.guarantee.ledger_row import LedgerRow
from hush.guarantee.terms import Bound, Relation
from hush.guarantee.unit import Unit, UnitKind
from hush.guarantee.window_json import load_length, load_windows
from hush.guarantee.windows import UnrecordedWindows
from hush.strict_json import parse, take_format

if TYPE_CHECKING:
    from hush.guarantee.guarantee import Guarantee

_Term = TypeVar("_Term", bound=StrEnum)

FORMAT = "hush.guarantee/3"

_FIELDS = ("epsilon", "delta", "unit", "relation", "bound", "method", "assumptions")
_SECOND_UNIT_FIELDS = ("kind", "window", "group_size")
_FIRST_UNIT_FIELDS = ("kind", "window_seconds", "group_size")

TEST_RANDOMNESS = "test randomness"  # what `hush.randomness.TestSource` adds to the assumptions
NOT_PRIVATE = "made with test randomness"

# JSON has no literal for infinity. This string says that no finite epsilon is known.
_UNBOUNDED = "unbounded"


def dump(guarantee: Guarantee) -> str:
    """Return a guarantee as one JSON object. Its floats read back bit for bit."""
    first = {"not_private": NOT_PRIVATE} if TEST_RANDOMNESS in guarantee.assumptions else {}
    document: dict[str, Any] = {
        **first,
        "format": FORMAT,
        "epsilon": _UNBOUNDED if guarantee.epsilon == math.inf else guarantee.epsilon,
        "delta": guarantee.delta,
        "unit": guarantee.unit.name,
        "relation": guarantee.relation.value,
        "bound": guarantee.bound.value,
        "method": guarantee.method,
        "assumptions": list(guarantee.assumptions),
    }
    if guarantee.charged is not None:
        document["charged"] = guarantee.charged.to_dict()
    return json.dumps(document, allow_nan=False)


def load(text: str) -> dict[str, Any]:
    """Return the constructor arguments of a stored guarantee; `Guarantee` itself checks their values."""
    document = parse(text)
    check_instance("text", document, dict, "A guarantee is a JSON object as Guarantee.to_json writes it")
    load_unit = _unit_loader(document)
    not_private = document.pop("not_private", None)  # older documents have only the assumption
    charged = LedgerRow.from_dict(document.pop("charged", None))
    _check_fields("text", document, _FIELDS)
    check_instance("assumptions", document["assumptions"], list)
    if not_private is not None and (not_private != NOT_PRIVATE or TEST_RANDOMNESS not in document["assumptions"]):
        raise InvalidArgument("not_private", "...", f"{NOT_PRIVATE!r}, with the assumption {TEST_RANDOMNESS!r}")
    return {
        "epsilon": _load_epsilon(document["epsilon"]),
        "delta": document["delta"],
        "unit": load_unit(document["unit"]),
        "relation": _load_term("relation", document["relation"], Relation),
        "bound": _load_term("bound", document["bound"], Bound),
        "method": document["method"],
        "assumptions": tuple(document["assumptions"]),
        "charged": charged,
    }


def _unit_loader(document: dict[str, Any]) -> Callable[[Any], Unit]:
    """Take the format out of a document, and return the reader of its units."""
    written = take_format(document)
    if not isinstance(written, str) or written not in _UNIT_LOADERS:
        advice = (
            "Another version may give the same fields a different meaning",
            "Read it with the version of hush that wrote it",
        )
        raise InvalidArgument("format", written, repr(FORMAT), *advice)
    return _UNIT_LOADERS[written]


def _check_fields(name: str, document: dict[str, Any], fields: tuple[str, ...]) -> None:
    """Refuse a document with missing or unknown fields, and name one of them."""
    wrong = sorted(set(document) ^ set(fields))
    if wrong:
        raise InvalidArgument(
            name, document, f"exactly the fields {', '.join(fields)}", f"Unknown or missing: {wrong[0]!r}"
        )


def _load_epsilon(value: Any) -> Any:
    """Return a stored epsilon, with infinity for the word that stands for it."""
    if value == _UNBOUNDED:
        return math.inf
    # 1e999 parses to infinity, which must not pass for an unbounded epsilon.
    if isinstance(value, str) or value == math.inf:
        raise InvalidArgument("epsilon", value, f"a finite number >= 0, or {_UNBOUNDED!r}")
    return value


def _load_term(name: str, value: Any, terms: type[_Term]) -> _Term:
    """Return the enum member of a stored word."""
    known = {term.value: term for term in terms}
    if not isinstance(value, str) or value not in known:
        raise InvalidArgument(name, value, "one of " + ", ".join(known))
    return known[value]


def _load_unit(value: Any) -> Unit:
    check_instance("unit", value, str)
    return Unit.from_name(value)


def _load_second_unit(value: Any) -> Unit:
    """Return a unit of version 2."""
    check_instance("unit", value, dict)
    _check_fields("unit", value, _SECOND_UNIT_FIELDS)
    window = None if value["window"] is None else load_windows(value["window"])
    return Unit(kind=_load_term("kind", value["kind"], UnitKind), window=window, group_size=value["group_size"])


def _load_first_unit(value: Any) -> Unit:
    """Return a unit of version 1."""
    check_instance("unit", value, dict)
    _check_fields("unit", value, _FIRST_UNIT_FIELDS)
    seconds = value["window_seconds"]
    window = None if seconds is None else UnrecordedWindows(load_length("window_seconds", seconds))
    return Unit(kind=_load_term("kind", value["kind"], UnitKind), window=window, group_size=value["group_size"])


_UNIT_LOADERS: dict[str, Callable[[Any], Unit]] = {
    FORMAT: _load_unit,
    "hush.guarantee/2": _load_second_unit,
    "hush.guarantee/1": _load_first_unit,
}
