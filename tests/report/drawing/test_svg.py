"""Labels and thinned lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.report.drawing.svg import shortened, thinned
from hush.report.page_parts import Point


@given(st.text(alphabet=st.characters(max_codepoint=0x24F, categories=["L", "N", "Zs"])), st.floats(20, 400))
def test_labels_fit(text: str, room: float) -> None:
    short, whole = shortened(text, room), " ".join(text.split())
    assert len(short) * 7 <= room
    assert whole.startswith(short.removesuffix("…"))
    assert (short == whole) or short.endswith("…")


@pytest.mark.parametrize("letter", ["e\u0301", "👩‍👩‍👧‍👦", "👍🏽", "語", "ש"])
def test_a_label_is_cut_between_letters(letter: str) -> None:
    short = shortened(letter * 60, 100)
    assert short == letter * short.count(letter) + "…"
    assert 4 <= short.count(letter) <= 13


def test_spaces_and_lines_are_one_space() -> None:
    assert shortened("a  b\n c", 400) == "a b c"


@pytest.mark.parametrize("length", [1, 2, 299, 300, 301, 5000])
def test_thinning_keeps_the_ends(length: int) -> None:
    points = [Point(x=float(i), y=0.0) for i in range(length)]
    kept = thinned(points)
    assert len(kept) <= 300
    assert (kept[0], kept[-1]) == (points[0], points[-1])
    assert [point.x for point in kept] == sorted({point.x for point in kept})
