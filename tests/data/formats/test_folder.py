"""Folders of images: one per class, and a broken file is left out."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data.files import KEY, image_folder
from hush import data
from hush.errors import InvalidArgument


def test_image_folders(tmp_path: Path) -> None:
    images = image_folder(tmp_path)
    source = data.open_data(tmp_path)
    assert data.needs_learning(source) == []  # names of folders are public
    prepared = data.prepare(source, holdout=0, key=KEY)
    assert prepared.classes == ("cat", "dog")
    np.testing.assert_allclose(prepared.train.inputs[:, 0], images / 255, rtol=1e-6)
    assert prepared.train.targets.tolist() == [0, 0, 0, 1, 1, 1]


def test_image_folders_with_a_test_part_of_another_size(tmp_path: Path) -> None:
    image_folder(tmp_path / "train")
    image_folder(tmp_path / "test", size=(9, 9))
    prepared = data.prepare(data.open_data(tmp_path), key=KEY)
    assert prepared.train.inputs.shape == prepared.test.inputs.shape == (6, 1, 5, 4)
    schema = data.Schema(images=data.Images(lower=0, upper=255, shape=(3, 8, 8)))
    assert data.prepare(data.open_data(tmp_path), schema=schema, key=KEY).shape == (3, 8, 8)


def test_an_image_that_cannot_be_read_is_left_out_by_itself(tmp_path: Path) -> None:
    images = image_folder(tmp_path)
    complete = (tmp_path / "cat" / "0.png").read_bytes()
    for number, raw in enumerate((b"", b"no image", complete[:40])):
        (tmp_path / "dog" / f"broken{number}.png").write_bytes(raw)
    bomb = io.BytesIO()
    Image.new("1", (9500, 9500)).save(bomb, "PNG")
    (tmp_path / "cat" / "bomb.png").write_bytes(bomb.getvalue())
    (tmp_path / "cat" / "note.txt").write_text("no image")
    schema = data.Schema(images=data.Images(lower=0, upper=255, shape=(1, 5, 4)))
    prepared = data.prepare(data.open_data(tmp_path), schema=schema, holdout=0, key=KEY)
    np.testing.assert_allclose(prepared.train.inputs[:, 0], images / 255, rtol=1e-6)


def test_sizes_without_a_majority_are_refused(tmp_path: Path) -> None:
    image_folder(tmp_path / "train")
    for number in range(6):
        Image.new("L", (9, number + 1)).save(tmp_path / "train" / "cat" / f"more{number}.png")
    with pytest.raises(InvalidArgument, match=r"Declare images\.shape"):
        data.prepare(data.open_data(tmp_path), key=KEY)
