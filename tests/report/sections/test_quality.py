"""The confusion matrix and calibration."""

from __future__ import annotations

from typing import Any

import pytest

from hush.report.sections.quality import calibration, confusion

PUBLIC: dict[str, Any] = {"data": {"test_is_public": True, "classes": ["cat", "dog"]}}


def test_the_most_frequent_mistake_is_named() -> None:
    section = confusion({**PUBLIC, "confusion": [[8, 2], [1, 9]]})
    assert section is not None
    assert "<bdi>cat</bdi> taken for <bdi>dog</bdi>" in section.body


@pytest.mark.parametrize("matrix", [[], [[1]], [[1, 2], [3]], [[1] * 21] * 21])
def test_what_is_no_readable_matrix_is_left_out(matrix: list[list[int]]) -> None:
    assert confusion({**PUBLIC, "confusion": matrix}) is None


def test_a_class_without_examples_divides_nothing_by_zero() -> None:
    section = confusion({**PUBLIC, "confusion": [[0, 0], [1, 9]]})
    assert section is not None
    assert "nan" not in section.body


def test_calibration_without_bins_is_a_sentence() -> None:
    section = calibration({**PUBLIC, "calibration": {"ece": 0.034}})
    assert section is not None
    assert "3.4 percentage points" in section.body
    assert "<svg" not in section.body
