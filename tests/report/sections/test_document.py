"""The document around sections."""

from __future__ import annotations

from hush.report.page_parts import Html, Section, document, tile


def test_it_loads_nothing_and_allows_no_script() -> None:
    page = document("T", Html("<header></header>"), [], generator=Html(""))
    assert "Content-Security-Policy" in page
    assert "default-src 'none'" in page.replace("&#x27;", "'")
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page


def test_every_section_has_a_link_and_titles_are_escaped() -> None:
    sections = [Section(key="a", title="A < B", body=Html("x")), Section(key="b", title="C", body=Html("y"))]
    page = document("<T>", Html(""), sections, generator=Html(""))
    assert 'href="#a"' in page
    assert 'href="#b"' in page
    assert "A &lt; B" in page
    assert "<title>&lt;T&gt;</title>" in page


def test_a_tile_escapes_its_figure() -> None:
    assert tile("<3", "label") == '<div class="tile"><b>&lt;3</b><span>label</span></div>'
