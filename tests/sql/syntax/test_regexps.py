"""Patterns that every engine reads alike: those that are refused, and matches as Python's own engine finds them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.sql.syntax.regexps import SEARCHED, PatternRefused, parse_pattern

ATOMS = ["a", "b", "[ab]", "[^a]", r"\d", r"[\w-]", r"\.", "é", r"[a-c0-2]"]
QUANTIFIERS = ["", "", "", "*", "+", "?", "{2}", "{1,3}", "{0,}"]
PATTERNS = st.tuples(
    st.sampled_from(["", "^"]),
    st.lists(st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)), min_size=1, max_size=5),
    st.sampled_from(["", "$"]),
).map(lambda parts: parts[0] + "".join(atom + sign for atom, sign in parts[1]) + parts[2])
TEXTS = st.text("abc012.-_é\n", max_size=12)


def backtracking(text: str) -> str:
    """Return a checked pattern as Python reads it."""
    return parse_pattern(text).text(end=r"\Z")


@given(PATTERNS, TEXTS)
def test_what_is_written_means_what_was_read(pattern: str, text: str) -> None:
    try:
        written = backtracking(pattern)
    except PatternRefused:
        return
    meant = pattern.removesuffix("$") + (r"\Z" if pattern.endswith("$") else "")
    assert bool(re.search(written, text)) == bool(re.search(meant, text, re.ASCII))


def longest_match(pattern: str, text: str) -> str | None:
    """Return the leftmost match, and the longest of those that begin there."""
    for start in range(len(text) + 1):
        for end in range(len(text), start - 1, -1):
            if re.compile(pattern).fullmatch(text, start, end) and ("\\Z" not in pattern or end == len(text)):
                return text[start:end]
    return None


@given(PATTERNS.filter(lambda text: not text.startswith("^")), TEXTS)
def test_a_unique_match_is_the_first_and_the_longest(pattern: str, text: str) -> None:
    try:
        checked = parse_pattern(pattern)
    except PatternRefused:
        return
    if not checked.is_unique:
        return
    written = checked.text(end=r"\Z")
    match = re.search(written, text)
    assert (None if match is None else match[0]) == longest_match(written, text)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a+)+$", "(ab)", "a.b", "a*?", "a++", "a{2}{3}", r"\bword", r"\1", r"\pL", "[[:alpha:]]", "[", "[a", "a\\"),
        *(
            "",
            "x" * 201,
            "a{3,2}",
            "a{0}",
            "a{201}",
            "a$b",
            "^a^",
            "[z-a]",
            "[é-ü]",
            "|a",
            "a|",
            "[]",
            "{2}",
            "*a",
            "a\x00",
        ),
        # A repeated item shares characters with what follows it.
        *("a*a*b", "[a-z]+[a-c]", r"\w+\d", "a?a?a?aaa", "[a-z]*[^0-9]", r"^\w*\w*\w*$", "a+|b*b"),
    ],
)
def test_what_engines_read_differently_or_slowly_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused):
        parse_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "written"),
    [
        (r"^\d{3}-[a-f]?$", r"\A[0123456789]{3}\-[abcdef]?\z"),
        ("a|^b$", r"a|\Ab\z"),
        (r"[\]]", r"\]"),
        ("[^-a]", r"[^\-a]"),
        ("[a|b]", r"[ab\|]"),
        (r"\|", r"\|"),
        ("x{2,}y{0,1}", "x{2,}y?"),
        (r"^[\w.%+-]+@[\w.-]+\.[a-z]{2,6}$", None),
    ],
)
def test_patterns_are_written_anew(pattern: str, written: str | None) -> None:
    text = parse_pattern(pattern).text(end=r"\z")
    assert written is None or text == written


def test_letters_of_either_case_are_ascii() -> None:
    assert parse_pattern("aB1", ignore_case=True).text(end="") == "[Aa][Bb]1"
    with pytest.raises(PatternRefused):
        parse_pattern("é", ignore_case=True)


@pytest.mark.parametrize("pattern", [r"^[\w.%+-]+@[\w.-]+\.[a-z]{2,6}$", "[a-z]+[0-9]", r"^\w*z1$", "a{1,199}b"])
def test_no_text_takes_more_than_some_million_steps(pattern: str) -> None:
    """Python's engine backtracks, too. A pattern with one more loop, (a|a)*b, would take 2^2000 steps."""
    written = backtracking(pattern)
    for text in ("a" * SEARCHED, "a@" + "a." * (SEARCHED // 2), "a@" + "a" * SEARCHED):
        re.search(written, text[:SEARCHED])
