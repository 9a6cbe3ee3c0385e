"""Accuracy by class and group."""

from __future__ import annotations

import pytest

from hush.report import render
from report import records
from report.pages import check


@pytest.mark.parametrize("count", [1, 2, 21, 1000])
def test_any_number_of_classes(count: int) -> None:
    record = records.rich()
    names = [f"class {i}" for i in range(count)]
    record["data"]["classes"] = names
    record["classes"] = [records.figure(name, i / count, 40) for i, name in enumerate(names)]
    record["confusion"] = [[1] * count for _ in range(count)]
    html = render(record)
    page = check(html)
    assert ("Confusion matrix" in page.headings) == (2 <= count <= 20)
    assert all(f"<bdi>{name}</bdi>" in html for name in names)  # in the table, if not in the plot
    assert len(html) < 400_000


def test_intervals_that_overlap_are_said_to() -> None:
    groups = {"age": [records.figure("young", 0.9, 50), records.figure("old", 0.85, 50)]}
    assert "overlap, so the gap may be due to chance" in check(render({"groups": groups})).text
    groups = {"age": [records.figure("young", 0.9, 5000), records.figure("old", 0.5, 5000)]}
    assert "do not overlap" in check(render({"groups": groups})).text
