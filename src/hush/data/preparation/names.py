"""What the names of columns say: ids, names of people, and free text. No value is read."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence

_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_a-zA-Z]+|\d+")
_ID_WORDS = "id ids uid uuid guid ssn iban email mail mrn passport phone telephone mobile rowid pk"
_PERSON_WORDS = (
    "person people patient user customer client member employee worker student pupil subject participant respondent "
    "passenger player household family child resident citizen donor voter tenant"
)
_SENTENCE_WORDS = (
    "text comment comments note notes description message messages review body title abstract summary tweet content "
    "feedback remark remarks transcript narrative headline sentence letter"
)
_IDS, _PEOPLE, _FREE_TEXT = (frozenset(words.split()) for words in (_ID_WORDS, _PERSON_WORDS, _SENTENCE_WORDS))
_ALONE = frozenset(("index", "name", "names", "surname", "address", "street", "login", "username", "unnamed"))
_NO_NAME = "column1"  # what `column_names` calls a first column without a name: usually the index of a data frame
_NAMES = frozenset(("name", "names", "surname", "address"))
_NAMED = _PEOPLE | frozenset(("first", "last", "full", "middle", "given", "maiden"))
_QUESTIONS = frozenset(("is", "has", "was", "had", "did", "will"))
_CLASSES = frozenset(("label", "class", "category", "type", "kind", "flag", "species", "grade", "diagnosis"))
_SHORTEST_PARTICIPLE = 5  # "speed" and "seed" are none
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
    if words[-1] in _IDS or (words[0] in _ALONE and len(words) == 1) or words[0] == "unnamed" or name == _NO_NAME:
        return True
    return words[-1] in _NAMES and bool(_NAMED.intersection(words[:-1]))


def identifies_people(name: str) -> bool:
    """Return whether the name of a column of ids promises one for each person.

    >>> [identifies_people(name) for name in ("patient_id", "id", "customer", "order_id", "last_name")]
    [True, True, True, False, False]
    """
    words = words_of(name)
    is_of_people = bool(_PEOPLE.intersection(words))
    return bool(words) and ((words[-1] in _IDS and (len(words) == 1 or is_of_people)) or words[-1] in _PEOPLE)


def looks_like_free_text(name: str) -> bool:
    """Return whether a name promises sentences.

    >>> looks_like_free_text("review_text"), looks_like_free_text("context")
    (True, False)
    """
    words = words_of(name)
    return len(words) > 0 and words[-1] in _FREE_TEXT


def looks_like_classes(name: str) -> bool:
    """Return whether the name of a column of numbers promises classes, as those of yes-or-no questions do.

    >>> [looks_like_classes(name) for name in ("label", "is_fraud", "y", "price", "Survived", "amount_claimed")]
    [True, True, False, False, False, False]
    """
    words = words_of(name)
    if not words:
        return False
    return (words[0] in _QUESTIONS and len(words) > 1) or words[-1] in _CLASSES


def may_be_classes(name: str) -> bool:
    """Return whether classes are likelier than numbers, in a column of numbers whose name promises neither.

    It is for a question, not for an answer: a participle may say whether something happened, and how much of it.

    >>> [may_be_classes(name) for name in ("readmitted", "Survived", "y", "speed", "amount_claimed", "time_elapsed")]
    [True, True, False, False, False, False]
    """
    words = words_of(name)
    return len(words) == 1 and words[0].endswith("ed") and len(words[0]) > _SHORTEST_PARTICIPLE


def closest(name: str, names: Sequence[str]) -> list[str]:
    """Return the names that are most like one that does not exist, best first.

    >>> closest("patientid", ["age", "patient_id", "Patient"])
    ['patient_id', 'Patient']
    """
    lower = {other.lower(): other for other in reversed(names)}
    return [lower[match] for match in difflib.get_close_matches(name.lower(), lower, n=3, cutoff=_SIMILAR)]
