"""docs/reference.md has every public name, and says what its docstring says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("torch")

TOOL = Path(__file__).resolve().parents[2] / "tools" / "reference.py"


def test_the_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("reference", TOOL)
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run `python tools/reference.py`"
