"""Cases of a test that are enough for `make test`; the others are slow tests."""

from __future__ import annotations

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
