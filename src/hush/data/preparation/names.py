"""What the names of columns say: ids, names of people, and free text. No value is read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|\d+")
_IDS = frozenset("id ids uid uuid guid ssn iban email mail mrn passport phone telephone mobile rowid pk".split())
_ALONE = frozenset("index name names surname address street login username column1 unnamed".split())
_PEOPLE = frozenset(
    "person people patient user customer client member employee worker student pupil subject participant respondent "
    "passenger player household family child resident citizen donor voter tenant".split()
)
_NAMES = frozenset("name names surname address".split())
_NAMED = _PEOPLE | frozenset("first last full middle given family maiden".split())
_FREE_TEXT = frozenset(
    "text comment comments note notes description message messages review body title abstract summary tweet content "
    "feedback remark remarks transcript narrative headline sentence letter".split()
)
_SIMILAR = 0.6  # the ratio of difflib from which two names count as one that was misspelt


def words_of(name: str) -> list[str]:
    """Return the words of a column's name, in lower case.

    >>> words_of("PassengerId"), words_of("patient_id"), words_of("Unnamed: 0")
    (['passenger', 'id'], ['patient', 'id'], ['unnamed', '0'])
    """
    return [part.lower() for part in _PARTS.findall(name)]


def looks_like_id(name: str) -> bool:
    """Return whether a name promises ids, names or addresses, which tell people apart and predict nothing.

    >>> [looks_like_id(name) for name in ("customerID", "Name", "last_name", "column1", "idle", "product name", "zip")]
    [True, True, True, True, False, False, False]
    """
    words = words_of(name)
    if not words:
        return False
    if words[-1] in _IDS or (words[0] in _ALONE and len(words) == 1) or words[0] == "unnamed" or name == "column1":
        return True
    return words[-1] in _NAMES and bool(_NAMED.intersection(words[:-1]))


def identifies_people(name: str) -> bool:
    """Return whether a name promises one id for each person.

    >>> [identifies_people(name) for name in ("patient_id", "id", "order_id", "last_name")]
    [True, True, False, False]
    """
    words = words_of(name)
    return bool(words) and words[-1] in _IDS and (len(words) == 1 or bool(_PEOPLE.intersection(words)))


def looks_like_free_text(name: str) -> bool:
    """Return whether a name promises sentences.

    >>> looks_like_free_text("review_text"), looks_like_free_text("context")
    (True, False)
    """
    words = words_of(name)
    return len(words) > 0 and words[-1] in _FREE_TEXT


def closest(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that are most like one that does not exist, best first.

    >>> closest("patientid", ["age", "patient_id", "Patient"])
    ['patient_id', 'Patient']
    """
    lower = {other.lower(): other for other in reversed(names)}
    return [lower[match] for match in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=_SIMILAR)]
