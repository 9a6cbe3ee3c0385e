"""Arrays in files: IDX, NPZ and the binary version of CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
