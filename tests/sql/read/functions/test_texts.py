"""Functions of text: what is refused. `sql.test_engine_functions` compares their values on all engines."""

from __future__ import annotations

import pytest

from hush.data.tables.catalog import Catalog
from sql.refusing import check_refusal

REFUSED = [
    ("REPLACE(note, 'a', 'bb') = ''", "REPLACE with a longer text is refused"),
    ("REPLACE(note, 'a', 'é') = ''", "REPLACE with a longer text is refused"),  # two bytes
    ("REPLACE(note, '', '') = ''", "a text of 1 to 10000 characters"),
    ("REPLACE(note, region, '') = ''", "expected a constant"),
    ("SPLIT_PART(note, '', 1) = ''", "a text of 1 to 10000 characters"),
    ("SPLIT_PART(note, '-', 0) = ''", "SPLIT_PART takes a constant part"),
    ("SPLIT_PART(note, '-', -1) = ''", "SPLIT_PART takes a constant part"),
    ("SPLIT_PART(note, '-', age) = ''", "expected a constant"),
    ("RIGHT(note, -1) = ''", "RIGHT takes a constant length"),
    ("LEFT(note, age) = ''", "expected a constant"),
    ("STARTS_WITH(note, region)", "expected a constant"),
    ("STARTS_WITH(age, '1')", "expected text here"),
    ("CONTAINS(note, '')", "a text of 1 to 10000 characters"),
    ("CONCAT_WS(note, region) = ''", "expected a constant"),
    ("TRIM(note, 'x') = ''", "is not supported in TRIM"),
    ("note ~ 'a+'", "on duckdb, it has to match a whole text"),
    ("REGEXP_MATCHES(note, 'a*a*b')", "a long text could make it slow"),
    ("REGEXP_MATCHES(note, region)", "expected a constant"),
    ("REGEXP_MATCHES(note, 'a', 'm')", "of the modifiers"),
    ("REGEXP_MATCHES(note, 'a', 'ic')", "of the modifiers"),
    ("note SIMILAR TO 'a%'", "engines differ about it"),
    ("REGEXP_EXTRACT(note, 'a|b') = 'a'", "different matches"),
    ("REGEXP_EXTRACT(note, 'a*') = 'a'", "an empty one"),
    ("REGEXP_EXTRACT(note, 'a', 1) = 'a'", "groups of a pattern"),
    ("REGEXP_REPLACE(note, 'a', 'bb') = ''", "texts could grow"),
    ("REGEXP_REPLACE(note, 'a', 'é') = ''", "texts could grow"),
    ("REGEXP_REPLACE(note, 'aa', '$0') = ''", "in a replacement is not supported"),
]


@pytest.mark.parametrize(("condition", "words"), REFUSED, ids=[condition for condition, _ in REFUSED])
def test_refused(condition: str, words: str, catalog: Catalog) -> None:
    check_refusal(f"SELECT COUNT(*) FROM people WHERE {condition}", None, words, catalog)
