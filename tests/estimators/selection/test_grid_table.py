"""The table of a search: every row is read by itself, and none changes which others count."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hush.estimators.selection.grid_table import build_table, equal_labels

pd = pytest.importorskip("pandas")

X, Y = np.tile([[1.0], [-1.0]], (200, 1)), np.tile([1, 0], 200)
FRAME = pd.DataFrame({"size": X[:, 0], "colour": np.tile(["red", "green"], 200)})


@pytest.mark.parametrize("label", ["x", None, 7, 1.5, pd.NA, [1]])
def test_a_label_of_another_type_changes_no_other(label: Any) -> None:
    labels = Y.tolist()
    odd = np.array([*labels, None], dtype=object)
    odd[-1] = label
    table = build_table(np.zeros((401, 1)), odd, classes=True)
    assert table.labels[:400].tolist() == labels
    assert equal_labels(np.ones(401, dtype=int), table.labels[:401]).sum() == 200


def test_a_row_with_a_list_in_it_is_dropped() -> None:
    rows = FRAME.to_numpy(dtype=object)
    rows[3, 1] = ["red"]
    assert build_table(rows, Y, classes=True).row_numbers.tolist() == [index for index in range(400) if index != 3]


@pytest.mark.parametrize("strange", [None, "Ann", 2**70, [1.0]])
def test_one_cell_does_not_change_which_other_rows_count(strange):
    plain = [[1e200]] * 50 + [[1.0]] * 20 + [[math.nan]] * 3
    tables = [build_table(rows, [0] * len(rows), classes=True) for rows in (plain, [*plain, [strange]])]
    assert tables[0].row_numbers.tolist() == list(range(50, 70))
    assert tables[1].row_numbers.tolist() in (list(range(50, 70)), [*range(50, 70), 73])


def test_one_cell_of_a_frame_does_not_change_which_other_rows_count():
    pandas = pytest.importorskip("pandas")
    for rows in ([[1e200]] * 5 + [[1.0]] * 2, [[1e200]] * 5 + [[1.0]] * 2 + [["Ann"]]):
        usable = build_table(pandas.DataFrame(rows), [0] * len(rows), classes=True).row_numbers.tolist()
        assert usable[:2] == [5, 6]


def test_large_labels_are_not_rounded_beside_a_fraction():
    large = 2**53 + 1
    table = build_table([[0.0]] * 3, [large, large, 0.5], classes=True)
    assert table.labels[:3].tolist() == [large, large, 0.5]
