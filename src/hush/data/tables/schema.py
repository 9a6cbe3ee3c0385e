"""What is declared of the data: bounds, categories, vocabularies, classes, and who is protected.

A schema is public: what stands in it was known before the data were looked at, or was learned privately.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hush.data.tables.columns import Category, Column, Ignore, Images, Numeric, Text, texts
from hush.data.tables.schema_json import decode, encode
from hush.errors import InvalidArgument, check_instance


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What is declared, for a table or for images. `hush.data.template` makes one to fill in.

    Attributes:
        columns: What each column is. One that is not listed counts as numbers whose bounds are learned, unless the
            file declares it as text: then it must be listed.
        target: The column that is predicted.
        classes: Its values; None if they are to be learned privately. Rows of other values are dropped.
        unit: The column that says whose row it is; None if each row is somebody else's. Never a feature.
        groups: Columns by which accuracy is compared. Features only if they are listed in ``columns``.
        images: The range and shape of images; None for a table, or if it follows from the type of the file.
    """

    columns: Mapping[str, Column] = field(default_factory=dict)
    target: str | None = None
    classes: tuple[str, ...] | None = None
    unit: str | None = None
    groups: tuple[str, ...] = ()
    images: Images | None = None

    def __post_init__(self) -> None:
        """Check what can be without the data."""
        check_instance("columns", self.columns, Mapping)
        for name, column in self.columns.items():
            check_instance("columns", name, str)
            check_instance(f"columns[{name!r}]", column, (Numeric, Category, Text, Ignore))
        object.__setattr__(self, "columns", dict(self.columns))
        for name, given in (("target", self.target), ("unit", self.unit)):
            check_instance(name, given, (str, type(None)), "The name of a column")
        object.__setattr__(self, "groups", texts("groups", self.groups, minimum=0))
        if self.classes is not None:
            object.__setattr__(self, "classes", check_classes(self.classes))
        if self.images is not None:
            check_instance("images", self.images, Images)

    def save(self, path: str | Path) -> None:
        """Write the schema as JSON, with a line of help for whoever edits it."""
        Path(path).write_text(self.to_json(), encoding="utf-8")

    def to_json(self) -> str:
        """Return what `save` writes."""
        return encode(
            columns=self.columns,
            target=self.target,
            classes=self.classes,
            unit=self.unit,
            groups=self.groups,
            images=self.images,
        )

    @classmethod
    def from_json(cls, text: str) -> Schema:
        """Return the schema of such a text; the path of a vocabulary counts from the current folder."""
        return cls(**decode(text, Path()))

    @classmethod
    def load(cls, path: str | Path) -> Schema:
        """Read a schema; the path of a vocabulary counts from the folder that the schema is in."""
        where = Path(path)
        try:
            text = where.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise InvalidArgument("schema", str(path), "a readable JSON file", "hush schema DATA writes one") from None
        return cls(**decode(text, where.parent))


def check_classes(classes: Any) -> tuple[str, ...]:
    """Return at least two different classes, trimmed as values of the data are."""
    names = texts("classes", classes, minimum=0)
    if len(names) < 2:
        raise InvalidArgument(
            "classes", list(names), "at least two classes", "With one there is nothing to predict", "Declare them all"
        )
    return names
