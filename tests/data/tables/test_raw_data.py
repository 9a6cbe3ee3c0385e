"""Images and labels: their shapes, their range, and labels as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hush.data import Images
from hush.data.tables.raw_data import ImageData, Pictures, as_images, as_labels
from hush.errors import InvalidArgument


def source_of(images: Any, **settings: Any) -> tuple[ImageData, Pictures, list[Any]]:
    """Return a source of images, its pictures, and the declarations that it was loaded with."""
    pictures, loaded = Pictures(images, np.array(["a"] * len(images))), []

    def load(declared: Images | None) -> tuple[Pictures, None]:
        loaded.append(declared)
        return pictures, None

    return ImageData("test", load, **settings), pictures, loaded


def test_the_range_follows_from_the_type() -> None:
    for dtype, upper in ((np.uint8, 255.0), (np.float32, 1.0), (np.bool_, 1.0)):
        source, pictures, _ = source_of(np.zeros((2, 1, 3, 4), dtype=dtype))
        assert source.described(None, pictures) == Images(lower=0, upper=upper, shape=(1, 3, 4))
    source, pictures, _ = source_of(np.zeros((2, 1, 3, 4), dtype=np.int32))
    with pytest.raises(InvalidArgument, match="Declare the range"):
        source.described(None, pictures)
    known, pictures, _ = source_of(np.zeros((2, 1, 3, 4), dtype=np.int32), full_range=(0.0, 16.0))
    assert known.described(None, pictures).upper == 16.0


def test_a_declared_range_wins_and_a_declared_shape_must_fit() -> None:
    source, pictures, _ = source_of(np.zeros((2, 3, 5, 4), dtype=np.uint8))
    assert source.described(Images(lower=-1, upper=7), pictures) == Images(lower=-1, upper=7, shape=(3, 5, 4))
    with pytest.raises(InvalidArgument, match=r"^shape="):
        source.described(Images(lower=0, upper=1, shape=(1, 5, 4)), pictures)


def test_images_are_read_when_needed_and_once() -> None:
    source, pictures, loaded = source_of(np.zeros((2, 1, 3, 4), dtype=np.uint8), assumptions=("of the folder",))
    assert loaded == []
    assert source.read(None)[0] is pictures
    assert source.read(None)[0] is pictures
    assert loaded == [None]
    declared = Images(lower=0, upper=9)
    source.read(declared)
    assert loaded == [None, declared]
    assert source.assumptions == ("the number, size and type of the images are public", "of the folder")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ([3, -1], ["3", "-1"]),
        ([3.0, 2.5, np.nan, np.inf, 1e300], ["3", "2.5", "", "inf", "1e+300"]),
        ([[7], [8]], ["7", "8"]),
        ([" a ", "b"], ["a", "b"]),
        ([b"caf\xc3\xa9", b"\xff"], ["café", "\ufffd"]),
        ([True, False], ["True", "False"]),
    ],
)
def test_labels_are_text(labels: Any, expected: list[str]) -> None:
    assert as_labels(np.array(labels)).tolist() == expected


@pytest.mark.parametrize("labels", [np.zeros((2, 2)), np.array([None, "a"]), np.zeros(2, dtype=complex)], ids=str)
def test_what_is_no_label_is_refused(labels: Any) -> None:
    with pytest.raises(InvalidArgument, match="^labels="):
        as_labels(labels)


def test_channels_come_second() -> None:
    assert as_images(np.zeros((2, 5, 4))).shape == (2, 1, 5, 4)
    assert as_images(np.zeros((2, 5, 4, 3))).shape == (2, 3, 5, 4)
    assert as_images(np.zeros((2, 3, 5, 4))).shape == (2, 3, 5, 4)
    assert as_images(np.arange(24).reshape(1, 2, 4, 3))[0, :, 1, 2].tolist() == [18, 19, 20]


@pytest.mark.parametrize(
    "shape", [(0, 1, 2, 2), (2, 1, 0, 2), (2, 2, 2), (2,)], ids=["no images", "no pixels", "no channels", "no sides"]
)
def test_pictures_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidArgument, match="^images"):
        Pictures(np.zeros(shape), np.array(["a"] * shape[0]))
    with pytest.raises(InvalidArgument, match=r"^labels\.shape="):
        Pictures(np.zeros((2, 1, 2, 2)), np.array(["a"]))
