"""The schema: what you declare about the data. Everything in it counts as public.

It holds bounds, categories, vocabularies, classes and the privacy unit. Everything in it was either known before anyone
looked at the data, or learned privately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hush.data.tables.columns import Category, Column, HashedText, Ignore, Images, Numeric, Text, distinct_texts
from hush.data.tables.schema_json import decode, encode
from hush.errors import InvalidArgument, check_instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The declarations for a table or for images. `hush.data.template` makes one to fill in.

    >>> schema = Schema(columns={"age": Numeric(lower=0, upper=120)}, target="smokes", classes=("no", "yes"))
    >>> Schema.from_json(schema.to_json()) == schema
    True

    Attributes:
        columns: The kind of each column. A column that is not listed counts as numeric with bounds to learn, unless
            the file declares it as text: then you must list it.
        target: The column to predict.
        classes: The values of the target; None to learn them privately. Rows with other values do not count.
        unit: The column with the privacy unit of each row. If omitted, each row is its own unit. It is never a feature.
        groups: Columns to compare accuracy by. They are features only if you list them in ``columns``.
        images: The range and shape of images; None for a table, or if they follow from the type of the file.
        target_range: For a target that is a number: its range, with bounds to learn where they are None. None for a
            target that is one of several classes.
        labels: The columns to predict together, each of which is true or false, in place of one target.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    target: str | None = None
    classes: tuple[str, ...] | None = None
    unit: str | None = None
    groups: tuple[str, ...] = ()
    images: Images | None = None
    target_range: Numeric | None = None
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check everything that can be checked without the data."""
        check_instance("columns", self.columns, Mapping)
        for name, column in self.columns.items():
            check_instance("columns", name, str)
            check_instance(f"columns[{name!r}]", column, (Numeric, Category, Text, HashedText, Ignore))
        object.__setattr__(self, "columns", dict(self.columns))
        for role, column_name in (("target", self.target), ("unit", self.unit)):
            check_instance(role, column_name, (str, type(None)), "The name of a column")
        object.__setattr__(self, "groups", distinct_texts("groups", self.groups, minimum=0))
        if self.classes is not None:
            object.__setattr__(self, "classes", _checked_classes(self.classes))
        if self.images is not None:
            check_instance("images", self.images, Images)
        check_instance("target_range", self.target_range, (Numeric, type(None)))
        object.__setattr__(self, "labels", distinct_texts("labels", self.labels, minimum=0))
        if (self.classes is not None) + (self.target_range is not None) + bool(self.labels) > 1:
            raise InvalidArgument("classes", self.classes, "one of classes=, target_range= and labels=")

    @property
    def predicts_class(self) -> bool:
        """Whether the target is one of several classes, rather than a number or several labels."""
        return self.target_range is None and not self.labels

    def save(self, path: str | Path) -> None:
        """Write the schema as JSON, with help for editing it."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """Return the text that `save` writes."""
        return encode(
            columns=self.columns,
            target=self.target,
            classes=self.classes,
            unit=self.unit,
            groups=self.groups,
            images=self.images,
            target_range=self.target_range,
            labels=self.labels,
        )

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Return the schema that a JSON text describes. Paths of vocabularies are relative to the current folder."""
        return cls(**decode(text, Path()))

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema. Paths of vocabularies are relative to the schema's folder."""
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("schema", str(path), "a readable JSON file", "hush schema DATA writes one") from None
        return cls(**decode(text, file.parent))


def _checked_classes(classes: Any) -> tuple[str, ...]:
    names = distinct_texts("classes", classes, minimum=0)
    if len(names) < 2:
        raise InvalidArgument(
            "classes", list(names), "at least two classes", "With one there is nothing to predict", "Declare them all"
        )
    return names
