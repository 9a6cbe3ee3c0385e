"""Tables in files are read as they were written, and no record touches another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from data.files import KEY, write_csv, write_parquet
from hush import data
from hush.errors import HushError, InvalidArgument

SCHEMA = data.Schema(
    columns={"a": data.Numeric(lower=0, upper=10), "b": data.Category(values=("x", "y"))},
    target="label",
    classes=("0", "1"),
)
INPUTS = [[-1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 1], [-0.5, 1, 0, 0]]


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


def test_parquet_of_all_types(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    values = (
        "1::TINYINT a, 'infinity'::DATE b, 'infinity'::TIMESTAMP c, 'nan'::DOUBLE d, "
        "170141183460469231731687303715884105727::HUGEINT e, 1.5::DECIMAL(20, 3) f, true g, NULL::FLOAT h, "
        "[1] i, {'k': 1} j, 'x'::BLOB k, 't' l, 1 y"
    )
    duckdb.connect().execute(f"COPY (SELECT {values}) TO '{path}' (FORMAT parquet)")
    source = data.open_data(path)
    with pytest.raises(InvalidArgument, match="Declare it as ignore"):
        data.needs_learning(source, "y")
    ignored = {name: data.Ignore() for name in "ijk"}
    with pytest.raises(InvalidArgument, match="column='l': .*text column without a vocabulary"):
        data.needs_learning(source, "y", data.Schema(columns=ignored))
    columns = {**ignored, "l": data.Category(values=("t",))}
    columns |= {name: data.Numeric(lower=-1, upper=1) for name in "abcdefgh"}
    schema = data.Schema(columns=columns, classes=("0", "1"))
    train = data.prepare(source, target="y", schema=schema, holdout=0, key=KEY).train
    assert train.inputs.tolist() == [[1, 0, 0, 0, 1, 1, 1, 0, 1, 0]]
    assert train.targets.tolist() == [1]


SECRET = "Rosebud7"


def test_a_damaged_parquet_file_tells_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    query = f"COPY (SELECT '{SECRET}' || range AS a, range % 2 AS y FROM range(5000)) TO '{path}' (FORMAT parquet)"
    duckdb.connect().execute(query)
    raw = bytearray(path.read_bytes())
    raw[10:4000] = bytes(3990)
    path.write_bytes(raw)
    schema = data.Schema(columns={"a": data.Category(values=("x",))}, classes=("0", "1"))
    with pytest.raises(HushError) as caught:
        data.prepare(data.open_data(path), target="y", schema=schema, key=KEY)
    assert SECRET not in str(caught.value)


def test_half_a_surrogate_ends_no_reading(tmp_path: Path) -> None:
    labels = np.array(["no", "yes"] * 50)
    for text in ("no", "\ud800"):
        labels[5] = text
        np.savez(tmp_path / "t.npz", x=np.zeros((100, 2)), y=labels)
        source = data.open_data(tmp_path / "t.npz")
        assert source.columns is not None
        schema = data.Schema(
            columns={name: data.Numeric(lower=0, upper=1) for name in source.columns[:2]}, classes=("no", "yes")
        )
        prepared = data.prepare(source, target=source.columns[-1], schema=schema, holdout=0, key=KEY)
        assert len(prepared.train) == 100
