"""Known datasets: found where they should be, downloaded completely or not at all, and public as far as they are."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import struct
import sys
import tarfile
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush import data
from hush.data.formats import known_datasets as known_module
from hush.data.formats.download import Remote
from hush.errors import InvalidArgument

KEY = bytes(range(32))
ROOT = Path(__file__).resolve().parents[3]
GIVEN = os.environ.get("HUSH_DATA")


@pytest.fixture(autouse=True)
def _away_from_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test finds, or writes to, the user's cache, and none connects."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HUSH_DATA", raising=False)
    monkeypatch.setattr(urllib.request, "urlopen", offline)


def offline(*_: Any, **__: Any) -> Any:
    raise urllib.error.URLError("no network")


def shared(name: str) -> Path:
    for root in (*([Path(GIVEN)] if GIVEN else []), ROOT.parent / "shared" / "data"):
        if (root / name).is_dir():
            return root
    pytest.skip(f"{name} is neither in $HUSH_DATA nor beside the repository")


def idx(array: np.ndarray[Any, Any]) -> bytes:
    raw = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    return gzip.compress(raw, mtime=0)


def small_mnist() -> dict[str, bytes]:
    rng = np.random.default_rng(1)
    return {
        "train-images-idx3-ubyte.gz": idx(rng.integers(0, 256, (30, 28, 28))),
        "train-labels-idx1-ubyte.gz": idx(np.arange(30) % 12),  # two that are no digits
        "t10k-images-idx3-ubyte.gz": idx(rng.integers(0, 256, (10, 28, 28))),
        "t10k-labels-idx1-ubyte.gz": idx(np.arange(10) % 10),
    }


class Home:
    """A public home of files, in memory."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.asked: list[str] = []

    def __call__(self, url: str, timeout: float) -> Any:
        self.asked.append(url)
        response = io.BytesIO(self.files[url.rpartition("/")[2]])
        response.headers = {"Content-Length": str(len(response.getvalue()))}  # type: ignore[attr-defined]
        return response


def at_home(monkeypatch: pytest.MonkeyPatch, name: str, files: dict[str, bytes]) -> Home:
    """Let a data set have these files, by their checksums."""
    remotes = tuple(
        Remote(url=f"https://example.org/{file}", sha256=hashlib.sha256(raw).hexdigest()) for file, raw in files.items()
    )
    monkeypatch.setitem(known_module.KNOWN, name, replace(known_module.KNOWN[name], remotes=remotes))
    home = Home(files)
    monkeypatch.setattr(urllib.request, "urlopen", home)
    return home


def test_digits() -> None:
    source = data.open_data("digits")
    assert data.needs_learning(source) == []
    prepared = data.prepare(source, key=KEY)
    assert len(prepared.train) + len(prepared.test) == 1797
    assert prepared.shape == (1, 8, 8)
    assert (prepared.train.inputs.min(), prepared.train.inputs.max()) == (0, 1)
    assert not prepared.test_is_public  # held out: it has no test part


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist"])
def test_the_files_beside_the_repository(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    root = shared(name)
    by_argument = data.open_data(name, data_dir=root, download=False)
    prepared = data.prepare(by_argument, key=KEY)
    assert prepared.train.inputs.shape == (60_000, 1, 28, 28)
    assert prepared.test.inputs.shape == (10_000, 1, 28, 28)
    assert (prepared.test_is_public, prepared.event, len(prepared.classes)) == (True, None, 10)
    assert np.bincount(prepared.test.targets).min() >= 800
    monkeypatch.setenv("HUSH_DATA", str(root / name))
    assert data.open_data(name, download=False).is_image
    monkeypatch.setenv("HUSH_DATA", str(root))
    assert data.open_data(name, download=False).is_image


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_offline_one_error_says_where_to_put_which_files(tmp_path: Path, name: str) -> None:
    for settings in ({}, {"data_dir": tmp_path / "mine"}, {"download": False}):
        with pytest.raises(InvalidArgument) as caught:
            data.open_data(name, **settings)  # type: ignore[arg-type]
        message = str(caught.value)
        assert "\n" not in message
        assert all(remote.name in message for remote in known_module.KNOWN[name].remotes)
        assert str(settings.get("data_dir", tmp_path / "cache" / "hush") / Path(name)) in message  # type: ignore[operator]
        assert "HUSH_DATA" in message
    assert not list(tmp_path.rglob("*ubyte*"))


def test_a_download_happens_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = small_mnist()
    home = at_home(monkeypatch, "mnist", files)
    prepared = data.prepare(data.open_data("mnist"), key=KEY)
    assert (len(prepared.train), len(prepared.test)) == (30, 10)
    assert int((prepared.train.targets < 0).sum()) == 4  # labels beyond the classes
    assert len(home.asked) == 4
    data.open_data("mnist")
    assert len(home.asked) == 4
    folder = tmp_path / "cache" / "hush" / "mnist"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_download_of_something_else_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = at_home(monkeypatch, "mnist", small_mnist())
    home.files = {name: raw + b"!" for name, raw in home.files.items()}
    with pytest.raises(InvalidArgument, match="the published checksum"):
        data.open_data("mnist")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


def test_a_download_that_breaks_off_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = at_home(monkeypatch, "mnist", small_mnist())

    class Broken(io.BytesIO):
        def __init__(self) -> None:
            super().__init__()
            self.headers = {"Content-Length": "1000"}

        def read(self, *_: Any) -> bytes:
            raise ConnectionResetError

    monkeypatch.setattr(urllib.request, "urlopen", lambda url, timeout: Broken())
    with pytest.raises(InvalidArgument, match="a network connection, and enough disk space"):
        data.open_data("mnist")
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert not home.asked


def test_a_bar_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    at_home(monkeypatch, "mnist", small_mnist())
    data.open_data("mnist")
    assert capsys.readouterr() == ("", "")
    at_home(monkeypatch, "fashion-mnist", small_mnist())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    data.open_data("fashion-mnist")
    assert capsys.readouterr().err.count("[##############################]") == 4


def small_cifar(extra: str | None = None) -> bytes:
    rng = np.random.default_rng(1)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        names = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
        for name in [f"cifar-10-batches-bin/{name}" for name in names] + ([extra] if extra else []):
            records = rng.integers(0, 256, (4, 3073), dtype=np.uint8)
            records[:, 0] = np.arange(4)
            member = tarfile.TarInfo(name)
            member.size = records.size
            archive.addfile(member, io.BytesIO(records.tobytes()))
    return stream.getvalue()


def test_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home(monkeypatch, "cifar10", {"cifar-10-binary.tar.gz": small_cifar("../../escaped.bin")})
    prepared = data.prepare(data.open_data("cifar10", data_dir=tmp_path / "mine"), key=KEY)
    assert prepared.train.inputs.shape == (20, 3, 32, 32)
    assert prepared.test.inputs.shape == (4, 3, 32, 32)
    assert prepared.train.targets.tolist() == [0, 1, 2, 3] * 5
    assert (prepared.classes[:2], prepared.test_is_public) == (("airplane", "automobile"), True)
    assert not list(tmp_path.rglob("escaped.bin"))  # only what belongs to it is unpacked


def test_checksums_are_whole() -> None:
    remotes = [remote for known in known_module.KNOWN.values() for remote in known.remotes]
    assert len(remotes) == 9
    assert all(len(bytes.fromhex(remote.sha256)) == 32 and remote.url.startswith("https://") for remote in remotes)
    assert len({remote.sha256 for remote in remotes}) == 9
