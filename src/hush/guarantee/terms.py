"""The two choices that, together with the unit, give an (epsilon, delta) pair its meaning."""

from __future__ import annotations

from enum import StrEnum


class Relation(StrEnum):
    """How two neighbouring datasets differ, in one privacy unit.

    An epsilon has no meaning without it. Replacing a record is one removal and one addition, so the same mechanism has
    up to about twice the epsilon under `REPLACE` that it has under `ADD_OR_REMOVE`. The values are the words that the
    command line and JSON use.

    >>> Relation("replace") is Relation.REPLACE
    True
    >>> [relation.value for relation in Relation]
    ['add-or-remove', 'replace', 'zero-out']
    """

    ADD_OR_REMOVE = "add-or-remove"
    """One unit is present in one dataset and absent from the other. The number of units is private."""

    REPLACE = "replace"
    """One unit has different contents in the other dataset. The number of units is public."""

    ZERO_OUT = "zero-out"
    """One unit's contribution is replaced by a fixed neutral one. The number of units is public."""


class Bound(StrEnum):
    """The side of the true epsilon that a claim is on.

    Accountants prove upper bounds and audits prove lower bounds; a correct implementation has lower <= upper.

    >>> from hush.guarantee import Guarantee
    >>> print(Guarantee(epsilon=0.7, delta=0, bound=Bound.LOWER, method="a membership attack"))
    epsilon >= 0.7, delta = 0 per example (add-or-remove), by a membership attack
    """

    UPPER = "upper"
    """Proven: the true epsilon is at most this. Only an upper bound is a promise to the people in the data."""

    LOWER = "lower"
    """Proven by an attack: the true epsilon is at least this."""

    ESTIMATE = "estimate"
    """Neither: an approximation that may be on either side of the true epsilon."""
