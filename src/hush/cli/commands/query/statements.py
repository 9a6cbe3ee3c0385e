"""Where a statement of SQL ends: at a semicolon outside quotes and comments."""

from __future__ import annotations

import re

_COMMENT = r"--[^\n]*(?:\n|$)|/\*.*?\*/"
_PIECE = re.compile(rf"""'[^']*'|"[^"]*"|`[^`]*`|{_COMMENT}|(?P<open>['"`]|/\*)|(?P<end>;)|.""", re.DOTALL)
_COMMENTS = re.compile(_COMMENT, re.DOTALL)


def first_statement(text: str) -> tuple[str, str] | None:
    r"""Return the first statement without its semicolon, and the rest; None if the text has no complete statement.

    >>> first_statement("SELECT ';' -- a; b\n, 1; SELECT 2")
    ("SELECT ';' -- a; b\n, 1", ' SELECT 2')
    >>> first_statement("SELECT 'a;") is None
    True
    """
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            return None
        if piece["end"]:
            return text[: piece.start()], text[piece.end() :]
    return None


def is_blank(text: str) -> bool:
    """Return whether a text has nothing but space and comments."""
    return not _COMMENTS.sub("", text).strip()
