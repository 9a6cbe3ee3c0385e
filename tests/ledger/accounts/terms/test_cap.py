"""Caps as plain values."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from hush.accounting.budget import Cap
from hush.guarantee import Relation, Unit
from hush.ledger.accounts.terms.cap import cap_from, cap_terms, unit_name_from

CAPS = [
    Cap(epsilon=3.0, delta=1e-6, unit=Unit.example()),
    Cap(epsilon=0.5, delta=0.0, relation=Relation.REPLACE, unit=Unit.user()),
    Cap(epsilon=1.0, delta=1e-9, order=12.0, claims_delta=1e-10, unit=Unit.user_window(timedelta(days=7))),
]


@pytest.mark.parametrize("cap", CAPS, ids=str)
def test_a_cap_survives_json(cap: Cap) -> None:
    assert cap_from(json.loads(json.dumps(cap_terms(cap, "patient")))) == cap


def test_the_owners_word_for_the_unit_is_stored() -> None:
    assert unit_name_from(cap_terms(CAPS[0], "patient")) == "patient"
    assert unit_name_from(cap_terms(CAPS[0], Unit.user())) == "user"


def test_earlier_versions_stored_a_unit_in_parts() -> None:
    window = {"seconds": 604_800, "origin": "1970-01-01"}
    unit = {"kind": "user-window", "window": window, "called": "patient-week"}
    terms = cap_terms(CAPS[2], "week")
    del terms["unit_name"]
    terms["unit"] = unit
    assert cap_from(terms) == CAPS[2]
    assert unit_name_from(terms) == "patient-week"
