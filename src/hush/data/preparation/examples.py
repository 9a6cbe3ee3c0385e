"""Examples by a complete schema: inputs, targets, units and groups. Nothing is learned here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.preparation.encode import Inputs, encode_images, encode_table
from hush.data.preparation.plan import may_hold_text, text_without_vocabulary
from hush.data.tables.columns import Category, Ignore, Numeric
from hush.data.tables.raw import ImageSource, Pictures, RawData
from hush.data.tables.schema import Schema
from hush.data.tables.table import RowTable, TableSource
from hush.errors import InvalidArgument, Unsupported, check_instance

OTHER_GROUP = "(other)"


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Examples:
    """Inputs [N, ...], targets [N] (places among the classes, -1: none), whose each is (None: its own), groups by name.

    In a preparation, rows without a target stay: how many there are is something about people. A loss that ignores -1
    (``F.cross_entropy(..., ignore_index=-1)``) lets them take part with nothing.
    """

    inputs: Inputs
    targets: NDArray[np.int64]
    units: NDArray[np.int64] | None = None
    groups: dict[str, NDArray[np.str_]] = field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self.targets)

    def among(self, kept: NDArray[np.bool_]) -> Examples:
        """Return the examples of these rows."""
        return Examples(
            inputs=self.inputs[kept],
            targets=self.targets[kept],
            units=None if self.units is None else self.units[kept],
            groups={name: values[kept] for name, values in self.groups.items()},
        )


def transform(schema: Schema, data: RawData) -> Inputs:
    """Return the inputs of all rows or images of a source (its training part), by a complete schema; learn nothing."""
    check_instance("schema", schema, Schema)
    if isinstance(data, ImageSource):
        pictures, _ = data.read(schema.images)
        return encode_images(pictures.images, data.described(schema.images, pictures))
    table = check_complete(schema, data)
    return encode_table(schema.columns, table.table, read_numbers(table, schema))


def examples(schema: Schema, data: RawData) -> Examples:
    """Return the examples of a source (its training part) whose target is one of the classes, by a complete schema."""
    check_instance("schema", schema, Schema)
    if schema.classes is None:
        raise InvalidArgument("schema", "classes", "declared or learned", "Use the schema of a preparation")
    if isinstance(data, ImageSource):
        pictures, _ = data.read(schema.images)
        return picture_examples(data, pictures, schema)
    table = check_complete(schema, data)
    if schema.target is None:
        raise InvalidArgument("schema", "target", "the column to predict")
    for role, names in (("target", (schema.target,)), ("unit", (schema.unit,)), ("groups", schema.groups)):
        for name in names:
            if name is not None:
                table.check_column(role, name)
    units = None if schema.unit is None else _units(table.table, schema.unit)
    found = table_examples(schema, table.table, read_numbers(table, schema), units)
    there = found.targets >= 0
    return found.among(there if units is None else there & (units >= 0))


def check_complete(schema: Schema, data: RawData) -> TableSource:
    """Refuse a schema that does not say everything about this table."""
    if not isinstance(data, TableSource):
        raise Unsupported("a source of another kind", "open_data makes them")
    if schema.images is not None or not schema.columns:
        raise InvalidArgument("schema", "columns", "declared, as this is a table")
    for name, column in schema.columns.items():
        if not column.complete:
            raise InvalidArgument("schema", name, "bounds or values that are known", "Use the schema of a preparation")
        if not isinstance(column, Ignore):
            data.check_column("schema", name)
    return data


def read_numbers(data: TableSource, schema: Schema) -> dict[str, NDArray[np.float64]]:
    """Return the numeric columns; refuse one that holds text.

    A column does if more than half of all rows have something else there than a number: a property of the file's type,
    which counts as public (as if it had been declared), and which a single row turns only where the file is half text.
    """
    names = [name for name, column in schema.columns.items() if isinstance(column, Numeric)]
    numbers = dict(zip(names, data.table.floats(names), strict=True))
    # Most columns are cleared by the numbers themselves; only the others are counted exactly.
    doubtful = [
        name for name in names if may_hold_text(data, name) and 2 * np.isnan(numbers[name]).sum() > len(numbers[name])
    ]
    for name in data.table.text_columns(doubtful):
        raise text_without_vocabulary(name)
    return numbers


def table_examples(
    schema: Schema, table: RowTable, numbers: dict[str, NDArray[np.float64]], units: NDArray[np.int64] | None
) -> Examples:
    """Return one example for each row; the target is -1 where it is none of the classes."""
    return Examples(
        inputs=encode_table(schema.columns, table, numbers),
        targets=table.codes(str(schema.target), schema.classes or ()),
        units=units,
        groups={name: _group(schema, table, name) for name in schema.groups},
    )


def picture_examples(
    data: ImageSource, pictures: Pictures, schema: Schema, rows: NDArray[np.bool_] | None = None
) -> Examples:
    """Return the examples of some images; without a choice, of those whose label is one of the classes."""
    targets = codes_of(pictures.labels, schema.classes or ())
    kept = targets >= 0 if rows is None else rows
    images = pictures.images if kept.all() else pictures.images[kept]
    inputs = encode_images(images, data.described(schema.images, pictures))
    return Examples(inputs=inputs, targets=targets[kept])


def codes_of(labels: NDArray[Any], classes: tuple[str, ...]) -> NDArray[np.int64]:
    """Return the place of each label among the classes, or -1."""
    codes = np.full(len(labels), -1, dtype=np.int64)
    for place, name in enumerate(classes):
        codes[labels == name] = place
    return codes


def _group(schema: Schema, table: RowTable, name: str) -> NDArray[np.str_]:
    """Return the group of each row: one of the declared values, if there are some, else whatever is there."""
    column = schema.columns.get(name)
    if isinstance(column, Category) and column.values is not None:
        return np.array([*column.values, OTHER_GROUP])[table.codes(name, column.values)]
    return table.texts(name).astype(str)


def _units(table: RowTable, name: str) -> NDArray[np.int64]:
    found, units = np.unique(table.texts(name).astype(str), return_inverse=True)
    return np.where(found[units] == "", -1, units).astype(np.int64)
