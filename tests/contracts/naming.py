"""Many cases in one test, which says of a failure whose it is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(case: object) -> Iterator[None]:
    """Add to a failure which of many cases it was."""
    try:
        yield
    except BaseException as failure:
        failure.add_note(f"Case: {case!r}")
        raise
