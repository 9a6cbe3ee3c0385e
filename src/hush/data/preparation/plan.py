"""Decides how to treat each column, from names, types and declarations. No value is read.

`template` and `needs_learning` are for you; `resolve` and `to_learn` are for `hush.data.preparation.prepared_data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hush.data.tables.catalog import ROW
from hush.data.tables.columns import Category, Column, Ignore, Numeric
from hush.data.tables.raw_data import ImageData, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import OTHER, TEXT, UNTYPED, TableData
from hush.errors import InvalidArgument, Unsupported, check_instance

_DECLARE_TEXT = "Declare it as category, text with a vocabulary, or ignore: by flags (see --help) or in a schema"


def template(data: RawData) -> Schema:
    """Return a schema to fill in: the names of the columns, with the kinds that the file declares.

    No value is read. Columns of a CSV file have no declared type, and start as numeric.

    >>> from hush.data import open_data
    >>> template(open_data("digits")).classes[:3]
    ('0', '1', '2')

    Args:
        data: From `open_data`.
    """
    if not isinstance(data, TableData):
        return Schema(classes=data.classes if isinstance(data, ImageData) else None)
    kinds: dict[str, Column] = {TEXT: Category(), OTHER: Ignore()}
    return Schema(columns={name: kinds.get(data.kind(name), Numeric()) for name in data.columns})


def needs_learning(
    data: RawData,
    target: str | None = None,
    schema: Schema | None = None,
    unit: str | None = None,
    groups: Sequence[str] = (),
) -> list[str]:
    """Return what `prepare` would have to learn privately, in words; an empty list if everything is declared.

    It depends on names, types and declarations only, so you can split a budget before anything is read.

    >>> from hush.data import open_data
    >>> needs_learning(open_data("digits"))
    []

    Args:
        data: From `open_data`.
        target: The column to predict; images have labels instead.
        schema: Your declarations.
        unit: The column with the privacy unit of each row.
        groups: Columns by which accuracy will be compared.
    """
    plan = resolve(data, target, schema, unit, groups)
    numbers, texts = to_learn(plan)
    items = [f"bounds of column {name!r}" for name in numbers] + [f"values of column {name!r}" for name in texts]
    return [*items, "classes of the target"] if learns_classes(plan) else items


def learns_classes(plan: Schema) -> bool:
    """Return whether the classes of the target have to be learned."""
    return plan.predicts_class and plan.classes is None


def numeric_columns(plan: Schema, *, with_target: bool = True) -> dict[str, Numeric]:
    """Return the columns of numbers or dates, with a target that is a number last, if it is wanted."""
    columns = {name: column for name, column in plan.columns.items() if isinstance(column, Numeric)}
    if with_target and plan.target_range is not None:
        columns[str(plan.target)] = plan.target_range
    return columns


def to_learn(plan: Schema) -> tuple[list[str], list[str]]:
    """Return the columns whose bounds are not declared, perhaps with the target, and those whose values are not."""
    numbers = [name for name, column in numeric_columns(plan).items() if not column.complete]
    texts = [name for name, column in plan.columns.items() if isinstance(column, Category) and not column.complete]
    return numbers, texts


def resolve(
    data: RawData, target: str | None, schema: Schema | None, unit: str | None, groups: Sequence[str]
) -> Schema:
    """Return a schema with a kind for every column that is a feature. The arguments are those of `needs_learning`."""
    check_instance("data", data, RawData, "open_data makes one")
    declared = Schema() if schema is None else schema
    check_instance("schema", declared, Schema)
    if isinstance(groups, str):
        raise InvalidArgument("groups", groups, "a list of columns")
    target, unit = _merged("target", target, declared.target), _merged("unit", unit, declared.unit)
    if unit == ROW:
        if ROW in (data.columns or ()):
            raise InvalidArgument(
                "unit", ROW, "an unambiguous name: the data have a column called row", "Rename the column"
            )
        unit = None  # each row is its own unit
    all_groups = tuple(dict.fromkeys((*groups, *declared.groups)))
    if isinstance(data, ImageData):
        return _image_plan(data, declared, target, unit, all_groups)
    if not isinstance(data, TableData):
        raise Unsupported("data of another kind", "Use what open_data returns")
    return _table_plan(data, declared, target, unit, all_groups)


def _merged(name: str, argument: str | None, declared: str | None) -> str | None:
    """Return a setting that is an argument, or in the schema, or the same in both."""
    if argument is not None and declared is not None and argument != declared:
        raise InvalidArgument(name, argument, f"{declared!r}, as in the schema, or nothing")
    return declared if argument is None else argument


def _image_plan(
    data: ImageData, declared: Schema, target: str | None, unit: str | None, groups: tuple[str, ...]
) -> Schema:
    image_target = None if target == "label" else target
    for name, setting in (("target", image_target), ("unit", unit), ("groups", groups)):
        if setting:
            raise InvalidArgument(name, setting, "nothing", "Images have labels, and no columns", "Leave it out")
    if declared.columns:
        raise InvalidArgument("schema", "columns", "none", "Images have no columns")
    return Schema(classes=declared.classes or data.classes, images=declared.images)


def _table_plan(
    data: TableData, declared: Schema, target: str | None, unit: str | None, groups: tuple[str, ...]
) -> Schema:
    if target is None and not declared.labels:
        raise InvalidArgument("target", None, "the column to predict", "Columns: " + ", ".join(data.columns[:20]))
    targets = declared.labels or (str(target),)
    for name in targets:
        data.check_column("target", name)
    for name in groups:
        data.check_column("groups", name)
    if unit is not None and data.check_column("unit", unit) in targets:
        raise InvalidArgument("unit", unit, "a column other than the target")
    for name, column in declared.columns.items():
        if not isinstance(column, Ignore):
            data.check_column("schema", name)
    for name in (*targets, *groups, *(() if unit is None else (unit,))):
        if data.kind(name) == OTHER:
            raise InvalidArgument("column", name, "numbers or text", "It is the target, the unit or a group")
    columns = {
        name: _column_kind(data, name, declared, groups) for name in data.columns if name not in (*targets, unit)
    }
    if all(isinstance(column, Ignore) for column in columns.values()):
        raise InvalidArgument("data", data.name, "at least one column to predict from, besides target, unit and groups")
    return replace(declared, columns=columns, target=target, unit=unit, groups=groups)


def _column_kind(data: TableData, name: str, declared: Schema, groups: tuple[str, ...]) -> Column:
    """Return the declared kind of a column; without one, the kind that follows from the type in the file."""
    is_other = data.kind(name) == OTHER
    if name in declared.columns:
        column = declared.columns[name]
        if is_other and not isinstance(column, Ignore):
            raise _neither_numbers_nor_text(name)
        return column
    if name in groups:  # accuracy is compared by it; it is a feature only if the schema lists it
        return Ignore()
    if data.kind(name) == TEXT:
        raise text_without_vocabulary(name)
    if is_other:
        raise _neither_numbers_nor_text(name)
    return Numeric()


def _neither_numbers_nor_text(name: str) -> InvalidArgument:
    return InvalidArgument("column", name, "numbers or text", "It has a different type", "Declare it as ignore")


def text_without_vocabulary(name: str) -> InvalidArgument:
    """Return the refusal of a text column without a declaration."""
    return InvalidArgument("column", name, "numbers", "It is a text column without a vocabulary", _DECLARE_TEXT)


def may_hold_text(data: TableData, name: str) -> bool:
    """Return whether the declared type of a column leaves open whether it holds numbers."""
    return data.kind(name) in (UNTYPED, TEXT)
