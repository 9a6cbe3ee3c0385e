"""The words for relations and bounds: stored in JSON, so they must not change."""

from __future__ import annotations

from hush.guarantee import Bound, Relation


def test_words_are_those_that_stored_guarantees_contain() -> None:
    assert {relation.name: relation.value for relation in Relation} == {
        "ADD_OR_REMOVE": "add-or-remove",
        "REPLACE": "replace",
        "ZERO_OUT": "zero-out",
    }
    assert {bound.name: bound.value for bound in Bound} == {"UPPER": "upper", "LOWER": "lower", "ESTIMATE": "estimate"}


def test_terms_are_found_by_their_words_and_print_as_them() -> None:
    for term in (*Relation, *Bound):
        assert type(term)(str(term)) is term
