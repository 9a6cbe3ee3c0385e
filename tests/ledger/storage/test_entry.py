"""Rows and their hashes."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from hush.accounting.budget import Cost
from hush.ledger import Entry, EntryKind
from hush.ledger.storage.entry import HASHED

ROW = Entry(id=3, kind=EntryKind.RESERVED, budget="patients", event="{}", purpose="a count", renyi=5, pure=7, delta=9)


def changed(name: str) -> Entry:
    value = getattr(ROW, name)
    return replace(ROW, **{name: value + 1 if isinstance(value, int) else f"{value or ''}x"})


def test_every_field_but_the_hash_itself_is_hashed() -> None:
    assert {field.name for field in fields(Entry)} - set(HASHED) == {"hash"}


@pytest.mark.parametrize("name", HASHED)
def test_changing_any_field_changes_the_hash(name: str) -> None:
    assert changed(name).computed_hash() != ROW.computed_hash()


def test_text_that_moves_from_one_field_to_the_next_changes_the_hash() -> None:
    moved = replace(ROW, purpose="a coun", author="t")
    assert moved.computed_hash() != ROW.computed_hash()


def test_a_missing_value_differs_from_an_empty_or_literal_one() -> None:
    hashes = {replace(ROW, answer=answer).computed_hash() for answer in (None, "", "-", "None")}
    assert len(hashes) == 4


def test_the_cost_is_read_from_its_four_fields() -> None:
    assert ROW.cost == Cost(renyi=5, pure=7, unbounded=0, delta=9)
