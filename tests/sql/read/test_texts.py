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
    ("note ~ 'a+'", "regular expressions are refused"),
    ("note SIMILAR TO 'a+'", "regular expressions are refused"),
    ("REGEXP_REPLACE(note, 'a', '') = ''", "regular expressions are refused"),
]


@pytest.mark.parametrize(("condition", "words"), REFUSED, ids=[condition for condition, _ in REFUSED])
def test_refused(condition: str, words: str, catalog: Catalog) -> None:
    check_refusal(f"SELECT COUNT(*) FROM people WHERE {condition}", None, words, catalog)
