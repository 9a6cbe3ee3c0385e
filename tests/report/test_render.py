"""The page: complete, in order, well formed, and with the record's own figures."""

from __future__ import annotations

import copy
import html
import json
import math
from typing import Any

import pytest

from hush.errors import HushError, InvalidArgument
from hush.guarantee import Bound, Relation
from hush.report import render
from hush.report.drawing import markup
from report import records
from report.pages import Page, check, drawings

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "</title></style></svg><h2>forged</h2>",
    "<!-- hush: not private, end -->",
    "x" * 300,
    "\u202e 99 % \u2066",
    "שלום עולם",
    "👩‍👩‍👧‍👦 family",
    "日本語の名前" * 20,
    "null \x00 escape \x1b half \ud800",
    "",
    "&amp; &lt;",
    "e\u0301" * 90,
]

SECTIONS = [
    "What was protected, and how strongly",
    "The result",
    "Accuracy against the privacy budget spent",
    "Accuracy by class",
    "Accuracy by group",
    "What is mistaken for what",
    "Does the model know how sure it may be?",
    "Where the privacy budget went",
    "What was taken as public",
    "Every hyper-parameter",
    "To do it again",
    "Diagnostics (not private: do not publish)",
]


def hostile(text: str) -> dict[str, Any]:
    """Return a rich record in which every string that a person or a file may choose is ``text``."""
    record = records.rich()
    fixed = {"guarantee"}  # refuses control characters by itself

    def spoil(value: Any) -> Any:
        if isinstance(value, str):
            return text
        if isinstance(value, list):
            return [spoil(inner) for inner in value]
        if isinstance(value, dict):
            return {key: spoil(inner) for key, inner in value.items()}
        return value

    spoiled = {key: value if key in fixed else spoil(value) for key, value in record.items()}
    for part in ("groups", "hyperparameters", "versions"):
        first = next(iter(record[part]))
        spoiled[part] = {text: spoil(record[part][first])}
    return spoiled


def spaced(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_a_rich_record_has_every_section_in_order() -> None:
    assert check(render(records.rich())).headings == SECTIONS


def test_an_empty_record_promises_nothing() -> None:
    page = check(render({}))
    assert page.headings == SECTIONS[:2]
    assert "Treat everything that this run produced as not private" in page.text
    assert "The accuracy was not measured" in page.text


def test_a_poor_record_says_that_it_is_unfinished() -> None:
    assert "has not finished" in check(render(records.poor())).text
    assert "has not finished" not in check(render(records.rich())).text


@pytest.mark.parametrize("part", sorted(records.rich()))
@pytest.mark.parametrize("how", ["missing", "none", "empty"])
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
    assert "No accuracy was measured during training" in page.text
    assert "The accuracy of none of the classes was measured" in page.text


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text(text: str) -> None:
    plain, spoiled = check(render(records.rich())), check(render(hostile(text)))
    assert spoiled.headings == plain.headings
    assert [tag for tag, _ in spoiled.elements].count("section") == len(SECTIONS)
    assert "\u202e" not in spoiled.text
    if text.startswith("<script>"):
        assert text in spoiled.text  # shown, as text


def test_the_checker_finds_text_that_became_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken twin: a renderer that forgets to escape."""
    monkeypatch.setattr(html, "escape", lambda text, quote=True: text)
    assert markup.escape("<b>") == "<b>"
    assert Page(render(hostile("<script>alert(1)</script>"))).problems


def test_names_are_isolated_from_the_direction_of_the_text_around_them() -> None:
    assert "<bdi>שלום עולם</bdi>" in render(hostile("שלום עולם"))


@pytest.mark.parametrize("count", [1, 2, 21, 1000])
def test_any_number_of_classes(count: int) -> None:
    record = records.rich()
    names = [f"class {i}" for i in range(count)]
    record["data"]["classes"] = names
    record["classes"] = [records.figure(name, i / count, 40) for i, name in enumerate(names)]
    record["confusion"] = [[1] * count for _ in range(count)]
    html = render(record)
    page = check(html)
    assert ("What is mistaken for what" in page.headings) == (2 <= count <= 20)
    assert all(f"<bdi>{name}</bdi>" in html for name in names)  # in the table, if not in the plot
    assert len(html) < 400_000


@pytest.mark.parametrize("length", [0, 1, 2, 50, 20_000])
def test_any_length_of_curve(length: int) -> None:
    record = {"data": {"test_is_public": True}, "curve": records.curve(length)}
    html = render(record)
    check(html)
    assert len(html) < 60_000
    if length:
        assert "88.6 %" in spaced(html)  # the last measurement is there, however many are left out


def test_figures_are_those_of_the_record() -> None:
    record = records.rich()
    text = spaced(check(render(record)).text)
    wanted = ["88.7 %", "88.0 to 89.3 %", "3.00", "1e-05", "32.0 percentage points", "3.1 percentage points", "60,000"]
    wanted += [f"{100 * entry['accuracy']:.1f} %" for entry in record["classes"]]
    wanted += [f"{100 * entry['accuracy']:.1f} %" for column in record["groups"].values() for entry in column]
    wanted += [str(cell) for row in record["confusion"] for cell in row if cell]
    wanted += ["0.300", "2.75", "0.0500"]  # the budget, rounded up
    wanted += [*record["public"], *record["learned"], *record["warnings"], record["command"]]
    wanted += [*record["guarantee"]["assumptions"], *record["hyperparameters"], *record["versions"].values()]
    assert not [figure for figure in wanted if figure not in text]


def test_plots_show_the_figures_where_they_are() -> None:
    record = {
        "data": {"test_is_public": True},
        "classes": [records.figure("a", 0.5, None), records.figure("b", 0.6, None), records.figure("c", 0.9, None)],
    }
    (svg,) = drawings(render(record))
    c, b, a = [float(dot.get("cx", "nan")) for dot in svg.iter("circle")]  # best first
    assert (c - a) / (b - a) == pytest.approx(4, abs=1e-3)
    ticks = {element.text: float(element.get("x", "nan")) for element in svg.iter("text")}
    assert ticks["90"] == pytest.approx(c, abs=0.01)


def test_everything_is_drawn_within_the_drawing() -> None:
    for svg in drawings(render(records.rich())):
        _, _, width, height = map(float, svg.get("viewBox", "").split())
        for element in svg.iter():
            for key, limit in (
                ("x", width),
                ("x1", width),
                ("x2", width),
                ("cx", width),
                ("y", height),
                ("cy", height),
            ):
                assert -1e-6 <= float(element.get(key, 0)) <= limit + 1e-6


def test_intervals_that_overlap_are_said_to() -> None:
    groups = {"age": [records.figure("young", 0.9, 50), records.figure("old", 0.85, 50)]}
    assert "overlap, so it may be chance" in check(render({"groups": groups})).text
    groups = {"age": [records.figure("young", 0.9, 5000), records.figure("old", 0.5, 5000)]}
    assert "do not overlap" in check(render({"groups": groups})).text


def test_a_guarantee_is_read_from_a_mapping_and_from_json() -> None:
    stored = records.guarantee()
    assert render({"guarantee": stored}) == render({"guarantee": json.dumps(stored)})


GUARANTEES = [
    (epsilon, bound, relation)
    for epsilon in (0.0, 0.3, 2.9996, 7.0, 11.0, 40.0, 800.0, math.inf)
    for bound in Bound
    for relation in Relation
    if epsilon < math.inf or bound is not Bound.LOWER  # no attack proves an infinite lower bound
]


@pytest.mark.parametrize(("epsilon", "bound", "relation"), GUARANTEES)
def test_every_guarantee_is_explained(epsilon: float, bound: Bound, relation: Relation) -> None:
    text = check(render({"guarantee": records.guarantee(epsilon, bound=bound, relation=relation)})).text
    promises = bound is not Bound.LOWER and epsilon < math.inf
    assert ("can become at most" in text) == promises
    assert ("as not private" in text) != promises
    assert ("An epsilon above 5 is a weak promise" in text) == (promises and 5 < epsilon <= 10)
    assert ("not a proof" in text) == (bound is Bound.ESTIMATE and promises)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"guarantee": {"epsilon": 1}}, "schema"),
        ({"guarantee": "{}"}, "schema"),
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


def test_text_can_be_read_in_both_modes() -> None:
    """WCAG 2.1, 1.4.3: a contrast of 4.5 between text and paper; plots need 3 (1.4.11)."""
    from hush.report.drawing.style import STYLE

    def colours(block: str) -> dict[str, str]:
        declarations = [line.split(":", 1) for line in block.replace("\n", " ").split(";") if "--" in line]
        return {key.strip().removeprefix(":root { color-scheme"): value.strip() for key, value in declarations}

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    def contrast(one: str, other: str) -> float:
        low, high = sorted((light(one), light(other)))
        return (high + 0.05) / (low + 0.05)

    blocks = [block.split("}")[0].split("{")[-1] for block in STYLE.split(":root")[1:]]
    assert len(blocks) == 3
    for block in blocks:
        found = colours(block)
        for text in ("--ink", "--soft"):
            assert min(contrast(found[text], found["--paper"]), contrast(found[text], found["--wash"])) > 4.5
        for mark in ("--s0", "--s1", "--s2", "--alarm"):
            assert contrast(found[mark], found["--paper"]) > 3
