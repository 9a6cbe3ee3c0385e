"""Cases of a test that are enough for `make test`; the others are slow tests.

| where | cases that stay quick |
|---|---|
| `first_quick(cases, n)`, in a parametrisation | the first n, such as the most telling ones |
| `@pytest.mark.quick_cases(n)`, on a test | n that lie evenly among all cases of the test |
| `@pytest.mark.quick_cases("many rows", "NULL")` | those with one of the words in their id |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest


def first_quick(cases: Iterable[Any], number: int) -> list[Any]:
    """Return all cases, those after the first ones marked as slow. A tuple is a case of several arguments."""
    as_arguments = (case if isinstance(case, tuple) else (case,) for case in cases)
    return [
        pytest.param(*arguments, marks=() if index < number else pytest.mark.slow)
        for index, arguments in enumerate(as_arguments)
    ]


def mark_other_cases_slow(items: list[pytest.Item]) -> None:
    """Mark the cases of tests with the mark ``quick_cases`` as slow, but for those that it asks for."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("quick_cases")
        if mark is not None and not any(item.get_closest_marker(name) for name in ("slow", "spark")):
            cases[item.nodeid.partition("[")[0], mark.args].append(item)
    for (_, quick), cases_of_test in cases.items():
        for index, item in enumerate(cases_of_test):
            if not _is_quick(item, index, len(cases_of_test), quick):
                item.add_marker(pytest.mark.slow)


def _is_quick(item: pytest.Item, index: int, count: int, quick: tuple[Any, ...]) -> bool:
    if isinstance(quick[0], str):
        return any(name in item.name for name in quick)
    # Evenly: where two parameters are combined, the first cases would all have the same value of one of them.
    return index == 0 or index * quick[0] // count > (index - 1) * quick[0] // count
