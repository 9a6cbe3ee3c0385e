"""Where data come from: a table of columns, or images with labels. Opening one looks at no value."""

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


class RawData(ABC):
    """Data that were found and not read yet. `hush.data.open_data` makes one.

    Attributes:
        name: What the caller called it.
    """

    name: str

    @property
    @abstractmethod
    def is_image(self) -> bool:
        """Whether examples are images; else they are rows of a table."""

    @property
    @abstractmethod
    def columns(self) -> list[str] | None:
        """Names of the columns of a table; None for images."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public of this kind of file."""


@dataclass(frozen=True)
class Pictures:
    """Images [N, C, H, W] of any real type, and a label for each, as text."""

    images: NDArray[Any]
    labels: NDArray[np.str_]

    def __post_init__(self) -> None:
        """Refuse what does not fit together, by shape alone."""
        if self.images.ndim != 4 or self.images.dtype.kind not in "buif":
            described = f"{self.images.dtype} of {self.images.ndim} dimensions"
            raise InvalidArgument("images", described, "numbers, [examples, height, width] or with channels")
        if self.labels.shape != self.images.shape[:1]:
            raise InvalidArgument("labels.shape", self.labels.shape, "one label for each image")
        if 0 in self.images.shape:
            raise InvalidArgument("images.shape", self.images.shape, "at least one image, and one pixel")


class ImageSource(RawData):
    """Images with labels.

    Attributes:
        classes: The labels that exist, where they are public: of a known data set, or the names of folders.
        public_test: Whether the test part is that of a known public data set.
    """

    def __init__(
        self,
        name: str,
        load: Callable[[Images | None], tuple[Pictures, Pictures | None]],
        *,
        classes: tuple[str, ...] | None = None,
        public_test: bool = False,
        full_range: tuple[float, float] | None = None,
        assumptions: tuple[str, ...] = (),
    ) -> None:
        """Describe a source; ``load`` reads it, for a declared range and shape, where they are."""
        self.name = name
        self.classes = classes
        self.public_test = public_test
        self._load = load
        self._full_range = full_range
        self._assumptions = assumptions

    @property
    def is_image(self) -> bool:
        """Always."""
        return True

    @property
    def columns(self) -> None:
        """None: images have no columns."""
        return None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken to be public."""
        return ("the number, size and type of the images are public", *self._assumptions)

    @cached_property
    def _whole(self) -> tuple[Pictures, Pictures | None]:
        return self._load(None)

    def read(self, declared: Images | None) -> tuple[Pictures, Pictures | None]:
        """Return the training part and, where the source has one of its own, the test part."""
        return self._whole if declared is None else self._load(declared)

    def described(self, declared: Images | None, pictures: Pictures) -> Images:
        """Return range and shape: as declared, or as they follow from the type of the numbers."""
        _, *sides = pictures.images.shape
        shape = (sides[0], sides[1], sides[2])
        if declared is not None:
            if declared.shape is not None and declared.shape != shape:
                raise InvalidArgument("shape", declared.shape, f"{shape}, as the images have it")
            return Images(lower=declared.lower, upper=declared.upper, shape=shape)
        lower, upper = self._full_range or _range_of(pictures.images.dtype)
        return Images(lower=lower, upper=upper, shape=shape)


def _range_of(dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the range that a type of pixels has: that of a byte, or 0 to 1 for fractions and truth values."""
    if dtype == np.uint8:
        return 0.0, 255.0
    if dtype.kind in "bf":
        return 0.0, 1.0
    raise InvalidArgument(
        "images.dtype", str(dtype), "bytes, or fractions from 0 to 1", "Declare the range of the pixels in a schema"
    )


def as_labels(labels: NDArray[Any]) -> NDArray[np.str_]:
    """Return labels as text; whole numbers without a decimal point, what is no number as an empty text."""
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.dtype.kind == "f":
        whole = np.isfinite(labels) & (labels == np.trunc(labels)) & (np.abs(labels) < 2.0**53)
        texts = np.where(whole, np.where(whole, labels, 0).astype(np.int64).astype(str), labels.astype(str))
        return np.where(np.isnan(labels), "", texts)
    if labels.ndim != 1 or labels.dtype.kind not in "buiUS":
        raise InvalidArgument("labels", f"{labels.dtype} of {labels.ndim} dimensions", "one number or text per example")
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8", "replace")
    return np.char.strip(labels.astype(str))


def as_images(images: NDArray[Any]) -> NDArray[Any]:
    """Return images as [N, C, H, W]: a channel is added to grey ones, and put first if it stands last."""
    if images.ndim == 3:
        return images[:, None]
    if images.ndim == 4 and images.shape[1] not in (1, 3, 4) and images.shape[3] in (1, 3, 4):
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))
    return images
