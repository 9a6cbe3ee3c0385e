"""The tasks: rows to learn from, with everything that is public about them applied before anybody gets them.

Two views of the same rows. *box*: every feature within [-1, 1], by public bounds. *ball*: rows of norm at most 1, by a
public norm. Targets of regressions are within [-1, 1], by public bounds. So all contenders know the same.

- digits: pixels are 0 to 16; norm 4 of pixels over 16.
- breast cancer: the range of each feature is in the set's description; rows in the range [0, 1], norm 2.
- diabetes: features of scikit-learn are scaled, here to +-0.2, norm 0.2; targets are 25 to 346 by its description.
- glm binary, glm linear: normal features, 20 of them, 20,000 rows.
- mnist: 60 principal components of pixels, of the first 30,000 training images. Components, their centre and scales are
  from the first 5,000 test images, which are declared public (without labels) and are PATE's public rows, too. Tested
  on the other 5,000; no other splits.
"""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROOT = Path(__file__).resolve().parents[2]
NUM_COMPONENTS = 60
NUM_PRIVATE = 30_000  # images, half of the training set: for the time
NUM_PUBLIC = 5000
TEST_SHARE = 0.25


@dataclass(frozen=True)
class Task:
    """All rows of a task; a seed splits them, unless test rows are fixed."""

    name: str
    box: Floats
    ball: Floats
    y: NDArray[Any]
    num_classes: int = 0  # 0 for a regression
    clusters: int = 8
    test_from: int | None = None  # from this row on, rows are for tests whatever the seed
    public_box: Floats = field(default_factory=lambda: np.zeros((0, 1)))
    public_ball: Floats = field(default_factory=lambda: np.zeros((0, 1)))

    def split(self, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return which rows are for training and for tests."""
        everything = np.arange(len(self.y))
        if self.test_from is not None:
            return everything[: self.test_from], everything[self.test_from :]
        shuffled = np.random.default_rng(seed).permutation(everything)
        cut = round(len(self.y) * TEST_SHARE)
        return shuffled[cut:], shuffled[:cut]

    def save(self, path: Path) -> None:
        """Write it for other processes."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        np.savez(path, **{name: value for name, value in values.items() if value is not None})

    @staticmethod
    def load(path: Path) -> Task:
        """Read what `save` wrote."""
        with np.load(path) as arrays:
            given = {name: arrays[name] for name in arrays.files}
        return Task(**{name: value if value.ndim else value.item() for name, value in given.items()})


def in_box(x: Floats, lower: Any, upper: Any) -> Floats:
    """Return features scaled by public bounds, and clamped."""
    lower, upper = np.asarray(lower, dtype=float), np.asarray(upper, dtype=float)
    return np.clip(2 * (x - lower) / (upper - lower) - 1, -1, 1)


def in_ball(x: Floats, norm: float) -> Floats:
    """Return rows over a public norm, those that are longer scaled down."""
    scaled = x / norm
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1)


def digits() -> Task:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    return Task("digits", in_box(x, 0, 16), in_ball(x / 16, 4), y, num_classes=10, clusters=10)


def breast_cancer() -> Task:
    from sklearn.datasets import load_breast_cancer

    x, y = load_breast_cancer(return_X_y=True)
    box = in_box(x, x.min(axis=0), x.max(axis=0))  # the description has these
    return Task("breast cancer", box, in_ball((box + 1) / 2, 2), y, num_classes=2, clusters=2)


def diabetes() -> Task:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True)
    return Task("diabetes", in_box(x, -0.2, 0.2), in_ball(x, 0.2), in_box(y, 25, 346))


def _normal_rows(seed: int) -> tuple[Any, Floats, Floats]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20_000, 20)) / np.sqrt(20)
    weights = rng.normal(size=20)
    return rng, x, weights / np.linalg.norm(weights)


def glm_binary() -> Task:
    rng, x, weights = _normal_rows(10)
    y = (rng.random(len(x)) < 1 / (1 + np.exp(-12 * x @ weights))).astype(np.int64)
    bound = 3 / np.sqrt(20)
    return Task("glm binary", in_box(x, -bound, bound), in_ball(x, 1), y, num_classes=2)


def glm_linear() -> Task:
    rng, x, weights = _normal_rows(11)
    y = 2 * x @ weights + 0.2 * rng.normal(size=len(x))
    bound = 3 / np.sqrt(20)
    return Task("glm linear", in_box(x, -bound, bound), in_ball(x, 1), in_box(y, -2, 2))


def mnist(folder: Path) -> Task:
    x, y = (part[:NUM_PRIVATE] for part in _images(folder, "train"))
    others, labels = _images(folder, "t10k")
    public = others[:NUM_PUBLIC]
    centre = public.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(public.T))
    directions, spread = vectors[:, ::-1][:, :NUM_COMPONENTS], np.sqrt(values[::-1][:NUM_COMPONENTS])

    def projected(rows: Floats) -> Floats:
        return (rows - centre) @ directions

    pool = projected(public)
    everything = projected(np.concatenate([x, others[NUM_PUBLIC:]]))
    norm = float(np.quantile(np.linalg.norm(pool, axis=1), 0.9))
    return Task(
        "mnist",
        in_box(everything, -3 * spread, 3 * spread),
        in_ball(everything, norm),
        np.concatenate([y, labels[NUM_PUBLIC:]]),
        num_classes=10,
        clusters=10,
        test_from=len(x),
        public_box=in_box(pool, -3 * spread, 3 * spread),
        public_ball=in_ball(pool, norm),
    )


def _images(folder: Path, part: str) -> tuple[Floats, NDArray[np.int64]]:
    def read(kind: str, offset: int) -> NDArray[np.uint8]:
        return np.frombuffer(gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8, -1, offset)

    return read("images-idx3", 16).reshape(-1, 784) / 255.0, read("labels-idx1", 8).astype(np.int64)


MAKERS: dict[str, Callable[[], Task]] = {
    "digits": digits,
    "breast cancer": breast_cancer,
    "glm binary": glm_binary,
    "diabetes": diabetes,
    "glm linear": glm_linear,
}
NAMES = [*MAKERS, "mnist"]


def mnist_folder(data: Path | None) -> Path | None:
    """Return where MNIST is: in the folder named, in $HUSH_DATA, or beside the repository; None if it is not."""
    named = os.environ.get("HUSH_DATA")
    roots = [data, Path(named) if named else None, ROOT.parent / "shared" / "data"]
    folders = [root / "mnist" for root in roots if root is not None]
    return next((folder for folder in folders if (folder / "train-images-idx3-ubyte.gz").exists()), None)


def make(name: str, data: Path | None) -> Task | None:
    """Return a task, or None where its data are missing."""
    if name != "mnist":
        return MAKERS[name]()
    folder = mnist_folder(data)
    return None if folder is None else mnist(folder)
