"""Arrays in files: IDX, NPZ and the binary version of CIFAR-10."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases import first_quick
from data.files import KEY, pictures, write_idx
from hush import data
from hush.errors import InvalidArgument


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_idx(tmp_path: Path, ending: str) -> None:
    images, labels = pictures()
    write_idx(tmp_path / f"train-images-idx3-ubyte{ending}", images)
    write_idx(tmp_path / f"train-labels-idx1-ubyte{ending}", labels)
    source = data.open_data(tmp_path)
    assert (source.is_image, source.columns) == (True, None)
    assert data.needs_learning(source) == ["classes of the target"]
    prepared = data.prepare(source, schema=data.Schema(classes=("0", "1")), holdout=0, key=KEY)
    np.testing.assert_allclose(prepared.train.inputs[:, 0], images / 255, rtol=1e-6)
    assert prepared.train.targets.tolist() == labels.tolist()
    assert (prepared.shape, prepared.test_is_public) == ((1, 5, 4), False)
    write_idx(tmp_path / f"t10k-images-idx3-ubyte{ending}", images[:3])
    write_idx(tmp_path / f"t10k-labels-idx1-ubyte{ending}", labels[:3])
    prepared = data.prepare(data.open_data(tmp_path), schema=data.Schema(classes=("0", "1")), key=KEY)
    assert (len(prepared.train), len(prepared.test), prepared.test_is_public) == (12, 3, False)


def test_a_damaged_idx_file_is_refused(tmp_path: Path) -> None:
    images, labels = pictures()
    write_idx(tmp_path / "train-labels-idx1-ubyte", labels)
    write_idx(tmp_path / "train-images-idx3-ubyte", images)
    complete = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    schema = data.Schema(classes=("0", "1"))
    for damaged in (complete[:-1], complete[:7], b"", b"\1" + complete[1:], b"\0\0\7" + complete[3:]):
        (tmp_path / "train-images-idx3-ubyte").write_bytes(damaged)
        with pytest.raises(InvalidArgument, match="a complete file in IDX format"):
            data.prepare(data.open_data(tmp_path), schema=schema, key=KEY)
    write_idx(tmp_path / "train-images-idx3-ubyte", images[:-1])
    with pytest.raises(InvalidArgument, match="one label for each image"):
        data.prepare(data.open_data(tmp_path), schema=schema, key=KEY)


@pytest.mark.parametrize("names", [("x", "y"), ("images", "labels"), ("x_train", "y_train")])
def test_npz_images(tmp_path: Path, names: tuple[str, str]) -> None:
    images, labels = pictures()
    np.savez(tmp_path / "d.npz", **{names[0]: images[..., None], names[1]: labels.astype(float)})
    for source in (data.open_data(tmp_path / "d.npz"), data.open_data(tmp_path)):
        prepared = data.prepare(source, schema=data.Schema(classes=("0", "1")), holdout=0, key=KEY)
        np.testing.assert_allclose(prepared.train.inputs[:, 0], images / 255, rtol=1e-6)
        assert prepared.train.targets.tolist() == labels.tolist()


def test_npz_with_a_test_part_and_fractions(tmp_path: Path) -> None:
    images = np.array([0.5, np.nan, np.inf, -np.inf, -3, 7, 1e308, 1]).reshape(8, 1, 1, 1)
    labels = np.array(["a", "b"] * 4)
    np.savez(tmp_path / "d.npz", x=images, y=labels, x_test=images[:2], y_test=labels[:2])
    prepared = data.prepare(data.open_data(tmp_path), schema=data.Schema(classes=("a", "b")), key=KEY)
    assert prepared.train.inputs.ravel().tolist() == [0.5, 0, 1, 0, 0, 1, 1, 1]
    assert len(prepared.test) == 2


def test_npz_tables(tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", x=np.array([[0, 4], [2, 2], [4, np.nan]]), y=np.array([3, 5, 3]))
    source = data.open_data(tmp_path / "d.npz")
    assert source.columns == ["x0", "x1", "y"]
    bounds = data.Numeric(lower=0, upper=4)
    schema = data.Schema(columns={"x0": bounds, "x1": bounds}, classes=("3", "5"))
    prepared = data.prepare(source, target="y", schema=schema, holdout=0, key=KEY)
    assert prepared.train.inputs.tolist() == [[-1, 1], [0, 0], [1, 0]]
    assert prepared.train.targets.tolist() == [0, 1, 0]


def test_pickles_are_not_read(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (pytest.fail, ("unpickled",))

    np.savez(tmp_path / "d.npz", x=np.array([[[Trap()]]], dtype=object), y=np.array([1]))
    with pytest.raises(InvalidArgument, match="pickles"):
        data.prepare(data.open_data(tmp_path / "d.npz"), schema=data.Schema(classes=("0", "1")), key=KEY)


def header(shape: tuple[int, ...], kind: str = "<f8") -> bytes:
    """Return what comes before the values of an array in a file."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": kind, "fortran_order": False, "shape": shape})
    return file.getvalue()


ZEROS = bytes(1 << 20)
# What is in x.npy, in pieces: each is small in the file, and none may fill the memory.
BOMBS = {
    "zeros, a thousand times their size": [header((1 << 17, 1 << 10)), *[ZEROS] * 1024],
    "a header of a gigabyte": [b"\x93NUMPY\x02\x00" + (1 << 30).to_bytes(4, "little"), *[b" " * (1 << 20)] * 1024],
    "a shape without values": [header((1 << 40, 1 << 10))],
    "a shape beyond all numbers": [header((10**30, 10**30))],
    "a negative shape": [header((-1, 4)), bytes(32)],
    "too few values": [header((10, 4)), bytes(8)],
    "too many values": [header((1, 4)), bytes(3200)],
    "no header": [b"\x93NUMPY\x01\x00\x04\x00((((" + bytes(100)],
    "brackets in brackets": [b"\x93NUMPY\x01\x00" + (9000).to_bytes(2, "little") + b"(" * 9000],
    "pickles": [header((2,), "|O"), b"cposix\nsystem\n(S'false'\ntR."],
}


@pytest.mark.skipif(sys.platform == "win32", reason="limits of memory")
@pytest.mark.parametrize("name", first_quick(BOMBS, 2))
@pytest.mark.quick_cases(1)
def test_npz_files_that_expand_are_refused_within_little_memory(tmp_path: Path, name: str) -> None:
    """In a process that may take 400 MB more than it has, and in which any other error is a failure."""
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as file:
            for piece in BOMBS[name]:
                file.write(piece)
        archive.writestr("y.npy", header((1,)) + bytes(8))
    assert path.stat().st_size < 5_000_000
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from hush import data; from hush.errors import InvalidArgument\n"
        "used = int(Path('/proc/self/statm').read_text().split()[0]) * 4096 if sys.platform == 'linux' else 1 << 34\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 400_000_000,) * 2)\n"
        "schema = data.Schema(classes=('0', '1'))\n"
        "try: data.prepare(data.open_data(Path(sys.argv[1])), schema=schema, holdout=0, key=bytes(32))\n"
        "except InvalidArgument as error: print('refused:', error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("refused: data='bomb.npz'"), done.stderr[-2000:]


@pytest.mark.parametrize("flag", [0x1, 0x40])
def test_encrypted_and_unknown_archives_are_refused(tmp_path: Path, flag: int) -> None:
    np.savez(tmp_path / "d.npz", x=np.zeros((4, 2)), y=np.zeros(4))
    content = bytearray((tmp_path / "d.npz").read_bytes())
    for mark, place in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
        position = content.find(mark)
        while position >= 0:
            content[position + place] |= flag
            position = content.find(mark, position + 1)
    (tmp_path / "d.npz").write_bytes(content)
    with pytest.raises(InvalidArgument, match="d.npz"):
        data.open_data(tmp_path / "d.npz")


def test_compressed_arrays_are_read(tmp_path: Path) -> None:
    """Ten times smaller, as tables with many zeros are."""
    values = np.zeros((40_000, 20))
    values[:, 0] = np.arange(40_000)
    np.savez_compressed(tmp_path / "d.npz", x=values, y=np.arange(40_000) % 2)
    assert data.open_data(tmp_path / "d.npz").columns is not None
