"""The options of pytest that every file has, also one that is run alone: tests, examples and the package's doctests."""

import gc
from collections.abc import Iterator

import pytest

pytest_plugins = ["chance", "missing_packages"]  # in tests/, which is on pytest's path


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without garbage collection: they live until the end, and so do the modules that they import."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
