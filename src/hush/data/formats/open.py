"""One name for all data: a file, a folder or a known data set."""

from __future__ import annotations

import os
from pathlib import Path

from hush.data.formats.arrays import IDX_NAMES, idx_files, open_idx, open_npz
from hush.data.formats.folder import is_image_folder, open_folder
from hush.data.formats.known import NAMES, open_known
from hush.data.formats.table_files import open_csv, open_parquet
from hush.data.tables.raw import RawData
from hush.data.tables.table import TableSource
from hush.errors import InvalidArgument, check_instance

_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_KINDS = "a .csv, .parquet or .npz file, a folder of images or IDX files, or one of " + ", ".join(NAMES)


def open_data(
    name: str | os.PathLike[str],
    *,
    target: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    delimiter: str | None = None,
) -> RawData:
    """Find data, and learn what they are without looking at a value: names and types of columns, names of folders.

    >>> source = open_data("digits")
    >>> source.is_image, source.columns
    (True, None)

    Args:
        name: A CSV, Parquet or NPZ file; a folder with IDX files, one NPZ file, or a folder of images for each class;
            or digits, mnist, fashion-mnist or cifar10. A path wins over a known name.
        target: The column that will be predicted, to be told at once if there is none of that name.
        data_dir: Where known data sets are looked for, before $HUSH_DATA and the user's cache, and downloaded to.
        download: Whether a known data set that is not found may be downloaded.
        delimiter: What separates the columns of a CSV file; by default the most frequent of comma, semicolon, tab and
            bar in its first line.
    """
    check_instance("name", name, (str, os.PathLike))
    text, path = os.fspath(name), Path(name)
    if path.is_dir():
        data = _open_folder(path, text)
    elif path.is_file():
        data = _open_file(path, text, delimiter)
    elif text in NAMES:
        data = open_known(text, None if data_dir is None else Path(data_dir), allow_download=download)
    else:
        raise InvalidArgument("data", text, _KINDS, "There is no such file")
    if isinstance(data, TableSource) and target is not None:
        data.check_column("target", target)
    return data


def _open_file(path: Path, name: str, delimiter: str | None) -> RawData:
    ending = path.name.lower()
    if ending.endswith(_CSV):
        return open_csv(path, name, delimiter)
    if ending.endswith((".parquet", ".pq")):
        return open_parquet(path, name)
    if ending.endswith(".npz"):
        return open_npz(path, name)
    raise InvalidArgument("data", name, _KINDS)


def _open_folder(path: Path, name: str) -> RawData:
    if any(each in idx_files(path) for each in IDX_NAMES):
        return open_idx(path, name)
    archives = sorted(path.glob("*.npz"))
    if len(archives) == 1:
        return open_npz(archives[0], name)
    if is_image_folder(path):
        return open_folder(path, name)
    raise InvalidArgument("data", name, _KINDS, "This folder has none of them, or several")
