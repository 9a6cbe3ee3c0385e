"""What will be done with each column, from names, types and declarations; no value is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from hush.data.tables.columns import Category, Column, Ignore, Numeric
from hush.data.tables.raw import ImageSource, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import OTHER, TEXT, UNTYPED, TableSource
from hush.errors import InvalidArgument, Unsupported, check_instance

_DECLARE = "Declare it as category, text with a vocabulary, or ignore: by flags (see --help) or in a schema"


def template(data: RawData) -> Schema:
    """Return a schema to fill in: the names of the columns, and kinds as the file declares them.

    No value is read. Columns of a CSV file have no declared type, and start as numeric.
    """
    if not isinstance(data, TableSource):
        return Schema(classes=data.classes if isinstance(data, ImageSource) else None)
    kinds: dict[str, Column] = {TEXT: Category(), OTHER: Ignore()}
    return Schema(columns={name: kinds.get(data.kind(name), Numeric()) for name in data.columns})


def needs_learning(
    data: RawData,
    target: str | None = None,
    schema: Schema | None = None,
    unit: str | None = None,
    groups: Sequence[str] = (),
) -> list[str]:
    """Return what `prepare` would learn privately, in words; empty if everything is declared.

    Decided by names, types and declarations, so that a budget can be split before anything is read.
    """
    plan = resolve(data, target, schema, unit, groups)
    numbers, texts = to_learn(plan)
    wanted = [f"bounds of column {name!r}" for name in numbers] + [f"values of column {name!r}" for name in texts]
    return wanted if plan.classes is not None else [*wanted, "classes of the target"]


def to_learn(plan: Schema) -> tuple[list[str], list[str]]:
    """Return the columns whose bounds, and those whose values, are not declared."""
    numbers = [name for name, column in plan.columns.items() if isinstance(column, Numeric) and not column.complete]
    texts = [name for name, column in plan.columns.items() if isinstance(column, Category) and not column.complete]
    return numbers, texts


def resolve(
    data: RawData, target: str | None, schema: Schema | None, unit: str | None, groups: Sequence[str]
) -> Schema:
    """Return the schema with a kind for every column that is a feature, and with what was given beside it."""
    check_instance("data", data, RawData, "open_data makes one")
    declared = Schema() if schema is None else schema
    check_instance("schema", declared, Schema)
    if isinstance(groups, str):
        raise InvalidArgument("groups", groups, "a list of columns")
    roles = _either("target", target, declared.target), _either("unit", unit, declared.unit)
    every = tuple(dict.fromkeys((*groups, *declared.groups)))
    if isinstance(data, ImageSource):
        return _image_plan(data, declared, roles, every)
    if not isinstance(data, TableSource):
        raise Unsupported("a source of another kind", "open_data makes them")
    return _table_plan(data, declared, roles, every)


def _either(name: str, given: str | None, declared: str | None) -> str | None:
    if given is not None and declared is not None and given != declared:
        raise InvalidArgument(name, given, f"{declared!r}, as in the schema, or nothing")
    return declared if given is None else given


def _image_plan(
    data: ImageSource, declared: Schema, roles: tuple[str | None, str | None], groups: tuple[str, ...]
) -> Schema:
    for name, given in (("target", None if roles[0] == "label" else roles[0]), ("unit", roles[1]), ("groups", groups)):
        if given:
            raise InvalidArgument(name, given, "nothing", "Images have labels, and no columns", "Leave it out")
    if declared.columns:
        raise InvalidArgument("schema", "columns", "none", "Images have no columns")
    return Schema(classes=declared.classes or data.classes, images=declared.images)


def _table_plan(
    data: TableSource, declared: Schema, roles: tuple[str | None, str | None], groups: tuple[str, ...]
) -> Schema:
    target, unit = roles
    if target is None:
        raise InvalidArgument("target", None, "the column to predict", "Columns: " + ", ".join(data.columns[:20]))
    data.check_column("target", target)
    for name in groups:
        data.check_column("groups", name)
    if unit is not None and data.check_column("unit", unit) == target:
        raise InvalidArgument("unit", unit, "another column than the target")
    for name, column in declared.columns.items():
        if not isinstance(column, Ignore):
            data.check_column("schema", name)
    for name in (target, *groups, *(() if unit is None else (unit,))):
        if data.kind(name) == OTHER:
            raise InvalidArgument("column", name, "numbers or text, as it is a target, unit or group")
    columns = {name: _kind(data, name, declared, groups) for name in data.columns if name not in (target, unit)}
    if all(isinstance(column, Ignore) for column in columns.values()):
        raise InvalidArgument("data", data.name, "at least one column to predict from, besides target, unit and groups")
    return Schema(columns=columns, target=target, classes=declared.classes, unit=unit, groups=groups)


def _kind(data: TableSource, name: str, declared: Schema, groups: tuple[str, ...]) -> Column:
    if name in declared.columns:
        column = declared.columns[name]
        if data.kind(name) == OTHER and not isinstance(column, Ignore):
            raise InvalidArgument("column", name, "numbers or text", "It is of another type", "Declare it as ignore")
        return column
    if name in groups:  # compared by, not learned from, unless somebody says so
        return Ignore()
    if data.kind(name) == TEXT:
        raise text_without_vocabulary(name)
    if data.kind(name) == OTHER:
        raise InvalidArgument("column", name, "numbers or text", "It is of another type", "Declare it as ignore")
    return Numeric()


def text_without_vocabulary(name: str) -> InvalidArgument:
    """Return the refusal of a column of text that nothing was declared of."""
    return InvalidArgument("column", name, "numbers", "It is a text column without a vocabulary", _DECLARE)


def may_hold_text(data: TableSource, name: str) -> bool:
    """Tell whether the file leaves open if a column holds numbers."""
    return data.kind(name) in (UNTYPED, TEXT)
