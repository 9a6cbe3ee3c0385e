"""From values to inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data.files import KEY, source_of
from hush import data
from hush.data.preparation.encoding import bag_of_words, encode_images, scaled, width


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


def test_bounds_at_the_end_of_floats(tmp_path: Path) -> None:
    wide = data.Numeric(lower=-1.7e308, upper=1.7e308)
    schema = data.Schema(columns={"a": wide, "b": wide}, target="y", classes=("0", "1"))
    lines = [b"1.7e308,-1.7e308,1", b"1e999,0,0"]
    inputs = data.prepare(source_of(tmp_path, lines), schema=schema, holdout=0, key=KEY).train.inputs
    assert inputs.tolist() == [[1, -1], [1, 0]]


DECLARED = data.Schema(
    columns={"a": data.Numeric(lower=0, upper=6), "b": data.Numeric(lower=0, upper=4)}, target="y", classes=("0", "1")
)


def test_missing_values_take_the_middle(tmp_path: Path) -> None:
    lines = [b"3,2,1", b",na,1", b"nan,NULL,0", b"text,None,0", b"3,4,1", b"0,0,0", b"6,2,0"]
    inputs = data.prepare(source_of(tmp_path, lines), schema=DECLARED, holdout=0, key=KEY).train.inputs
    assert inputs.tolist() == [[0, 0], [0, 0], [0, 0], [0, 0], [0, 1], [-1, -1], [1, 0]]


def test_numbers_are_clamped_and_scaled() -> None:
    column = data.Numeric(lower=10, upper=20)
    assert scaled(np.array([10, 12.5, 20, -1e308, np.inf, np.nan]), column).tolist() == [-1, -0.5, 1, -1, 1, 0]


def test_widths_are_those_of_the_parts() -> None:
    assert width(data.Numeric(lower=0, upper=1)) == 1
    assert width(data.Category(values=("a", "b"))) == 3  # and one for all other values
    assert width(data.Text(vocabulary=("a", "b"))) == 2
    assert width(data.Ignore()) == 0


def test_a_bag_of_words_has_norm_one_at_most() -> None:
    counts = np.array([[0, 0], [1, 0], [1, 1], [1000, 3]], dtype=np.float32)
    bags = bag_of_words(counts)
    assert bags[0].tolist() == [0, 0]
    assert bags[1].tolist() == pytest.approx([np.log(2), 0])
    assert np.linalg.norm(bags, axis=1).max() <= 1 + 1e-6
    assert bags[3, 0] / bags[3, 1] == pytest.approx(np.log(1001) / np.log(4), rel=1e-5)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64, np.bool_])
def test_images_are_scaled_to_fractions(dtype: Any) -> None:
    images = np.array([[[[0, 1]]]], dtype=dtype)
    assert encode_images(images, data.Images(lower=0, upper=1)).tolist() == [[[[0, 1]]]]
    odd = np.array([[[[np.nan, np.inf, -np.inf, 1e308, 5.0]]]])
    assert encode_images(odd, data.Images(lower=0, upper=10)).ravel().tolist() == [0, 1, 0, 1, 0.5]
