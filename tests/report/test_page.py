"""The page as a whole: every section, every part missing, every figure bad."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from hush.errors import HushError, InvalidArgument
from hush.guarantee import Guarantee, LedgerRow
from hush.report import render
from report import records
from report.pages import check, drawings

SECTIONS = [
    "The privacy guarantee",
    "Is this epsilon strong or weak?",
    "Result",
    "Accuracy against the privacy budget spent",
    "Accuracy by class",
    "Accuracy by group",
    "Confusion matrix",
    "Calibration",
    "Privacy budget",
    "Public inputs",
    "Hyper-parameters",
    "Reproduce this run",
    "Diagnostics (not private: do not publish)",
]


def test_a_rich_record_has_every_section_in_order() -> None:
    assert check(render(records.rich())).headings == SECTIONS


def test_an_empty_record_promises_nothing() -> None:
    page = check(render({}))
    assert page.headings == [SECTIONS[0], SECTIONS[2]]  # nothing is compared without a guarantee
    assert "Treat everything this run produced as not private" in page.text
    assert "Accuracy was not measured" in page.text


def test_a_poor_record_says_that_it_is_unfinished() -> None:
    assert "has not finished" in check(render(records.poor())).text
    assert "has not finished" not in check(render(records.rich())).text


@pytest.mark.parametrize("part", sorted(records.rich()))
@pytest.mark.parametrize("how", ["missing", "none", "empty"])
@pytest.mark.quick_cases(22)
def test_every_part_may_be_missing(part: str, how: str) -> None:
    record = records.rich()
    value = record.pop(part)
    if how == "none":
        record[part] = None
    elif how == "empty" and isinstance(value, dict | list) and part != "guarantee":
        record[part] = type(value)()
    check(render(record))


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths to every figure of a record; of a list, the first entries stand for all."""
    if isinstance(value, dict):
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, inner in enumerate(value[:2]) for leaf in leaves(inner, (*path, index))]
    return [path] if isinstance(value, int | float) else []


BAD = [None, math.nan, math.inf, -math.inf, -1.0, 1e308, 1e-310, 10**400, "x", True]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: str(bad)[:9])
@pytest.mark.quick_cases(3)
def test_every_figure_may_be_bad(bad: Any) -> None:
    base = records.rich()
    base.pop("guarantee")  # a damaged guarantee is refused, see below
    paths = leaves(base)
    assert len(paths) > 60
    for path in paths:
        record = copy.deepcopy({path[0]: base[path[0]]})  # its part alone, which is faster
        inner = record
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = bad
        page = render(record)
        for svg in drawings(page):
            coordinates = [text for element in svg.iter() for text in element.attrib.values()]
            assert not any("nan" in text or "inf" in text for text in coordinates)


def test_all_bad_at_once_is_still_a_page() -> None:
    record = records.rich()
    record["curve"] = [{"step": 1, "epsilon": math.nan, "accuracy": math.nan}]
    record["classes"] = [records.figure("a", None), records.figure("b", math.nan, None)]
    record["calibration"] = {"ece": math.nan, "bins": []}
    record["confusion"] = [[math.nan, 1], [0, 0]]
    page = check(render(record))
    assert "Accuracy was not measured during training" in page.text
    assert "Accuracy was measured for none of the classes" in page.text


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"guarantee": {"epsilon": 1}}, "format"),
        ({"guarantee": "{}"}, "format"),
        ({"guarantee": {**records.guarantee(), "epsilon": math.nan}}, "NaN"),
        ({"data": "mnist"}, "a mapping, or nothing"),
        ({"curve": "up"}, "a list, or nothing"),
        ({"classes": {"a": 1}}, "a list, or nothing"),
        ({"classes": [0.5]}, "a list of mappings"),
        ({"private": True}, "a list, or nothing"),
    ],
)
def test_what_has_the_wrong_shape_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HushError, match=message):
        render({**records.rich(), **change})


def test_only_a_mapping_is_rendered() -> None:
    with pytest.raises(InvalidArgument, match="^record='list': expected a mapping"):
        render([])  # type: ignore[arg-type]


def test_rendering_changes_nothing_and_is_repeatable() -> None:
    record = records.rich()
    before = copy.deepcopy(record)
    assert render(record) == render(before)
    assert record == before


def test_a_guarantee_made_with_test_randomness_is_said_first() -> None:
    stored = Guarantee(epsilon=1.0, delta=1e-6, assumptions=("test randomness",)).to_json()
    header = render({"title": "A model", "guarantee": stored}).split("</header>")[0]
    assert header.index("NOT PRIVATE") < header.index("epsilon")
    assert "NOT PRIVATE" not in render({"guarantee": Guarantee(epsilon=1.0, delta=1e-6).to_json()})


def test_a_page_names_the_row_that_paid() -> None:
    charged = LedgerRow("<b>people", 7, "0f" * 32)
    page = render({"guarantee": Guarantee(epsilon=1.0, delta=1e-6, charged=charged).to_json()})
    assert "Charged to the budget &lt;b&gt;people by row 7 of its ledger" in page
