"""The data of `hush attack demo`: Location-30 if its archive is found, otherwise the digits of scikit-learn."""

from __future__ import annotations

import io
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, Unsupported

ARCHIVE = "dataset_location.tgz"
_LOCATION_SHAPE = (5010, 447)  # rows, and columns with the class


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """A dataset to attack, with one example per person.

    Attributes:
        name: What the output calls it.
        x: The inputs.
        labels: The classes, numbered from 0.
        num_classes: How many classes there are.
    """

    name: str
    x: NDArray[np.float32]
    labels: NDArray[np.int64]
    num_classes: int


def open_people(name: str | None, data_dir: Path | None) -> People:
    """Return the dataset of a name; without a name, Location-30 if its archive is found, and digits otherwise."""
    archive = find_location(data_dir)
    if name == "location" and archive is None:
        raise InvalidArgument(
            "data", name, f"location/{ARCHIVE} in --data-dir or $HUSH_DATA", "Or use --data digits, which is installed"
        )
    return read_location(archive) if archive is not None and name != "digits" else _digits()


def find_location(data_dir: Path | None) -> Path | None:
    """Return the archive of Location-30, if it is in the folder or in $HUSH_DATA."""
    variable = os.environ.get("HUSH_DATA")
    folders = [folder for folder in (data_dir, Path(variable) if variable else None) if folder is not None]
    for folder in folders:
        for archive in (folder / "location" / ARCHIVE, folder / ARCHIVE):
            if archive.is_file():
                return archive
    return None


def read_location(archive: Path) -> People:
    """Read Location-30 (Shokri et al. 2017): one CSV file, whose first column is the class, from 1 to 30."""
    with tarfile.open(archive) as files:
        member = next((item for item in files if item.isfile()), None)
        stream = None if member is None else files.extractfile(member)
        if stream is None:
            raise InvalidArgument("data", archive.name, "an archive with one CSV file")
        text = io.StringIO(stream.read().decode("ascii").replace('"', ""))
    table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    if table.shape != _LOCATION_SHAPE:
        rows, columns = _LOCATION_SHAPE
        raise InvalidArgument("data", archive.name, f"{rows} rows of {columns} numbers")
    return People(name="Location-30", x=table[:, 1:], labels=table[:, 0].astype(np.int64) - 1, num_classes=30)


def _digits() -> People:
    """Return the handwritten digits of scikit-learn, with pixels scaled to [0, 1]."""
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise Unsupported("digits come with scikit-learn", "pip install 'hush[train]'") from None
    digits = load_digits()
    x, labels = (digits.data / 16).astype(np.float32), digits.target.astype(np.int64)
    return People(name="digits", x=x, labels=labels, num_classes=10)
