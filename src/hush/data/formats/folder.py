"""Image folders: one folder for each class, PNG and JPEG files in them.

Names of folders are public, and so are the size and the kind that more than half of the images have: they are the
type of the data. An image that cannot be read is left out, one of another size is scaled; each by itself.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.columns import Images
from hush.data.tables.raw import ImageSource, Pictures
from hush.errors import InvalidArgument, Unsupported

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
_GREY = frozenset({"1", "L", "LA", "I", "I;16", "F"})


def is_image_folder(folder: Path) -> bool:
    """Tell whether there are folders with images in this one."""
    return any(_files(each) for each in _class_folders(_split(folder)[0]))


def open_folder(folder: Path, name: str) -> ImageSource:
    """Return an image folder as a source; only names are read here."""
    first, second = _split(folder)
    classes = tuple(each.name for each in _class_folders(first))
    if len(classes) < 2:
        raise InvalidArgument("data", name, "at least two folders, one for each class", "Else nothing can be predicted")

    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        shape = None if declared is None else declared.shape
        found = _labelled(first)
        sized = shape or _usual_shape([path for path, _ in found], name)
        return _read(found, sized, name), None if second is None else _read(_labelled(second), sized, name)

    assumptions = (
        "names of folders are public, and the size and kind that most images have",
        "an image file that cannot be read is left out, by itself",
    )
    return ImageSource(name, load, classes=classes, full_range=(0.0, 255.0), assumptions=assumptions)


def _split(folder: Path) -> tuple[Path, Path | None]:
    test = next((folder / each for each in ("test", "val", "valid") if (folder / each).is_dir()), None)
    return (folder / "train", test) if (folder / "train").is_dir() else (folder, None)


def _class_folders(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.is_dir() and not each.name.startswith("."))


def _files(folder: Path) -> list[Path]:
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in SUFFIXES and each.is_file())


def _labelled(folder: Path) -> list[tuple[Path, str]]:
    return [(path, each.name) for each in _class_folders(folder) for path in _files(each)]


def _usual_shape(paths: list[Path], name: str) -> tuple[int, int, int]:
    """Return the shape of more than half of the images, which no single one decides unless they are split evenly."""
    shapes = Counter(shape for shape in (_image(path, None) for path in paths) if shape is not None)
    usual = shapes.most_common(1)
    if not usual or not 2 * usual[0][1] > len(paths):
        raise InvalidArgument(
            "data", name, "one size that more than half of the images have", "Declare images.shape in a schema"
        )
    found = usual[0][0]
    return found[0], found[1], found[2]


def _read(found: list[tuple[Path, str]], shape: tuple[int, int, int], name: str) -> Pictures:
    images = np.empty((len(found), *shape), dtype=np.uint8)
    kept: list[str] = []
    for path, label in found:
        image = _image(path, shape)
        if image is not None:
            images[len(kept)] = image
            kept.append(label)
    if not found:
        raise InvalidArgument("data", name, "PNG or JPEG files in the folders of the classes")
    return Pictures(images[: len(kept)], np.array(kept, dtype=str))


def _image(path: Path, shape: tuple[int, int, int] | None) -> Any:
    """Return an image [C, H, W], or its shape if none is given; None if the file cannot be read."""
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # one that is suspiciously large is left out, without a word
            with pillow.open(path, formats=("PNG", "JPEG")) as image:
                if shape is None:
                    return (1 if image.mode in _GREY else 3), image.height, image.width
                return _pixels(image, shape)
    except Exception:  # whatever is wrong with it concerns this file alone
        return None


def _pixels(image: Any, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    channels, height, width = shape
    if channels not in (1, 3):
        raise InvalidArgument("shape", shape, "1 or 3 channels")
    plain = image.convert("L" if channels == 1 else "RGB")
    if plain.size != (width, height):
        plain = plain.resize((width, height))
    array = np.asarray(plain, dtype=np.uint8)
    return array[None] if channels == 1 else array.transpose(2, 0, 1)


def _pillow() -> Any:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise Unsupported("reading images needs Pillow", "pip install 'hush[data]'") from None
    return Image
