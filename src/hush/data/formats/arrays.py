"""Arrays in files: IDX (the format of MNIST), NPZ, and the binary version of CIFAR-10. Pickles are never read."""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.data.formats.table_files import from_arrays
from hush.data.tables.columns import Images
from hush.data.tables.raw_data import ImageData, Pictures, RawData, as_images, as_labels
from hush.errors import InvalidArgument

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MAX_BYTES = 1 << 36
_MOST_EXPANDED = 100
_FREELY_EXPANDED = 1 << 28  # bytes; every machine has these
_CIFAR_RECORD_BYTES = 1 + 3 * 32 * 32  # a label and an image
CIFAR_TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
CIFAR_TEST = ("test_batch.bin",)
IDX_NAMES = (
    *("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    *("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
)


def read_idx(path: Path) -> NDArray[Any]:
    """Return the array of an IDX file, compressed or not.

    The file starts with two zero bytes, the type, the number of dimensions, and the length of each dimension.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            zeros, kind, dimensions = struct.unpack(">HBB", file.read(4))
            shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
            size = math.prod(shape) * np.dtype(_IDX_TYPES[kind]).itemsize
            if zeros or not dimensions or not size <= _MAX_BYTES:
                raise ValueError
            content = file.read(size)
        array = np.frombuffer(content, dtype=_IDX_TYPES[kind]).reshape(shape)
    except (OSError, EOFError, zlib.error, struct.error, KeyError, ValueError):
        raise InvalidArgument("data", path.name, "a complete file in IDX format") from None
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def idx_files(folder: Path) -> dict[str, Path]:
    """Return the IDX files of a dataset like MNIST that a folder has, by name. Compressed files come first."""
    files = {}
    for name in IDX_NAMES:
        # Some archives of the original have a dot in place of the dash.
        for candidate in (f"{name}.gz", name, name.replace("-idx", ".idx")):
            if (folder / candidate).is_file():
                files[name] = folder / candidate
                break
    return files


def open_idx(
    folder: Path, name: str, classes: tuple[str, ...] | None = None, *, public_test: bool = False
) -> ImageData:
    """Open a folder of IDX files.

    Args:
        folder: The folder.
        name: The name that the caller used.
        classes: The names of the classes that labels stand for, if the dataset is known.
        public_test: Whether the test part, if there is one, is public.
    """
    files = idx_files(folder)
    missing = [file_name for file_name in IDX_NAMES[:2] if file_name not in files]
    if missing:
        raise InvalidArgument("data", name, "a folder with the file " + " and ".join(missing))
    has_test = all(file_name in files for file_name in IDX_NAMES[2:])

    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        parts = [
            Pictures(as_images(read_idx(files[images])), class_names(read_idx(files[labels]), classes))
            for images, labels in (IDX_NAMES[:2], IDX_NAMES[2:])[: 1 + has_test]
        ]
        return parts[0], parts[1] if has_test else None

    return ImageData(name, load, classes=classes, public_test=public_test and has_test)


def class_names(labels: NDArray[Any], classes: tuple[str, ...] | None) -> NDArray[np.str_]:
    """Return labels as text: the name of each class, or an empty text for numbers beyond the classes."""
    if classes is None or labels.dtype.kind not in "iu" or labels.ndim != 1:
        return as_labels(labels)
    is_known = (labels >= 0) & (labels < len(classes))
    texts: NDArray[np.str_] = np.where(is_known, np.array(classes)[np.where(is_known, labels, 0)], "")
    return texts


def open_npz(path: Path, name: str) -> RawData:
    """Open an NPZ file: images, or a table if the inputs have two dimensions.

    Its arrays are x and y (or images and labels, or x_train and y_train), and for images optionally x_test and y_test.
    """
    arrays = _NpzFile(path)
    inputs, labels = arrays.key("x", "images", "x_train"), arrays.key("y", "labels", "y_train")
    if inputs is None or labels is None:
        raise InvalidArgument("data", path.name, "the arrays x and y, or images and labels", "Save them by these names")
    test = arrays.key("x_test", "images_test", "test_images"), arrays.key("y_test", "labels_test", "test_labels")
    if len(arrays.header(inputs)[0]) == 2:
        return _npz_table(arrays, inputs, labels, name)

    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        train = Pictures(as_images(arrays.read(inputs)), as_labels(arrays.read(labels)))
        if test[0] is None or test[1] is None:
            return train, None
        return train, Pictures(as_images(arrays.read(test[0])), as_labels(arrays.read(test[1])))

    return ImageData(name, load)


def _npz_table(arrays: _NpzFile, inputs: str, labels: str, name: str) -> RawData:
    (rows, width), dtype = arrays.header(inputs)
    if dtype.kind not in "buif" or arrays.header(labels)[0][:1] != (rows,):
        raise InvalidArgument("data", name, "numbers in x, and in y one label for each row")

    def read() -> list[NDArray[Any]]:
        values = arrays.read(inputs).astype(np.float64)
        return [*(values[:, column] for column in range(width)), as_labels(arrays.read(labels))]

    columns = [*(f"x{column}" for column in range(width)), "y"]
    return from_arrays(name, columns, ["DOUBLE"] * width + ["VARCHAR"], read)


class _NpzFile:
    """The arrays of an NPZ file. Pickled objects are refused."""

    def __init__(self, path: Path) -> None:
        """Read the names of the arrays."""
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                self._names = {Path(file).stem for file in archive.namelist() if file.endswith(".npy")}
        except (OSError, zipfile.BadZipFile, ValueError, NotImplementedError):
            raise InvalidArgument("data", path.name, "a file in NPZ format") from None

    def key(self, *names: str) -> str | None:
        """Return the first of these names that exists."""
        return next((name for name in names if name in self._names), None)

    def header(self, name: str) -> tuple[tuple[int, ...], Any]:
        """Return the shape and the type of an array, which the file states before the values."""
        try:
            with zipfile.ZipFile(self._path) as archive:
                entry = archive.getinfo(f"{name}.npy")
                self._refuse_bomb(name, entry)
                with archive.open(entry) as file:
                    version = np.lib.format.read_magic(file)
                    old, new = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
                    shape, _, dtype = (old if version == (1, 0) else new)(file)
                    values = entry.file_size - file.tell()
        except InvalidArgument:
            raise
        except Exception:  # NumPy parses the header as Python, and what it raises has no common class
            raise self._damaged(name) from None
        if not dtype.hasobject and (min(shape, default=1) < 0 or math.prod(shape) * dtype.itemsize != values):
            raise self._damaged(name)  # memory is taken as the header says, before the values are read
        return shape, dtype

    def read(self, name: str) -> NDArray[Any]:
        """Return an array."""
        if self.header(name)[1].hasobject:
            raise InvalidArgument(
                "data", self._path.name, "arrays of numbers or text", "Objects are pickles, which hush does not read"
            )
        try:
            with np.load(self._path, allow_pickle=False) as arrays:
                return np.asarray(arrays[name])
        except Exception:
            raise self._damaged(name) from None

    def _refuse_bomb(self, name: str, entry: zipfile.ZipInfo) -> None:
        """Refuse a small file that would expand to a large one."""
        if entry.file_size > max(_MOST_EXPANDED * entry.compress_size, _FREELY_EXPANDED):
            raise InvalidArgument(
                "data",
                self._path.name,
                f"arrays of at most {_MOST_EXPANDED} times their compressed size",
                f"{name} would fill {entry.file_size >> 20:,} MiB",
                "If the data are right, save them with numpy.savez, without compression",
            )

    def _damaged(self, name: str) -> InvalidArgument:
        return InvalidArgument("data", self._path.name, f"a complete array {name}")


def open_cifar(folder: Path, name: str, classes: tuple[str, ...]) -> ImageData:
    """Open the binary version of CIFAR-10."""

    def part(files: tuple[str, ...]) -> Pictures:
        try:
            records = np.concatenate([np.fromfile(folder / file, dtype=np.uint8) for file in files])
            records = records.reshape(-1, _CIFAR_RECORD_BYTES)
        except (OSError, ValueError):
            raise InvalidArgument("data", name, "complete files of the binary version: " + ", ".join(files)) from None
        return Pictures(records[:, 1:].reshape(-1, 3, 32, 32), class_names(records[:, 0].astype(np.int64), classes))

    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        return part(CIFAR_TRAIN), part(CIFAR_TEST)

    return ImageData(name, load, classes=classes, public_test=True)
