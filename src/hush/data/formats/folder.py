"""Image folders: one folder per class, with PNG and JPEG files.

The names of folders are public, and so are the size and the colour mode that more than half of the images have: they
are the type of the data. An image that cannot be read is left out, and one of another size is scaled, whatever the
other images are.
"""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.columns import Images
from hush.data.tables.raw_data import ImageData, Pictures
from hush.errors import InvalidArgument, Unsupported

SUFFIXES = frozenset({".png", ".jpg", ".jpeg"})
_GREY_MODES = frozenset({"1", "L", "LA", "I", "I;16", "F"})


def is_image_folder(folder: Path) -> bool:
    """Return whether a folder has subfolders with images."""
    return any(_image_files(subfolder) for subfolder in _class_folders(_split(folder)[0]))


def open_folder(folder: Path, name: str) -> ImageData:
    """Open an image folder. Only names are read here.

    Args:
        folder: The folder, with a subfolder per class; or with the subfolders train and test, which have them.
        name: The name that the caller used.
    """
    train, test = _split(folder)
    classes = tuple(subfolder.name for subfolder in _class_folders(train))
    if len(classes) < 2:
        raise InvalidArgument("data", name, "at least two folders, one per class", "With one, nothing can be predicted")

    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        declared_shape = None if declared is None else declared.shape
        train_files = _labelled_files(train)
        shape = declared_shape or _usual_shape([path for path, _ in train_files], name)
        return _read(train_files, shape, name), None if test is None else _read(_labelled_files(test), shape, name)

    return ImageData(
        name,
        load,
        classes=classes,
        full_range=(0.0, 255.0),
        public_facts=("names of folders, and the size and colour mode of most images, are public",),
        assumptions=("an image file that cannot be read is left out",),
    )


def _split(folder: Path) -> tuple[Path, Path | None]:
    """Return the folders of the training part and, if there is one, of the test part."""
    test = next((folder / name for name in ("test", "val", "valid") if (folder / name).is_dir()), None)
    return (folder / "train", test) if (folder / "train").is_dir() else (folder, None)


def _class_folders(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES and path.is_file())


def _labelled_files(folder: Path) -> list[tuple[Path, str]]:
    """Return all image files, each with the name of its folder."""
    return [(path, subfolder.name) for subfolder in _class_folders(folder) for path in _image_files(subfolder)]


def _usual_shape(paths: list[Path], name: str) -> tuple[int, int, int]:
    """Return the shape of more than half of the images. A single image decides it only if they are split evenly."""
    shapes = Counter(shape for shape in (_load(path, None) for path in paths) if shape is not None)
    usual = shapes.most_common(1)
    if not usual or not 2 * usual[0][1] > len(paths):
        raise InvalidArgument(
            "data", name, "one size that more than half of the images have", "Declare images.shape in a schema"
        )
    channels, height, width = usual[0][0]
    return channels, height, width


def _read(files: list[tuple[Path, str]], shape: tuple[int, int, int], name: str) -> Pictures:
    """Read labelled files into images of one shape. Those that cannot be read are left out."""
    images = np.empty((len(files), *shape), dtype=np.uint8)
    labels: list[str] = []
    for path, label in files:
        image = _load(path, shape)
        if image is not None:
            images[len(labels)] = image
            labels.append(label)
    if not files:
        raise InvalidArgument("data", name, "PNG or JPEG files in the folders of the classes")
    return Pictures(images[: len(labels)], np.array(labels, dtype=str))


def _load(path: Path, shape: tuple[int, int, int] | None) -> Any:
    """Return an image [C, H, W] of this shape, or, if the shape is None, its own; None if the file cannot be read."""
    pillow = _pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Pillow warns of images that are suspiciously large: leave them out
            with pillow.open(path, formats=("PNG", "JPEG")) as image:
                if shape is None:
                    return (1 if image.mode in _GREY_MODES else 3), image.height, image.width
                return _pixels(image, shape)
    except Exception:  # whatever is wrong with this file, it must not stop the others
        return None


def _pixels(image: Any, shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return an image in this shape, converted and resized."""
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
