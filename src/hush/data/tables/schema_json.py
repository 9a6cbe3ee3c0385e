"""The JSON form of a schema: one object with a ``format``, and ``help`` fields that are ignored.

`encode` and `decode` are inverse to each other. `decode` is strict: an unknown field is probably a typing error, and
ignoring it would silently learn something that you meant to declare.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hush.data.tables.columns import Category, Column, Date, HashedText, Ignore, Images, Numeric, Text
from hush.errors import InvalidArgument
from hush.strict_json import parse, take_format

FORMAT = "hush.schema/1"
HELP = (
    "Everything here counts as public: write down what you know without looking at the data. kind is numeric (lower, "
    "upper), date (lower and upper in days since 1970), category (values), text (vocabulary: a list of words, or the "
    "path of a file with one word per line), hashed-text (num_features) or ignore. null means: learn it privately, "
    "with a share of the budget. target.classes are the values to predict; for a number, target.range is its range "
    "(lower, upper); target.labels are columns of true and false to predict together. unit names the column with the "
    "privacy unit of each row; groups are columns to compare accuracy by. Fields named help are ignored."
)
_FIELDS = {"target", "unit", "groups", "images", "columns"}


def encode(
    *,
    columns: Mapping[str, Column],
    target: str | None,
    classes: tuple[str, ...] | None,
    unit: str | None,
    groups: tuple[str, ...],
    images: Images | None,
    target_range: Numeric | None = None,
    labels: tuple[str, ...] = (),
) -> str:
    """Return the text of a schema file. The arguments are the fields of `Schema`."""
    content = {
        "format": FORMAT,
        "help": HELP,
        "target": {"column": target, "classes": _listed(classes)} | _other_targets(target_range, labels),
        "unit": unit,
        "groups": list(groups),
        "images": images and {"lower": images.lower, "upper": images.upper, "shape": _listed(images.shape)},
        "columns": {name: _encode_column(column) for name, column in columns.items()},
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def decode(text: str, folder: Path) -> dict[str, Any]:
    """Return the fields of the schema that a text describes.

    Args:
        text: The content of a schema file.
        folder: The folder that paths of vocabularies are relative to.
    """
    content = _json_object("schema", parse(text))
    written = take_format(content)
    if written != FORMAT:
        raise InvalidArgument("format", written, repr(FORMAT), "hush schema DATA writes a template")
    _check_fields("schema", content, _FIELDS)
    target = _json_object("target", content.get("target") or {})
    _check_fields("target", target, {"column", "classes", "range", "labels"})
    columns = _json_object("columns", content.get("columns") or {})
    return {
        "columns": {name: _decode_column(name, value, folder) for name, value in columns.items() if name != "help"},
        "target": target.get("column"),
        "classes": target.get("classes"),
        "unit": content.get("unit"),
        "groups": content.get("groups") or (),
        "images": _decode_images(content.get("images")),
        "target_range": _decode_range(target.get("range")),
        "labels": target.get("labels") or (),
    }


def _other_targets(target_range: Numeric | None, labels: tuple[str, ...]) -> dict[str, Any]:
    """Return what describes a target that is a number, or several labels; nothing for classes."""
    written: dict[str, Any] = {"labels": list(labels)} if labels else {}
    if target_range is not None:
        written["range"] = {"lower": target_range.lower, "upper": target_range.upper}
    return written


def _decode_range(value: Any) -> Numeric | None:
    if value is None:
        return None
    fields = _json_object("range", value)
    _check_fields("range", fields, {"lower", "upper"})
    return Numeric(lower=fields.get("lower"), upper=fields.get("upper"))


def _encode_column(column: Column) -> dict[str, Any]:
    if isinstance(column, Numeric):
        kind = "date" if isinstance(column, Date) else "numeric"
        return {"kind": kind, "lower": column.lower, "upper": column.upper}
    if isinstance(column, Category):
        return {"kind": "category", "values": _listed(column.values)}
    if isinstance(column, Text):
        return {"kind": "text", "vocabulary": list(column.vocabulary)}
    if isinstance(column, HashedText):
        return {"kind": "hashed-text", "num_features": column.num_features}
    return {"kind": "ignore"}


def _decode_column(name: str, value: Any, folder: Path) -> Column:
    path = f"columns[{name!r}]"
    fields = _json_object(path, value)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidArgument(f"{path}.kind", kind, "one of " + ", ".join(_KINDS))
    allowed, make = _KINDS[kind]
    _check_fields(path, fields, allowed)
    return make(fields, folder)


def _decode_text(fields: dict[str, Any], folder: Path) -> Text:
    vocabulary = fields.get("vocabulary")
    if isinstance(vocabulary, str):
        return Text.from_file(folder / vocabulary)
    return Text(vocabulary=vocabulary)  # type: ignore[arg-type]  # checked there


# The words for kinds of columns, the fields that each has, and how to make it.
_KINDS: dict[str, tuple[set[str], Callable[[dict[str, Any], Path], Column]]] = {
    "numeric": (
        {"lower", "upper"},
        lambda fields, folder: Numeric(lower=fields.get("lower"), upper=fields.get("upper")),
    ),
    "date": ({"lower", "upper"}, lambda fields, folder: Date(lower=fields.get("lower"), upper=fields.get("upper"))),
    "category": ({"values"}, lambda fields, folder: Category(values=fields.get("values"))),
    "text": ({"vocabulary"}, _decode_text),
    "hashed-text": ({"num_features"}, lambda fields, folder: HashedText(**fields)),
    "ignore": (set(), lambda fields, folder: Ignore()),
}


def _decode_images(value: Any) -> Images | None:
    if value is None:
        return None
    fields = _json_object("images", value)
    _check_fields("images", fields, {"lower", "upper", "shape"})
    shape = fields.get("shape")
    if shape is not None and not isinstance(shape, list):
        raise InvalidArgument("shape", shape, "three numbers: channels, height and width")
    return Images(lower=fields.get("lower"), upper=fields.get("upper"), shape=shape and tuple(shape))  # type: ignore[arg-type]


def _listed(values: tuple[Any, ...] | None) -> list[Any] | None:
    return None if values is None else list(values)


def _json_object(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidArgument(name, value, "an object in braces")
    return dict(value)


def _check_fields(name: str, fields: dict[str, Any], allowed: set[str]) -> None:
    for key in fields:
        if key not in allowed and key != "help":
            raise InvalidArgument(name, key, "one of the fields " + ", ".join(sorted({*allowed, "help"})))
