"""Every small dataset of a few values, with its neighbours: definitions can be checked by enumeration."""

from __future__ import annotations

import itertools
from functools import cache

VALUES = (0.0, 1.0, 3.0, 4.0)
BOUNDS = (0.0, 4.0)


def median(records: tuple[float, ...]) -> float:
    return sorted(records)[(len(records) - 1) // 2]


def neighbours(records: tuple[float, ...]) -> set[tuple[float, ...]]:
    """Return all multisets that differ in one record, as sorted tuples."""
    return {tuple(sorted((*records[:i], value, *records[i + 1 :]))) for i in range(len(records)) for value in VALUES}


@cache
def local_sensitivity(records: tuple[float, ...]) -> float:
    return max(abs(median(other) - median(records)) for other in neighbours(records))


def datasets(size: int) -> list[tuple[float, ...]]:
    return list(itertools.combinations_with_replacement(VALUES, size))


def distance(first: tuple[float, ...], second: tuple[float, ...]) -> int:
    """Return how many records must be replaced to get from one dataset to the other."""
    return len(first) - sum(min(first.count(v), second.count(v)) for v in VALUES)
