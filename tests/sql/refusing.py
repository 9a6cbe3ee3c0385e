"""A check of refusals, which the tests of several modules share."""

from __future__ import annotations

import re

import pytest

from hush.data.tables.catalog import Catalog
from hush.sql import QueryRefused
from hush.sql.read.query import plan_query


def check_refusal(text: str, position: tuple[int, int] | None, words: str, catalog: Catalog) -> None:
    """Check that a query is refused for a reason with these words, and that the refusal points to the right part."""
    with pytest.raises(QueryRefused) as caught:
        plan_query(text, tables=catalog)
    message = str(caught.value)
    assert words in message
    assert re.fullmatch(r"(line \d+, column \d+: )?.+[.!?]", message, re.DOTALL)
    if position is not None:
        assert (caught.value.line, caught.value.column) == position
    else:
        assert caught.value.line >= 1
