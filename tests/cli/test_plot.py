"""The figure of `hush plan`: an SVG file with both curves, readable without its page."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from hush.cli.plot import check_plot_path, plot_plan
from hush.errors import InvalidArgument
from hush.guarantee import Guarantee

EPOCHS = [{"epoch": float(epoch), "epsilon": epoch**0.5, "rdp_epsilon": 1.2 * epoch**0.5} for epoch in range(1, 10)]
GUARANTEE = Guarantee(epsilon=3.0, delta=1e-5)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path, epochs: list[dict[str, float]] = EPOCHS, guarantee: Guarantee = GUARANTEE) -> ET.Element:
    plot_plan(epochs, guarantee, path)
    return ET.parse(path).getroot()


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_both_curves_and_the_guarantee(tmp_path: Path) -> None:
    root = drawn(tmp_path / "plan.svg")
    labels = texts(root)
    for label in ("PLD", "Renyi", "epoch", "epsilon at delta = 1e-05", "epsilon = 3"):
        assert label in labels
    curves = [element for element in root.iter() if (element.get("class") or "").startswith("line ")]
    assert [element.get("class") for element in curves] == ["line s0", "line s1"]
    description = root.find(f"{SVG}desc")
    assert description is not None
    assert description.text == "After the last epoch, epsilon is 3 at delta 1e-05."
    assert root.find(f"{SVG}style") is not None


def test_curves_lie_within_the_drawing(tmp_path: Path) -> None:
    root = drawn(tmp_path / "plan.svg")
    left, top, width, height = map(float, (root.get("viewBox") or "").split())
    for dot in root.iter(f"{SVG}circle"):
        assert left < float(dot.get("cx") or "nan") < left + width
        assert top < float(dot.get("cy") or "nan") < top + height


def test_infinite_values_are_left_out(tmp_path: Path) -> None:
    epochs = [{**row, "epsilon": math.inf} for row in EPOCHS]
    labels = texts(drawn(tmp_path / "plan.svg", epochs, Guarantee(epsilon=math.inf, delta=0.0)))
    assert "Renyi" in labels
    assert "PLD" not in labels
    nothing = [{**row, "epsilon": math.inf, "rdp_epsilon": math.inf} for row in EPOCHS]
    with pytest.raises(InvalidArgument, match="a plan with a finite epsilon"):
        plot_plan(nothing, GUARANTEE, tmp_path / "other.svg")


@pytest.mark.parametrize("name", ["plan.png", "plan.pdf", "plan", "plan.svg.txt"])
def test_only_svg_is_drawn(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"ends in \.svg. hush draws SVG only: --plot plan"):
        check_plot_path(tmp_path / name)


def test_the_folder_has_to_exist(tmp_path: Path) -> None:
    check_plot_path(tmp_path / "plan.SVG")
    with pytest.raises(InvalidArgument, match="a folder that exists"):
        check_plot_path(tmp_path / "nowhere" / "plan.svg")
    (tmp_path / "taken.svg").mkdir()
    with pytest.raises(InvalidArgument, match="a file that can be written"):
        plot_plan(EPOCHS, GUARANTEE, tmp_path / "taken.svg")
