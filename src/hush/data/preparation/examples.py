"""Builds examples from a complete schema: inputs, targets, units and groups. Nothing is learned here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.preparation.encoding import Inputs, encode_images, encode_table, scaled
from hush.data.preparation.plan import may_hold_text, numeric_columns, text_without_vocabulary
from hush.data.tables.columns import Category, Date, Ignore
from hush.data.tables.raw_data import ImageData, Pictures, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import RowTable, TableData
from hush.errors import InvalidArgument, Unsupported, check_instance

OTHER_GROUP = "(other)"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Examples:
    """Inputs with their targets, units and groups.

    `prepare` keeps rows without a target, because their number is information about people. Use a loss that ignores the
    target -1 (``F.cross_entropy(..., ignore_index=-1)``): such rows then contribute a zero gradient.

    >>> pair = Examples(inputs=np.zeros((2, 3), dtype=np.float32), targets=np.array([1, -1]))
    >>> len(pair), pair.inputs.shape
    (2, (2, 3))

    Attributes:
        inputs: An array [N, ...].
        targets: The index of each example's class; -1 for none of the classes. For a target that is a number: the
            number, scaled to [-1, 1], and NaN where it is missing. For several labels: 0, 1 or -1, [N, labels].
        units: The number of each example's privacy unit; None if each example is its own unit.
        groups: For each group column, the group of each example.
    """

    inputs: Inputs
    targets: NDArray[Any]
    units: NDArray[np.int64] | None = None
    groups: dict[str, NDArray[np.str_]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.targets)

    @property
    def has_target(self) -> NDArray[np.bool_]:
        """Whether each example has a target, or at least one of several labels."""
        is_known = ~np.isnan(self.targets) if self.targets.dtype.kind == "f" else self.targets >= 0
        return np.asarray(np.atleast_2d(np.transpose(is_known)).any(axis=0), dtype=np.bool_)

    def among(self, rows: NDArray[np.bool_]) -> Examples:
        """Return the examples of these rows."""
        return Examples(
            inputs=self.inputs[rows],
            targets=self.targets[rows],
            units=None if self.units is None else self.units[rows],
            groups={name: values[rows] for name, values in self.groups.items()},
        )


def transform(schema: Schema, data: RawData) -> Inputs:
    """Return the inputs of all rows or images of the training part. Nothing is learned.

    >>> from hush.data import Schema, open_data
    >>> transform(Schema(), open_data("digits")).shape
    (1797, 1, 8, 8)

    Args:
        schema: A complete schema, such as that of a `Prepared`.
        data: From `open_data`.
    """
    check_instance("schema", schema, Schema)
    if isinstance(data, ImageData):
        pictures, _ = data.read(schema.images)
        return encode_images(pictures.images, data.described(schema.images, pictures))
    table_data = check_complete(schema, data)
    return encode_table(schema.columns, table_data.table, read_numbers(table_data, schema))


def examples(schema: Schema, data: RawData) -> Examples:
    """Return the examples of the training part whose target is one of the classes. Nothing is learned.

    >>> from hush.data import Schema, open_data
    >>> len(examples(Schema(classes=("0", "1")), open_data("digits")))
    360

    Args:
        schema: A complete schema, such as that of a `Prepared`.
        data: From `open_data`.
    """
    check_instance("schema", schema, Schema)
    if schema.predicts_class and schema.classes is None:
        raise InvalidArgument("schema", "classes", "declared or learned", "Use the schema of a preparation")
    if isinstance(data, ImageData):
        pictures, _ = data.read(schema.images)
        return picture_examples(data, pictures, schema)
    table_data = check_complete(schema, data)
    if schema.target is None and not schema.labels:
        raise InvalidArgument("schema", "target", "the column to predict")
    for role, names in (
        ("target", schema.labels or (schema.target,)),
        ("unit", (schema.unit,)),
        ("groups", schema.groups),
    ):
        for name in names:
            if name is not None:
                table_data.check_column(role, name)
    units = None if schema.unit is None else _unit_numbers(table_data.table, schema.unit)
    every_row = table_examples(schema, table_data.table, read_numbers(table_data, schema, with_target=True), units)
    has_target = every_row.has_target
    return every_row.among(has_target if units is None else has_target & (units >= 0))


def check_complete(schema: Schema, data: RawData) -> TableData:
    """Return the table, if the schema declares everything about it; otherwise refuse."""
    if not isinstance(data, TableData):
        raise Unsupported("data of another kind", "Use what open_data returns")
    if schema.images is not None or not schema.columns:
        raise InvalidArgument("schema", "columns", "declared columns, because the data are a table")
    for name, column in schema.columns.items():
        if not column.complete:
            raise InvalidArgument("schema", name, "known bounds or values", "Use the schema of a preparation")
        if not isinstance(column, Ignore):
            data.check_column("schema", name)
    return data


def read_numbers(data: TableData, schema: Schema, *, with_target: bool = False) -> dict[str, NDArray[np.float64]]:
    """Return the numeric columns, and the target if it is a number and wanted. Refuse one that holds text.

    A column holds text if more than half of all rows have a value there that is not a number. That is a property of the
    file's type, and counts as public, as if it were declared. Where rows are protected, one can change it only if the
    column is half text. A unit could change it with all of its rows; so where the schema names a unit that the data
    have, the first row of each unit counts, and one unit can change it only if half of the units have text there.
    """
    columns = numeric_columns(schema, with_target=with_target)
    dates = [name for name, column in columns.items() if isinstance(column, Date)]
    names = [name for name in columns if name not in dates]
    numbers = dict(zip(names, data.table.floats(names), strict=True))
    unit = schema.unit if schema.unit in data.columns else None
    # By rows, most columns are cleared by their numbers. Only the others are counted exactly.
    doubtful = [
        name
        for name in names
        if may_hold_text(data, name) and (unit or 2 * np.isnan(numbers[name]).sum() > len(numbers[name]))
    ]
    for name in data.table.text_columns(doubtful, unit):
        raise text_without_vocabulary(name)
    return numbers | dict(zip(dates, data.table.moments(dates), strict=True))


def table_examples(
    schema: Schema, table: RowTable, numbers: dict[str, NDArray[np.float64]], units: NDArray[np.int64] | None
) -> Examples:
    """Return one example per row, with the target -1 for rows that have none of the classes.

    Args:
        schema: A complete schema.
        table: The rows.
        numbers: Their numeric columns.
        units: The number of each row's unit; None if each row is a unit.
    """
    return Examples(
        inputs=encode_table(schema.columns, table, numbers),
        targets=_targets(schema, table, numbers),
        units=units,
        groups={name: _group_names(schema, table, name) for name in schema.groups},
    )


def _targets(schema: Schema, table: RowTable, numbers: dict[str, NDArray[np.float64]]) -> NDArray[Any]:
    """Return the targets of all rows, as `Examples.targets` describes them."""
    if schema.labels:
        return np.stack([table.truths(name) for name in schema.labels], axis=1)
    if schema.target_range is None:
        return table.codes(str(schema.target), schema.classes or ())
    values = numbers[str(schema.target)]
    return np.where(np.isnan(values), np.float32(np.nan), scaled(values, schema.target_range))


def picture_examples(
    data: ImageData, pictures: Pictures, schema: Schema, rows: NDArray[np.bool_] | None = None
) -> Examples:
    """Return images as examples.

    Args:
        data: Where the images were read.
        pictures: The images.
        schema: A schema with classes.
        rows: Which images to use; None for those whose label is one of the classes.
    """
    targets = codes_of(pictures.labels, schema.classes or ())
    chosen = targets >= 0 if rows is None else rows
    images = pictures.images if chosen.all() else pictures.images[chosen]
    inputs = encode_images(images, data.described(schema.images, pictures))
    return Examples(inputs=inputs, targets=targets[chosen])


def codes_of(labels: NDArray[Any], classes: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the index of each label among the classes, or -1."""
    codes = np.full(len(labels), -1, dtype=np.int64)
    for code, name in enumerate(classes):
        codes[labels == name] = code
    return codes


def _group_names(schema: Schema, table: RowTable, name: str) -> NDArray[np.str_]:
    """Return the group of each row: one of the declared values or "(other)"; without declared values, the text."""
    column = schema.columns.get(name)
    if isinstance(column, Category) and column.values is not None:
        return np.array([*column.values, OTHER_GROUP])[table.codes(name, column.values)]
    return table.texts(name).astype(str)


def _unit_numbers(table: RowTable, name: str) -> NDArray[np.int64]:
    """Return a number for each row's unit, and -1 for rows without one."""
    ids, numbers = np.unique(table.texts(name).astype(str), return_inverse=True)
    return np.where(ids[numbers] == "", -1, numbers).astype(np.int64)
