"""Examples by a complete schema."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.files import write_csv
from hush import data
from hush.data.preparation.examples import OTHER_GROUP, codes_of
from hush.errors import InvalidArgument

SCHEMA = data.Schema(
    columns={"a": data.Numeric(lower=0, upper=10), "b": data.Category(values=("x", "y"))},
    target="label",
    classes=("0", "1"),
)


def test_new_data_are_encoded_as_the_old_were(tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("label,extra,b,a\n1,q,y,99\n?,q,x,\n0,q,nobody,nan\n")
    source = data.open_data(path)
    np.testing.assert_allclose(data.transform(SCHEMA, source), [[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    kept_rows = data.examples(SCHEMA, source)
    assert kept_rows.targets.tolist() == [1, 0]
    np.testing.assert_allclose(kept_rows.inputs, [[1, 0, 1, 0], [0, 0, 0, 1]])


def test_examples_of_some_rows_keep_units_and_groups() -> None:
    examples = data.Examples(
        inputs=np.arange(6, dtype=np.float32).reshape(3, 2),
        targets=np.array([0, -1, 1]),
        units=np.array([7, 7, 8]),
        groups={"sex": np.array(["f", "m", "f"])},
    )
    part = examples.among(np.array([True, False, True]))
    assert (len(part), part.targets.tolist(), part.inputs[1].tolist()) == (2, [0, 1], [4, 5])
    assert part.units is not None
    assert (part.units.tolist(), part.groups["sex"].tolist()) == ([7, 8], ["f", "f"])


def test_labels_become_indices_of_classes() -> None:
    assert codes_of(np.array(["b", "x", "a", ""]), ("a", "b")).tolist() == [1, -1, 0, -1]


def test_units_and_groups_of_new_data(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b,label,who,sex\n1,x,0,u,f\n2,y,1,,m\n3,x,1,u,d\n4,x,9,v,f\n")
    schema = data.Schema(
        columns={**SCHEMA.columns, "sex": data.Category(values=("f", "m"))},
        target="label",
        classes=("0", "1"),
        unit="who",
        groups=("sex",),
    )
    examples = data.examples(schema, data.open_data(path))
    assert examples.targets.tolist() == [0, 1]  # a row without a unit, and one of another class, are left out
    assert examples.units is not None
    assert examples.units[0] == examples.units[1]
    assert examples.groups["sex"].tolist() == ["f", OTHER_GROUP]


@pytest.mark.parametrize(
    "schema",
    [
        data.Schema(columns={"a": data.Numeric()}, classes=("0", "1"), target="label"),
        data.Schema(columns={"b": data.Category()}, classes=("0", "1"), target="label"),
        data.Schema(classes=("0", "1"), target="label"),
        data.Schema(columns=SCHEMA.columns, target="label"),
        data.Schema(columns=SCHEMA.columns, classes=("0", "1")),
        data.Schema(columns=SCHEMA.columns, classes=("0", "1"), target="absent"),
        data.Schema(columns={"z": data.Numeric(lower=0, upper=1)}, classes=("0", "1"), target="label"),
        data.Schema(images=data.Images(lower=0, upper=1), classes=("0", "1"), target="label"),
    ],
)
def test_a_schema_that_is_not_complete_is_refused(tmp_path: Path, schema: data.Schema) -> None:
    with pytest.raises(InvalidArgument):
        data.examples(schema, data.open_data(write_csv(tmp_path / "t.csv")))
