"""Dates, hashed text and other targets, from a file to inputs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hush import data
from hush.data import Date, HashedText, Ignore, Numeric, RawData, Schema
from hush.errors import InvalidArgument

ROWS = (
    "2020-01-31,Some words and WORDS,1,yes",
    "31.01.2020 12:00,words,0,no",
    "01/31/2020,,TRUE,",
    "not a date,!!,x,nan",
    "infinity,zebra,,t",
)


@pytest.fixture
def source(tmp_path: Path) -> RawData:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["when,note,a,b", *ROWS]) + "\n", encoding="utf-8")
    return data.open_data(path)


def test_dates_become_parts(source: RawData) -> None:
    schema = Schema(columns={"when": Date(lower=0, upper=36_525), "note": Ignore(), "a": Ignore(), "b": Ignore()})
    inputs = data.transform(schema, source)
    assert inputs.shape == (5, 7)
    assert np.isfinite(inputs).all()
    assert np.abs(inputs).max() <= 1
    assert inputs[0] == pytest.approx(inputs[2])  # one day, in two notations
    assert inputs[1, 5:] == pytest.approx([0, -1], abs=1e-6)  # noon
    assert inputs[3].tolist() == inputs[4].tolist() == [0] * 7


def test_words_are_hashed_row_by_row(source: RawData, tmp_path: Path) -> None:
    schema = Schema(columns={"note": HashedText(num_features=16)})
    inputs = data.transform(schema, source)
    assert inputs.shape == (5, 16)
    assert np.linalg.norm(inputs, axis=1).max() <= 1 + 1e-6
    assert inputs[2].sum() == inputs[3].sum() == 0  # no words
    alone = tmp_path / "alone.csv"
    alone.write_text(f"when,note,a,b\n{ROWS[1]}\n", encoding="utf-8")
    assert data.transform(schema, data.open_data(alone))[0].tolist() == inputs[1].tolist()


def test_labels_are_true_false_or_missing(source: RawData) -> None:
    schema = Schema(columns={"when": Date(lower=0, upper=1)}, labels=("a", "b"))
    examples = data.examples(schema, source)
    assert examples.targets.tolist() == [[1, 1], [0, 0], [1, -1], [-1, 1]]  # x is neither, and its row has no label


def test_numbers_as_targets(source: RawData) -> None:
    schema = Schema(columns={"when": Date(lower=0, upper=1)}, target="a", target_range=Numeric(lower=0, upper=2))
    # Text and gaps have no number; true is 1.
    assert data.examples(schema, source).targets.tolist() == [0, -1, 0]


def test_schemas_are_stored() -> None:
    for schema in (
        Schema(columns={"d": Date(lower=1, upper=2), "t": HashedText(num_features=8)}, labels=("a", "b")),
        Schema(columns={"d": Date()}, target="y", target_range=Numeric(lower=0)),
    ):
        assert Schema.from_json(schema.to_json()) == schema
    with pytest.raises(InvalidArgument, match="one of classes="):
        Schema(classes=("a", "b"), labels=("c",))
    for wrong in (0, -1, 1.5, True, 1 << 20):
        with pytest.raises(InvalidArgument):
            HashedText(num_features=wrong)  # type: ignore[arg-type]


def test_learned_bounds_of_dates_are_dates(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = [f"{2000 + number % 20}-0{1 + number % 9}-15,{'ab'[number % 2]}" for number in range(2_000)]
    path.write_text("\n".join(["visit,y", *rows]) + "\n", encoding="utf-8")
    schema = Schema(columns={"visit": Date()}, classes=("a", "b"))
    learn = data.Learn(noise_multiplier=0.1)
    prepared = data.prepare(data.open_data(path), target="y", schema=schema, learn=learn, key=bytes(32))
    (sentence,) = prepared.learned
    assert re.search(r"'visit': bounds \[(19|20)\d\d-\d\d-\d\d( \d\d:\d\d)?, 20\d\d-\d\d-\d\d", sentence)
