"""Each format is read as it was written, and opening looks at no value."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from hush import data
from hush.errors import HushError, InvalidArgument

KEY = bytes(range(32))
TABLE = {"a": [0.0, 5.0, 10.0, 2.5], "b": ["x", "y", "z", "x"], "label": [0, 1, 0, 1]}
SCHEMA = data.Schema(
    columns={"a": data.Numeric(lower=0, upper=10), "b": data.Category(values=("x", "y"))},
    target="label",
    classes=("0", "1"),
)
INPUTS = [[-1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [-0.5, 1, 0, 0]]


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


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: write_csv(folder / "t.csv"),
        lambda folder: write_csv(folder / "t.csv", end="\r\n", start="\ufeff"),
        lambda folder: write_csv(folder / "t.csv", delimiter=";"),
        lambda folder: write_csv(folder / "t.tsv", delimiter="\t"),
        lambda folder: write_csv(folder / "t.csv", delimiter="|"),
        lambda folder: write_csv(folder / "t.csv.gz"),
        lambda folder: write_parquet(folder / "t.parquet"),
    ],
    ids=["comma", "crlf and bom", "semicolon", "tab", "bar", "gzip", "parquet"],
)
def test_tables(tmp_path: Path, make: Any) -> None:
    path = make(tmp_path)
    before = path.read_bytes()
    source = data.open_data(path, target="label")
    assert source.columns == ["a", "b", "label"]
    assert not source.is_image
    prepared = data.prepare(source, schema=SCHEMA, holdout=0, key=KEY)
    np.testing.assert_allclose(prepared.train.inputs, INPUTS)
    assert prepared.train.inputs.dtype == np.float32
    assert prepared.train.targets.tolist() == [0, 1, 0, 1]
    assert (prepared.event, prepared.learned, prepared.classes, prepared.shape) == (None, (), ("0", "1"), (4,))
    assert len(prepared.test) == 0
    np.testing.assert_array_equal(data.transform(prepared.schema, source), prepared.train.inputs)
    assert path.read_bytes() == before


def test_new_data_are_encoded_as_the_old_were(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("label,extra,b,a\n1,q,y,99\n?,q,x,\n0,q,nobody,nan\n")
    source = data.open_data(path)
    np.testing.assert_allclose(data.transform(SCHEMA, source), [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    found = data.examples(SCHEMA, source)
    assert found.targets.tolist() == [1, 0]
    np.testing.assert_allclose(found.inputs, [[1, 0, 1, 0], [0, 0, 0, 1]])


def test_text_is_counted_by_its_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('note,label\n"Good, GOOD day!",1\nbad,0\n,1\nNaïve 42,0\n')
    schema = data.Schema(columns={"note": data.Text(vocabulary=("good", "bad", "naïve", "42"))}, classes=("0", "1"))
    prepared = data.prepare(data.open_data(path), target="label", schema=schema, holdout=0, key=KEY)
    once = np.log(2)
    expected = [[1, 0, 0, 0], [0, once, 0, 0], [0, 0, 0, 0], [0, 0, once, once]]
    np.testing.assert_allclose(prepared.train.inputs, expected, rtol=1e-6)
    long = tmp_path / "long.csv"
    long.write_text("note,label\n" + "good bad " * 5000 + ",1\n")
    inputs = data.transform(prepared.schema, data.open_data(long))
    assert np.linalg.norm(inputs) == pytest.approx(1)


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
    whole = (tmp_path / "train-images-idx3-ubyte").read_bytes()
    schema = data.Schema(classes=("0", "1"))
    for damaged in (whole[:-1], whole[:7], b"", b"\1" + whole[1:], b"\0\0\7" + whole[3:]):
        (tmp_path / "train-images-idx3-ubyte").write_bytes(damaged)
        with pytest.raises(InvalidArgument, match="a whole file in IDX format"):
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


def image_folder(root: Path, size: tuple[int, int] = (4, 5)) -> NDArray[np.uint8]:
    images, _ = pictures(6)
    for place, name in enumerate(("cat", "dog")):
        (root / name).mkdir(parents=True)
        for number in range(3):
            picture = Image.fromarray(images[3 * place + number])
            picture.resize(size).save(root / name / f"{number}.png")
    return images


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
    whole = (tmp_path / "cat" / "0.png").read_bytes()
    for place, raw in enumerate((b"", b"no image", whole[:40])):
        (tmp_path / "dog" / f"broken{place}.png").write_bytes(raw)
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


def test_what_is_no_data_is_refused(tmp_path: Path) -> None:
    for name in ("nothing.csv", "empty-folder", "t.xlsx"):
        path = tmp_path / name
        if name == "empty-folder":
            path.mkdir()
        elif name == "t.xlsx":
            path.write_bytes(b"PK")
        with pytest.raises(InvalidArgument, match=r"expected a \.csv"):
            data.open_data(path)
    for name in ("t.parquet", "t.npz"):
        (tmp_path / name).write_bytes(b"garbage")
        with pytest.raises(HushError):
            data.open_data(tmp_path / name)
    (tmp_path / "a[b].parquet").write_bytes(b"garbage")
    with pytest.raises(InvalidArgument, match="Rename the file"):
        data.open_data(tmp_path / "a[b].parquet")
