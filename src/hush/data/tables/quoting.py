"""Names and texts in SQL, as DuckDB and PostgreSQL write them."""

from __future__ import annotations


def quote_name(name: str) -> str:
    """Return a quoted name.

    >>> print(quote_name('the "best" one'))
    "the ""best"" one"
    """
    return '"' + name.replace('"', '""') + '"'


def quote_text(value: str) -> str:
    """Return a text constant.

    >>> quote_text("it's")
    "'it''s'"
    """
    return "'" + value.replace("'", "''") + "'"
