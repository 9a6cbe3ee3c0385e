"""The two choices, beside the unit, that give an (epsilon, delta) pair its meaning."""

from __future__ import annotations

from enum import StrEnum


class Relation(StrEnum):
    """How two datasets that count as neighbours differ, in one unit of protection.

    An epsilon says nothing without it: replacing a record is one removal and one addition, so the same mechanism has
    up to about twice the epsilon under `REPLACE` that it has under `ADD_OR_REMOVE`.
    """

    ADD_OR_REMOVE = "add-or-remove"
    """One unit is present in one dataset and absent from the other; the size of the data is private too."""

    REPLACE = "replace"
    """One unit has other contents in the other dataset; the size of the data is public."""

    ZERO_OUT = "zero-out"
    """One unit's contribution is replaced by a fixed neutral one; the size of the data is public."""


class Bound(StrEnum):
    """On which side of the true epsilon a claim lies."""

    UPPER = "upper"
    """Proven: the true epsilon is at most this. Only an upper bound is a promise to the people in the data."""

    LOWER = "lower"
    """Proven by an attack: the true epsilon is at least this."""

    ESTIMATE = "estimate"
    """Neither: an approximation that may lie on either side of the truth."""
