"""Many cases in one test: a failure names its case."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(case: object) -> Iterator[None]:
    """Add a note with the case to a failure."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"Case: {case!r}")
        raise
