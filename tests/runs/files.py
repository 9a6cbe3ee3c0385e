"""Helpers that the tests of runs and of the command line share: small data in every format, and short runs."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hush import runs
from hush.cli import main

BOUNDS = ("--bounds", "a=-3:3", "--bounds", "b=-3:3")
DECLARED = (*BOUNDS, "--classes", "0,1")
CLASSES = ("--task", "classification")  # a CSV file does not say what the numbers of a target are
SHORT = ("--num-steps", "5", "--quiet", "--json")
FILES = {
    "figures.json",
    "guarantee.json",
    "metrics.jsonl",
    "model.json",
    "model.safetensors",
    "not-private.jsonl",
    "report.html",
    "run.json",
}
SECRET = "secret-until-finished"


def numbers(rows: int = 400, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return two columns, and classes that the first one decides."""
    x = np.random.default_rng(seed).normal(size=(rows, 2)).round(3)
    return x, (x[:, 0] > 0).astype(np.int64)


def write_rows(path: Path, header: str, rows: list[str]) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def write_csv(path: Path, rows: int = 400) -> Path:
    x, y = numbers(rows)
    return write_rows(path, "a,b,y", [f"{a},{b},{label}" for (a, b), label in zip(x.tolist(), y.tolist(), strict=True)])


def write_users(path: Path, users: int = 300) -> Path:
    """Write one or two rows for most users, and forty for one."""
    x, y = numbers(2 * users + 40, seed=1)
    owners = [*range(users), *(user for user in range(users) if user % 2), *([7] * 40)]
    lines = [f"u{owner},{a},{b},{label}" for owner, (a, b), label in zip(owners, x.tolist(), y.tolist(), strict=False)]
    return write_rows(path, "who,a,b,y", lines)


def write_parquet(path: Path, rows: int = 400) -> Path:
    x, y = numbers(rows)
    connection = duckdb.connect()
    connection.register("columns", {"a": x[:, 0], "b": x[:, 1], "y": y})
    connection.execute(f"COPY (SELECT * FROM columns) TO '{path}' (FORMAT parquet)")
    connection.close()
    return path


def pictures(count: int, side: int = 8, seed: int = 0) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return images that are bright on the left or on the right."""
    random = np.random.default_rng(seed)
    labels = (np.arange(count) % 2).astype(np.uint8)
    images = random.integers(0, 100, size=(count, side, side)).astype(np.uint8)
    images[labels == 0, :, : side // 2] += 120
    images[labels == 1, :, side // 2 :] += 120
    return images, labels


def write_idx(folder: Path, *, test: bool = True) -> Path:
    folder.mkdir()
    for part, count in (("train", 300), ("t10k", 60))[: 1 + test]:
        images, labels = pictures(count, seed=count)
        for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
            head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
            (folder / f"{part}-{kind}-ubyte").write_bytes(head + array.tobytes())
    return folder


def write_npz(path: Path) -> Path:
    images, labels = pictures(300)
    np.savez(path, x=images, y=labels)
    return path


def write_images(folder: Path) -> Path:
    images, labels = pictures(120)
    for number, (image, label) in enumerate(zip(images, labels.tolist(), strict=True)):
        class_folder = folder / ("left", "right")[label]
        class_folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(class_folder / f"{number}.png")
    return folder


def train(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Run `hush train` to its end, and return the JSON object of the last line."""
    capsys.readouterr()
    status = main(["train", *map(str, arguments), *SHORT])
    printed = capsys.readouterr()
    assert status == 0, printed.err
    assert printed.err == ""
    return dict(json.loads(printed.out.splitlines()[-1]))


def refused(capsys: pytest.CaptureFixture[str], *arguments: object, status: int = 2) -> str:
    """Run `hush train`, check that it refuses in one line, and return the line."""
    capsys.readouterr()
    assert main(["train", *map(str, arguments), "--quiet"]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("hush train: ")
    assert "Traceback" not in printed.err
    return printed.err


def listing(folder: Path) -> dict[str, bytes]:
    """Return the content of every file in a folder, by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def names(folder: Path) -> set[str]:
    """Return the names of what is in a run's folder, without the declarations, which not every run has."""
    return {path.name for path in folder.iterdir()} - {"schema.json"}


def rows(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def separation(run: Path, source: Path, labels: NDArray[Any], factory: str | None = None) -> float:
    """Return by how much a run's model gives higher log-odds of class 1 to rows of class 1, on average."""
    probabilities = np.clip(runs.load(run, factory=factory).probabilities(source).astype(float), 1e-100, 1.0)
    odds = np.log(probabilities[:, 1] / probabilities[:, 0])
    return float(odds[labels == 1].mean() - odds[labels == 0].mean())


def command(source: Path, run: Path, steps: int = 3) -> list[str]:
    """Return a command that learns the classes, and trains for a few steps."""
    flags = ["--target", "y", *CLASSES, *BOUNDS, "--epsilon", "6", "--batch-size", "100", "--num-steps", str(steps)]
    return ["train", str(source), *flags, "--learning-rate", "0.5", "--output", str(run)]


def resume(run: Path) -> None:
    """Resume a run, and train it to its end."""
    assert main(["train", "--resume", str(run), "--quiet"]) == 0


PARKED = """
import sys
from hush.cli import main
from hush.runs import folder as folder_module

seen = []


def parked(write, name, number):
    def changed(self, written, *rest, **options):
        write(self, written, *rest, **options)
        seen.append(written)
        if written == name and seen.count(name) == number:
            print("parked", flush=True)
            sys.stdin.readline()

    return changed


for method in ("write", "append"):
    setattr(folder_module.Folder, method, parked(getattr(folder_module.Folder, method), sys.argv[1], int(sys.argv[2])))
sys.exit(main(sys.argv[3:]))
"""


def parked(source: Path, run: Path, name: str, number: int, *more: str) -> subprocess.Popen[str]:
    """Train in another process until it has written a file for the given time; there it waits for a line of input."""
    process = subprocess.Popen(
        [sys.executable, "-c", PARKED, name, str(number), *command(source, run, 20), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    if process.stdout.readline() != "parked\n":
        raise AssertionError(process.communicate()[1])
    return process
