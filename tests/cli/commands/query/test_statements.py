"""Where statements end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.cli.commands.query.statements import first_statement, is_blank

PIECES = ["a", " ", "\n", "';'", '";"', "`;`", "-- ;\n", "/* ; */", "'it''s;'", "''"]


@given(st.lists(st.sampled_from(PIECES), max_size=8), st.text(max_size=8))
def test_semicolons_within_quotes_and_comments_end_nothing(pieces: list[str], rest: str) -> None:
    text = "".join(pieces)
    assert first_statement(text) is None
    assert first_statement(f"{text};{rest}") == (text, rest)


@pytest.mark.parametrize("text", ["'a;", '"a;', "`a;", "/* a;", "-- a;", "'a'';"])
def test_what_is_open_does_not_end(text: str) -> None:
    assert first_statement(text) is None


@pytest.mark.parametrize(
    ("text", "blank"), [("", True), (" \n-- a\n/* b\n */", True), ("-- a\nb", False), ("'--'", False)]
)
def test_blank(text: str, blank: bool) -> None:
    assert is_blank(text) is blank
