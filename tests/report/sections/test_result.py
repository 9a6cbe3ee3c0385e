"""Accuracy, its curve, and where its points are drawn."""

from __future__ import annotations

import pytest

from hush.report import render
from report import records
from report.pages import check, drawings


def spaced(text: str) -> str:
    return text.replace("\u00a0", " ")


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


@pytest.mark.parametrize("private", [[], ["error"]])
def test_an_error_says_what_targets_it_is_of(private: list[str]) -> None:
    error = {"value": 23.5, "low": 22.25, "high": 25.5, "root_mean_square": None, "baseline": 26.5, "confidence": 0.95}
    record = {"data": {"test_is_public": False}, "private": private, "error": {**error, "clamped_to": [4.0, 75.4]}}
    text = spaced(check(render(record)).text)
    assert "held-out units, of targets clamped to [4, 75.4]: 23.5" in text
    assert "the standard deviation of the clamped targets: 26.5" in text
    for ends in (None, [4.0], [None, 75.4], "4, 75.4"):  # of an earlier version, or damaged
        record["error"] = {**error, "clamped_to": ends}
        assert "held-out units: 23.5" in spaced(check(render(record)).text)


def test_measured_errors_are_rounded() -> None:
    error = {"value": 23.953797648762936, "low": 22.38412, "high": 25.53321, "baseline": 26.6123, "confidence": 0.95}
    text = spaced(check(render({"error": error, "data": {"test_is_public": True, "classes": []}})).text)
    assert "units: 23.95" in " ".join(text.split())
    assert "95 % interval: 22.38 to 25.53; the standard deviation of the target: 26.61" in text
    assert "Classes" not in text
