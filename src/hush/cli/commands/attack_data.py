"""The data of the demonstration: Location-30 where it is, else the digits that come with scikit-learn."""

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
_SHAPE = (5010, 447)


@dataclass(frozen=True, slots=True, kw_only=True)
class People:
    """Examples, their classes, and what to call them."""

    name: str
    x: NDArray[np.float32]
    labels: NDArray[np.int64]
    num_classes: int


def open_people(name: str | None, data_dir: Path | None) -> People:
    """Return the data set of that name; Location-30 if it is there and digits otherwise, if none is named."""
    found = find_location(data_dir)
    if name == "location" and found is None:
        raise InvalidArgument(
            "data", name, f"location/{ARCHIVE} in --data-dir or $HUSH_DATA", "Or use --data digits, which is installed"
        )
    return read_location(found) if found is not None and name != "digits" else _digits()


def find_location(data_dir: Path | None) -> Path | None:
    """Return the archive of Location-30, if it is where data are looked for."""
    named = os.environ.get("HUSH_DATA")
    for root in (data_dir, Path(named) if named else None):
        for place in () if root is None else (root / "location" / ARCHIVE, root / ARCHIVE):
            if place.is_file():
                return place
    return None


def read_location(archive: Path) -> People:
    """Read Location-30 (Shokri et al. 2017): one CSV, whose first column is the class from 1 to 30."""
    with tarfile.open(archive) as files:
        member = next((each for each in files if each.isfile()), None)
        stream = None if member is None else files.extractfile(member)
        if stream is None:
            raise InvalidArgument("data", archive.name, "an archive with one CSV file")
        text = io.StringIO(stream.read().decode("ascii").replace('"', ""))
    table = np.loadtxt(text, delimiter=",", dtype=np.float32)
    if table.shape != _SHAPE:
        raise InvalidArgument("data", archive.name, f"{_SHAPE[0]} rows of {_SHAPE[1]} numbers")
    return People(name="Location-30", x=table[:, 1:], labels=table[:, 0].astype(np.int64) - 1, num_classes=30)


def _digits() -> People:
    try:
        from sklearn.datasets import load_digits
    except ModuleNotFoundError:
        raise Unsupported("digits come with scikit-learn", "pip install 'hush[train]'") from None
    found = load_digits()
    return People(
        name="digits", x=(found.data / 16).astype(np.float32), labels=found.target.astype(np.int64), num_classes=10
    )
