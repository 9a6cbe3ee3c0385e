"""`open_data`: opens a file, a folder or a known dataset by its name."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hush.data.formats.arrays import idx_files, open_idx, open_npz
from hush.data.formats.data_frames import is_data_frame, open_frame
from hush.data.formats.folder import is_image_folder, open_folder
from hush.data.formats.known_datasets import NAMES, open_known
from hush.data.formats.table_files import open_table_file
from hush.data.tables.raw_data import RawData
from hush.data.tables.table import TableData
from hush.errors import InvalidArgument, check_instance

_ACCEPTED = "a .csv, .xlsx, .parquet or .npz file, a folder of images or IDX files, or one of " + ", ".join(NAMES)


def open_data(
    name: Any,
    *,
    target: str | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    download: bool = True,
    delimiter: str | None = None,
    decimal_comma: Sequence[str] = (),
) -> RawData:
    """Open data without reading any value: only names and types of columns, and names of folders, are read.

    >>> data = open_data("digits")
    >>> data.is_image, data.columns
    (True, None)

    Args:
        name: A CSV, Excel, Parquet or NPZ file; a folder with IDX files, with one NPZ file, or with a folder of images
            per class; or digits, mnist, fashion-mnist or cifar10. If a path has the same name, it takes precedence.
            Or a data frame of pandas or Polars, or a table of Arrow, whose columns have the types that it declares.
        target: The column to predict. A name that does not exist is refused immediately.
        data_dir: Where to look for known datasets, before $HUSH_DATA and the user's cache, and where to download them.
        download: Whether a known dataset may be downloaded if it is not found.
        delimiter: The delimiter of a CSV file. By default, it is the most frequent one of comma, semicolon, tab and bar
            in the first line, and a tab in a .tsv file.
        decimal_comma: The columns of a CSV file whose numbers have decimal commas: 1.234 is 1234 there, and 1,5 is 1.5.

    Returns:
        The data, for `needs_learning`, `template` and `prepare`.
    """
    if is_data_frame(name):
        return _with_target(open_frame(name), target)
    check_instance("name", name, (str, os.PathLike), "Or a data frame of pandas or Polars, or a table of Arrow")
    text, path = os.fspath(name), Path(name)
    if path.is_dir():
        data = _open_folder(path, text)
    elif path.is_file():
        data = _open_file(path, text, delimiter, decimal_comma)
    elif text in NAMES:
        data = open_known(text, None if data_dir is None else Path(data_dir), allow_download=download)
    else:
        raise InvalidArgument("data", text, _ACCEPTED, "There is no such file")
    return _with_target(data, target)


def _with_target(data: RawData, target: str | None) -> RawData:
    """Return data that have the column to predict, if one is named."""
    if isinstance(data, TableData) and target is not None:
        data.check_column("target", target)
    return data


def _open_file(path: Path, name: str, delimiter: str | None, decimal_comma: Sequence[str]) -> RawData:
    if path.name.lower().endswith(".npz"):
        return open_npz(path, name)
    table = open_table_file(path, name, delimiter, decimal_comma)
    if table is None:
        raise InvalidArgument("data", name, _ACCEPTED)
    return table


def _open_folder(path: Path, name: str) -> RawData:
    if idx_files(path):
        return open_idx(path, name)
    archives = sorted(path.glob("*.npz"))
    if len(archives) == 1:
        return open_npz(archives[0], name)
    if is_image_folder(path):
        return open_folder(path, name)
    raise InvalidArgument("data", name, _ACCEPTED, "This folder has none of them, or several")
