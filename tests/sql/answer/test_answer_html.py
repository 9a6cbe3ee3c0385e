"""Answers in notebooks: what is in a cell stays text, and long answers are cut."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hush.sql.answer.answer_html import MOST_ROWS, answer_page
from sql.answer.test_answer_columns import COUNTS, Rows

EVIL = '</td><script>alert("&")</script>'


def texts(page: str, element: str) -> list[str]:
    return ["".join(cell.itertext()) for cell in ET.fromstring(page).iter(element)]


def test_numbers_intervals_and_notes() -> None:
    page = answer_page(COUNTS, 0.9, ["Limits: 3.", "epsilon <= 1"])
    assert texts(page, "th") == ["k", "n", "90 % interval", "s", "90 % interval"]
    assert texts(page, "td") == ["NULL", "3", "1 to 5", "2.5", "1 to 4", "a", "4", "2 to 6", "1", ""]
    assert texts(page, "p") == ["Limits: 3.", "epsilon <= 1"]


def test_everything_is_escaped() -> None:
    page = answer_page(Rows((EVIL,), [(EVIL,)], [{}]), 0.95, [EVIL])
    assert "<script" not in page
    assert texts(page, "th") == texts(page, "td") == texts(page, "p") == [EVIL]


def test_long_answers_are_cut() -> None:
    rows = Rows(("n",), [(number,) for number in range(MOST_ROWS + 1234)], [{"n": (0.0, 1.0)}] * (MOST_ROWS + 1234))
    page = answer_page(rows, 0.95, [])
    assert len(texts(page, "tr")) == MOST_ROWS + 1
    assert texts(page, "p") == ["1,234 more rows are not shown."]


def test_an_answer_without_rows() -> None:
    assert texts(answer_page(Rows(("k", "n"), []), 0.95, ["note"]), "th") == ["k", "n"]


def test_nothing_is_loaded_and_colours_are_the_notebooks() -> None:
    page = answer_page(COUNTS, 0.95, ["note"])
    assert not any(word in page for word in ("url(", "src=", "href=", "#fff", "black", "white;"))
