"""The first line of a CSV file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.files import KEY
from hush import data
from hush.data.formats.csv import lines_with_returns, read_header
from hush.errors import InvalidArgument


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (b"", "the names of the columns"),
        (b",,", "the names of the columns"),
        (b"a,b,a", "each name only once"),
        (b"1.5,2,7", "It has numbers only"),
        (b'"a,b,y', "without line breaks"),
        (b"a,\xff,y", "UTF-8"),
        ("a,b,y".encode("utf-16"), "UTF-8"),
    ],
)
def test_headers_that_are_none(tmp_path: Path, header: bytes, words: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(header + b"\n1,2,1\n")
    with pytest.raises(InvalidArgument, match=words) as caught:
        data.open_data(path)
    assert "1.5" not in str(caught.value)  # a first line of numbers may be a record


def test_names_that_are_strange_but_names(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(',"a ""b""",c0,C0,"x,y",y\'; DROP TABLE t\n1,2,3,4,5,0\n1,2,3,4,5,1\n')
    source = data.open_data(path)
    assert source.columns == ["column1", 'a "b"', "c0", "C0", "x,y", "y'; DROP TABLE t"]
    bounds = {name: data.Numeric(lower=0, upper=5) for name in source.columns[:-1]}
    schema = data.Schema(columns=bounds, classes=("0", "1"))
    train = data.prepare(source, target="y'; DROP TABLE t", schema=schema, holdout=0, key=KEY).train
    np.testing.assert_allclose(train.inputs[0], [-0.6, -0.2, 0.2, 0.6, 1], rtol=1e-6)
    numbered = tmp_path / "numbered.csv"
    numbered.write_text("0,1,2\n5,5,5\n")
    assert data.open_data(numbered).columns == ["0", "1", "2"]


def test_the_delimiter_is_the_most_frequent_one_or_the_stated_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a;b;c,d\n")
    assert read_header(path) == (["a", "b", "c,d"], ";")
    assert read_header(path, ",") == (["a;b;c", "d"], ",")
    with pytest.raises(InvalidArgument, match="^delimiter="):
        read_header(path, ".")


@pytest.mark.parametrize("numbers", ["0,1,2", "1,2,3", "0", "1"])
def test_columns_may_be_numbered(tmp_path: Path, numbers: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(numbers + "\n")
    assert read_header(path)[0] == numbers.split(",")


def test_lines_with_returns_are_cut_at_line_feeds_only(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\r\n1,2\r\n3,4\r\n")
    assert lines_with_returns(path) is None  # DuckDB reads it as it should
    path.write_bytes(b"a,b\r\n1,2\r3,4\r\n5,\x006\n\xff,7\n8,9\r\r\n")
    assert lines_with_returns(path) == ["1,2 3,4", "5,6", "8,9", ""]
