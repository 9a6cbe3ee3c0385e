"""Files that tests of data write, and the key that they prepare with."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hush import data

KEY = bytes(range(32))
TABLE = {"a": [0.0, 5.0, 10.0, 2.5], "b": ["x", "y", "z", "x"], "label": [0, 1, 0, 1]}


def write_csv(path: Path, delimiter: str = ",", end: str = "\n", start: str = "") -> Path:
    lines = [list(TABLE), *zip(*TABLE.values(), strict=True)]
    text = start + "".join(delimiter.join(f'"{x}"' if x == "x" else str(x) for x in line) + end for line in lines)
    raw = text.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def write_parquet(path: Path) -> Path:
    rows = ", ".join(str(row) for row in zip(*TABLE.values(), strict=True))
    query = f"COPY (SELECT * FROM (VALUES {rows}) AS t(a, b, label)) TO '{path}' (FORMAT parquet)"
    duckdb.connect().execute(query)
    return path


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    raw = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def pictures(count: int = 12) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (count, 5, 4), dtype=np.uint8), np.arange(count, dtype=np.uint8) % 2


def image_folder(root: Path, size: tuple[int, int] = (4, 5)) -> NDArray[np.uint8]:
    images, _ = pictures(6)
    for class_number, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for number in range(3):
            picture = Image.fromarray(images[3 * class_number + number])
            picture.resize(size).save(root / name / f"{number}.png")
    return images


def write_columns(path: Path, columns: Mapping[str, Any]) -> data.RawData:
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(str(x) for x in row) for row in rows)]) + "\n")
    return data.open_data(path)


def source_of(tmp_path: Path, lines: list[bytes], name: str = "t.csv") -> data.RawData:
    path = tmp_path / name
    path.write_bytes(b"\n".join([b"a,b,y", *lines]) + b"\n")
    return data.open_data(path)
