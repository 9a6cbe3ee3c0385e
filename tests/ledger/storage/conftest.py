"""A ledger in a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hush.ledger import Ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is, or can be created."""
    return tmp_path / "privacy.db"


@pytest.fixture
def file(path: Path) -> Iterator[Ledger]:
    ledger = Ledger(f"sqlite:///{path}")
    yield ledger
    ledger.close()
