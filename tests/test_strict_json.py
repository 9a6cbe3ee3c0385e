"""The JSON parser: everything that JSON is, and nothing that readers disagree on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.strict_json import parse, take_format

documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(documents)
def test_reads_what_python_writes(document: Any) -> None:
    assert parse(json.dumps(document)) == document


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "[1, NaN]", '{"a": Infinity}'])
def test_refuses_constants_that_are_no_json(literal: str) -> None:
    with pytest.raises(InvalidArgument, match="expected strict JSON"):
        parse(literal)


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '[{"b": {"a": 1, "a": 2}}]', '{"a": 1, "\\u0061": 2}'])
def test_refuses_repeated_keys_at_every_level(text: str) -> None:
    with pytest.raises(InvalidArgument, match="^field='a': expected each field once"):
        parse(text)


@pytest.mark.parametrize("text", ["", "{", "{'a': 1}", "[1,]", "1 2", "9" * 10_000, "[" * 100_000])
def test_refuses_what_cannot_be_parsed(text: str) -> None:
    with pytest.raises(InvalidArgument, match="expected JSON"):
        parse(text)


@pytest.mark.parametrize("text", [None, b"{}", {}, 1])
def test_reads_text_only(text: Any) -> None:
    with pytest.raises(InvalidArgument, match="^text="):
        parse(text)


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"format": "hush.event/1"}, "hush.event/1"),
        ({"schema": "hush.event/1"}, "hush.event/1"),
        ({"format": "hush-run/1"}, "hush.run/1"),
        ({"format": "hush-catalog", "version": 1}, "hush.catalog/1"),
        ({"format": "hush-catalog", "version": True}, "hush.catalog/True"),
        ({"format": "other-run/1"}, "other-run/1"),
        ({"format": 1, "schema": "hush.event/1"}, 1),
        ({}, None),
    ],
)
def test_formats_are_read_as_earlier_versions_wrote_them(content: dict[str, Any], name: object) -> None:
    content |= {"schema": {"columns": {}}} if content.get("format") == "hush-run/1" else {}
    rest = {"schema"} if "schema" in content and "format" in content else set()
    assert take_format(content) == name
    assert content.keys() == rest
