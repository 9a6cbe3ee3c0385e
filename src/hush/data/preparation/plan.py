"""What will be done with each column, from names, types and declarations; no value is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from hush.data.tables.columns import Category, Column, Ignore, Numeric
from hush.data.tables.schema import Schema
from hush.data.tables.source import ImageSource, Source
from hush.data.tables.table import OTHER, TEXT, UNTYPED, TableSource
from hush.errors import InvalidArgument, Unsupported, check_instance

_DECLARE = "Declare it as category, text with a vocabulary, or ignore: by flags (see --help) or in a schema"


def template(source: Source) -> Schema:
    """Return a schema to fill in: the names of the columns, and kinds as the file declares them.

    No value is read. Columns of a CSV file have no declared type, and start as numeric.
    """
    if not isinstance(source, TableSource):
        return Schema(classes=source.classes if isinstance(source, ImageSource) else None)
    kinds: dict[str, Column] = {TEXT: Category(), OTHER: Ignore()}
    return Schema(columns={name: kinds.get(source.kind(name), Numeric()) for name in source.columns})


def needs_learning(
    source: Source,
    target: str | None = None,
    schema: Schema | None = None,
    unit: str | None = None,
    groups: Sequence[str] = (),
) -> list[str]:
    """Return what `prepare` would learn privately, in words; empty if everything is declared.

    Decided by names, types and declarations, so that a budget can be split before anything is read.
    """
    plan = resolve(source, target, schema, unit, groups)
    numbers, texts = to_learn(plan)
    wanted = [f"bounds of column {name!r}" for name in numbers] + [f"values of column {name!r}" for name in texts]
    return wanted if plan.classes is not None else [*wanted, "classes of the target"]


def to_learn(plan: Schema) -> tuple[list[str], list[str]]:
    """Return the columns whose bounds, and those whose values, are not declared."""
    numbers = [name for name, column in plan.columns.items() if isinstance(column, Numeric) and not column.complete]
    texts = [name for name, column in plan.columns.items() if isinstance(column, Category) and not column.complete]
    return numbers, texts


def resolve(
    source: Source, target: str | None, schema: Schema | None, unit: str | None, groups: Sequence[str]
) -> Schema:
    """Return the schema with a kind for every column that is a feature, and with what was given beside it."""
    check_instance("source", source, Source, "open_source makes one")
    declared = Schema() if schema is None else schema
    check_instance("schema", declared, Schema)
    if isinstance(groups, str):
        raise InvalidArgument("groups", groups, "a list of columns")
    roles = _either("target", target, declared.target), _either("unit", unit, declared.unit)
    every = tuple(dict.fromkeys((*groups, *declared.groups)))
    if isinstance(source, ImageSource):
        return _image_plan(source, declared, roles, every)
    if not isinstance(source, TableSource):
        raise Unsupported("a source of another kind", "open_source makes them")
    return _table_plan(source, declared, roles, every)


def _either(name: str, given: str | None, declared: str | None) -> str | None:
    if given is not None and declared is not None and given != declared:
        raise InvalidArgument(name, given, f"{declared!r}, as in the schema, or nothing")
    return declared if given is None else given


def _image_plan(
    source: ImageSource, declared: Schema, roles: tuple[str | None, str | None], groups: tuple[str, ...]
) -> Schema:
    for name, given in (("target", None if roles[0] == "label" else roles[0]), ("unit", roles[1]), ("groups", groups)):
        if given:
            raise InvalidArgument(name, given, "nothing", "Images have labels, and no columns", "Leave it out")
    if declared.columns:
        raise InvalidArgument("schema", "columns", "none", "Images have no columns")
    return Schema(classes=declared.classes or source.classes, images=declared.images)


def _table_plan(
    source: TableSource, declared: Schema, roles: tuple[str | None, str | None], groups: tuple[str, ...]
) -> Schema:
    target, unit = roles
    if target is None:
        raise InvalidArgument("target", None, "the column to predict", "Columns: " + ", ".join(source.columns[:20]))
    source.check_column("target", target)
    for name in groups:
        source.check_column("groups", name)
    if unit is not None and source.check_column("unit", unit) == target:
        raise InvalidArgument("unit", unit, "another column than the target")
    for name, column in declared.columns.items():
        if not isinstance(column, Ignore):
            source.check_column("schema", name)
    for name in (target, *groups, *(() if unit is None else (unit,))):
        if source.kind(name) == OTHER:
            raise InvalidArgument("column", name, "numbers or text, as it is a target, unit or group")
    columns = {name: _kind(source, name, declared, groups) for name in source.columns if name not in (target, unit)}
    if all(isinstance(column, Ignore) for column in columns.values()):
        raise InvalidArgument(
            "data", source.name, "at least one column to predict from, besides target, unit and groups"
        )
    return Schema(columns=columns, target=target, classes=declared.classes, unit=unit, groups=groups)


def _kind(source: TableSource, name: str, declared: Schema, groups: tuple[str, ...]) -> Column:
    if name in declared.columns:
        column = declared.columns[name]
        if source.kind(name) == OTHER and not isinstance(column, Ignore):
            raise InvalidArgument("column", name, "numbers or text", "It is of another type", "Declare it as ignore")
        return column
    if name in groups:  # compared by, not learned from, unless somebody says so
        return Ignore()
    if source.kind(name) == TEXT:
        raise text_without_vocabulary(name)
    if source.kind(name) == OTHER:
        raise InvalidArgument("column", name, "numbers or text", "It is of another type", "Declare it as ignore")
    return Numeric()


def text_without_vocabulary(name: str) -> InvalidArgument:
    """Return the refusal of a column of text that nothing was declared of."""
    return InvalidArgument("column", name, "numbers", "It is a text column without a vocabulary", _DECLARE)


def may_hold_text(source: TableSource, name: str) -> bool:
    """Tell whether the file leaves open if a column holds numbers."""
    return source.kind(name) in (UNTYPED, TEXT)
