"""The tables of docs/estimators.md are those that its benchmark writes from its results."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_tables_are_those_of_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "estimators_peers"))
    before = set(sys.modules)
    import page

    text = (ROOT / "docs" / "estimators.md").read_text()
    results = json.loads((ROOT / "benchmarks" / "results" / "estimators.json").read_text())
    assert page.filled(text, results) == text
    results["cells"][0]["values"] = [0.123]
    assert page.filled(text, results) != text  # a figure that has changed would be noticed
    for name in set(sys.modules) - before:
        if name in ("page", "measures", "tasks"):
            monkeypatch.delitem(sys.modules, name)
