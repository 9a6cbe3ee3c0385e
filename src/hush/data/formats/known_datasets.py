"""Datasets known by name: where to look for them, where to download them, and which of their parts are public."""

from __future__ import annotations

import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hush.data.formats.arrays import CIFAR_TEST, CIFAR_TRAIN, IDX_NAMES, idx_files, open_cifar, open_idx
from hush.data.formats.download import Remote, download
from hush.data.tables.columns import Images
from hush.data.tables.raw_data import ImageData, Pictures
from hush.errors import InvalidArgument, Unsupported

DIGITS = tuple(str(digit) for digit in range(10))
_MNIST_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
_FASHION_URL = "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/"
_FASHION_CLASSES = (
    *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
    *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
)
_CIFAR_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR_FOLDER = "cifar-10-batches-bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class _KnownDataset:
    """A dataset that is known by name.

    Attributes:
        classes: Its classes.
        remotes: Its files.
        find: Returns the folder with the files, in or below a folder; None if they are not there.
        read: Opens the folder.
        unpack: Unpacks the downloaded files.
    """

    classes: tuple[str, ...]
    remotes: tuple[Remote, ...]
    find: Callable[[Path], Path | None]
    read: Callable[[Path, str, tuple[str, ...]], ImageData]
    unpack: Callable[[Path], None] = lambda folder: None


def _find_idx(folder: Path) -> Path | None:
    return folder if len(idx_files(folder)) == len(IDX_NAMES) else None


def _find_cifar(folder: Path) -> Path | None:
    for candidate in (folder, folder / _CIFAR_FOLDER):
        if all((candidate / file).is_file() for file in (*CIFAR_TRAIN, *CIFAR_TEST)):
            return candidate
    return None


def _unpack_cifar(folder: Path) -> None:
    """Unpack only the six files of the dataset, whatever else the archive contains."""
    wanted = {f"{_CIFAR_FOLDER}/{file}" for file in (*CIFAR_TRAIN, *CIFAR_TEST)}
    with tarfile.open(folder / "cifar-10-binary.tar.gz") as archive:
        for member in archive:
            if member.name in wanted and member.isfile():
                _write(archive, member, folder / member.name)


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    """Write the content of a member, without its owner or mode. Python 3.11.3 and earlier have no filters for that."""
    content = archive.extractfile(member)
    assert content is not None  # it is a file
    path.parent.mkdir(parents=True, exist_ok=True)
    with content, path.open("wb") as file:
        shutil.copyfileobj(content, file)


def _read_idx(folder: Path, name: str, classes: tuple[str, ...]) -> ImageData:
    return open_idx(folder, name, classes, public_test=True)


def _remotes(base: str, sums: tuple[str, ...]) -> tuple[Remote, ...]:
    return tuple(Remote(url=f"{base}{file}.gz", sha256=sha256) for file, sha256 in zip(IDX_NAMES, sums, strict=True))


# SHA-256 of the published files. Their MD5 sums are listed in torchvision's datasets/mnist.py, in the README of
# zalandoresearch/fashion-mnist, and on Krizhevsky's page of CIFAR-10.
KNOWN = {
    "mnist": _KnownDataset(
        classes=DIGITS,
        remotes=_remotes(
            _MNIST_URL,
            (
                "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
                "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
                "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
                "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            ),
        ),
        find=_find_idx,
        read=_read_idx,
    ),
    "fashion-mnist": _KnownDataset(
        classes=_FASHION_CLASSES,
        remotes=_remotes(
            _FASHION_URL,
            (
                "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
                "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
                "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
                "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            ),
        ),
        find=_find_idx,
        read=_read_idx,
    ),
    "cifar10": _KnownDataset(
        classes=_CIFAR_CLASSES,
        remotes=(
            Remote(
                url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        find=_find_cifar,
        read=open_cifar,
        unpack=_unpack_cifar,
    ),
}
NAMES = ("digits", *KNOWN)


def open_known(name: str, data_dir: Path | None, *, allow_download: bool) -> ImageData:
    """Open a known dataset: from a folder that has it, or downloaded.

    Files that are found are used without a checksum: other splits and compressions are common.

    Args:
        name: The name of the dataset.
        data_dir: The folder to look in first, and to download to; None for the user's cache.
        allow_download: Whether to download files that are not found.
    """
    if name == "digits":
        return _open_digits()
    dataset = KNOWN[name]
    for candidate in _candidate_folders(name, data_dir):
        folder = dataset.find(candidate) if candidate.is_dir() else None
        if folder is not None:
            return dataset.read(folder, name, dataset.classes)
    home = (data_dir or _cache()) / name
    files = ", ".join(remote.name for remote in dataset.remotes)
    advice = f"Put {files} into {home}, or set data_dir= or $HUSH_DATA to the folder that has them"
    if not allow_download:
        raise InvalidArgument("data", name, "its files on this machine, because downloads are turned off", advice)
    for remote in dataset.remotes:
        download(remote, home, advice=advice)
    dataset.unpack(home)
    folder = dataset.find(home)
    if folder is None:
        raise InvalidArgument("data", name, "all of its files after the download", advice)
    return dataset.read(folder, name, dataset.classes)


def _candidate_folders(name: str, data_dir: Path | None) -> list[Path]:
    roots = [data_dir, Path(os.environ["HUSH_DATA"]) if os.environ.get("HUSH_DATA") else None, _cache()]
    return [folder for root in roots if root is not None for folder in (root / name, root)]


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hush"


def _open_digits() -> ImageData:
    def load(declared: Images | None) -> tuple[Pictures, Pictures | None]:
        try:
            from sklearn.datasets import load_digits
        except ModuleNotFoundError:
            raise Unsupported("the digits dataset comes with scikit-learn", "pip install scikit-learn") from None
        images, labels = load_digits().images, load_digits().target
        return Pictures(np.asarray(images, dtype=np.float32)[:, None], np.asarray(labels).astype(str)), None

    return ImageData("digits", load, classes=DIGITS, full_range=(0.0, 16.0))
