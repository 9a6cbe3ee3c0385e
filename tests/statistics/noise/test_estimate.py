"""Estimates by group: entries by key, and parts that go along."""

from __future__ import annotations

import pytest

import hush.statistics as hs
from hush.randomness import TestSource


def test_an_entry_is_an_estimate_of_its_own() -> None:
    settings = {"groups": ["a", "b", "b"], "keys": ["b", "a", "c"], "bounds": (0, 10), "epsilon": 1.0}
    result = hs.mean([1, 2, 3], units=[1, 2, 3], **settings, source=TestSource(1))
    assert list(result) == ["b", "a", "c"]
    for position, key in enumerate(result):
        entry = result[key]
        assert (entry.value, entry.low, entry.high) == (
            result.value[position],
            result.low[position],
            result.high[position],
        )
        assert entry.parts["count"].value == result.parts["count"].value[position]
        assert (entry.keys, entry.guarantee, entry.event) == (None, result.guarantee, result.event)


def test_unknown_keys_and_entries_of_no_groups_are_missing() -> None:
    grouped = hs.count([1], units=[1], groups=["a"], keys=["a"], epsilon=1.0)
    with pytest.raises(KeyError):
        grouped["b"]
    alone = hs.count([1], units=[1], epsilon=1.0)
    assert list(alone) == []
    with pytest.raises(KeyError):
        alone["a"]
    with pytest.raises(TypeError):
        alone.parts["more"] = alone  # type: ignore[index]
