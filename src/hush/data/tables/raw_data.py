"""Raw data: a table of columns, or images with labels. Opening them reads no value.

`RawData` is what `hush.data.open_data` returns. Its two kinds are `TableData` (in `hush.data.tables.table`) and
`ImageData` (here), whose content is `Pictures`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.columns import Images
from hush.errors import InvalidArgument
from hush.notebook import card, short_repr

_LARGEST_EXACT = 2.0**53  # floats hold every integer up to here


class RawData(ABC):
    """Data that have been opened but not read. `hush.data.open_data` returns one.

    >>> from hush.data import open_data
    >>> digits = open_data("digits")
    >>> digits.name, digits.is_image, digits.columns
    ('digits', True, None)

    Attributes:
        name: The name that the caller used.
    """

    name: str

    @property
    @abstractmethod
    def is_image(self) -> bool:
        """Whether examples are images; otherwise they are rows of a table."""

    @property
    @abstractmethod
    def columns(self) -> list[str] | None:
        """The names of a table's columns; None for images."""

    @property
    @abstractmethod
    def public_facts(self) -> tuple[str, ...]:
        """The properties of this kind of file that are treated as public."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """The public facts, and whatever else is assumed about this kind of file."""

    def __repr__(self) -> str:
        """Return one line: the names, which are public. No value is read."""
        return short_repr(type(self).__name__, {"name": self.name, "columns": self.columns})

    def _repr_html_(self) -> str:
        """Return what is public about the data for a notebook. No value is read."""
        columns = None if self.columns is None else ", ".join(self.columns)
        facts = {"data": self.name, "columns": columns, "examples": "images" if self.is_image else "rows of a table"}
        return card("Data that are opened, not read", facts, notes=self.assumptions)


@dataclass(frozen=True)
class Pictures:
    """Images and their labels.

    Attributes:
        images: An array [N, C, H, W] of any real type.
        labels: A label for each image, as text.
    """

    images: NDArray[Any]
    labels: NDArray[np.str_]

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together, by their types and shapes alone."""
        if self.images.ndim != 4 or self.images.dtype.kind not in "buif":
            described = f"{self.images.dtype} of {self.images.ndim} dimensions"
            raise InvalidArgument("images", described, "numbers, [examples, height, width] or with channels")
        if self.labels.shape != self.images.shape[:1]:
            raise InvalidArgument("labels.shape", self.labels.shape, "one label for each image")
        if 0 in self.images.shape:
            raise InvalidArgument("images.shape", self.images.shape, "at least one image, and one pixel")


class ImageData(RawData):
    """Images with labels.

    Attributes:
        classes: The existing labels if they are public: those of a known dataset, or the names of folders.
        public_test: Whether the test part is that of a known public dataset.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[Images | None], tuple[Pictures, Pictures | None]],
        *,
        classes: tuple[str, ...] | None = None,
        public_test: bool = False,
        full_range: tuple[float, float] | None = None,
        public_facts: tuple[str, ...] = (),
        assumptions: tuple[str, ...] = (),
    ) -> None:
        """Describe the images.

        Args:
            name: The name that the caller used.
            load: Reads the training part and the test part, for a declared range and shape, if there is one.
            classes: The existing labels if they are public.
            public_test: Whether the test part is that of a known public dataset.
            full_range: The range of pixel values; None if it follows from their type.
            public_facts: Facts treated as public, besides the number, size and type of the images.
            assumptions: Further assumptions.
        """
        self.name = name
        self.classes = classes
        self.public_test = public_test
        self._load = load
        self._full_range = full_range
        self._public_facts, self._assumptions = public_facts, assumptions

    @property
    def is_image(self) -> bool:
        """Always true."""
        return True

    @property
    def columns(self) -> None:
        """None: images have no columns."""
        return None

    @property
    def public_facts(self) -> tuple[str, ...]:
        """The properties that are taken to be public."""
        return ("the number, size and type of the images are public", *self._public_facts)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public facts, and whatever else is assumed."""
        return (*self.public_facts, *self._assumptions)

    @cached_property
    def _undeclared_parts(self) -> tuple[Pictures, Pictures | None]:
        return self._load(None)

    def read(self, declared: Images | None) -> tuple[Pictures, Pictures | None]:
        """Return the training part and, if the data have one, the test part.

        Args:
            declared: The declared range and shape, if there is one.
        """
        return self._undeclared_parts if declared is None else self._load(declared)

    def described(self, declared: Images | None, pictures: Pictures) -> Images:
        """Return the range and shape of images: as declared, or as they follow from the type of the numbers.

        Args:
            declared: The declared range and shape, if there is one.
            pictures: The images.
        """
        _, *sides = pictures.images.shape
        shape = (sides[0], sides[1], sides[2])
        if declared is not None:
            if declared.shape is not None and declared.shape != shape:
                raise InvalidArgument("shape", declared.shape, f"{shape}, the shape of the images")
            return Images(lower=declared.lower, upper=declared.upper, shape=shape)
        lower, upper = self._full_range or _pixel_range(pictures.images.dtype)
        return Images(lower=lower, upper=upper, shape=shape)


def _pixel_range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the range of pixels of a type: 0 to 255 for bytes, 0 to 1 for floats and booleans."""
    if dtype == np.uint8:
        return 0.0, 255.0
    if dtype.kind in "bf":
        return 0.0, 1.0
    raise InvalidArgument(
        "images.dtype", str(dtype), "bytes, or fractions from 0 to 1", "Declare the range of the pixels in a schema"
    )


def as_labels(labels: NDArray[Any]) -> NDArray[np.str_]:
    """Return labels as text: integers without a decimal point, and NaN as an empty text.

    >>> as_labels(np.array([3.0, 2.5, np.nan])).tolist()
    ['3', '2.5', '']
    """
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1 or labels.dtype.kind not in "bufiUS":
        raise InvalidArgument("labels", f"{labels.dtype} of {labels.ndim} dimensions", "one number or text per example")
    if labels.dtype.kind == "f":
        is_integer = np.isfinite(labels) & (labels == np.trunc(labels)) & (np.abs(labels) < _LARGEST_EXACT)
        integers = np.where(is_integer, labels, 0).astype(np.int64).astype(str)
        return np.where(np.isnan(labels), "", np.where(is_integer, integers, labels.astype(str)))
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    return np.char.strip(labels.astype(str))


def as_images(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as [N, C, H, W]: grey images get a channel, and channels that come last are moved."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] not in (1, 3, 4) and images.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images
