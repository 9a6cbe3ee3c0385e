"""How much larger than the truth a cap has to be, for the histories of benchmarks/looseness.py."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARK: dict[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "looseness.py"))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(BENCHMARK["HISTORIES"]))
def test_a_cap_near_the_truth_accepts_each_history(name: str) -> None:
    history = BENCHMARK["HISTORIES"][name]
    truth = BENCHMARK["truth"](history)
    bar = BENCHMARK["BARS"].get(name, BENCHMARK["BAR"])
    assert BENCHMARK["accepts"](truth * bar, history, boxed=False)
    assert BENCHMARK["accepts"](truth * BENCHMARK["BOX_BAR"], history, boxed=True)
    assert not BENCHMARK["accepts"](truth * 0.999, history, boxed=False)
    assert not BENCHMARK["accepts"](truth * 0.999, history, boxed=True)


def test_the_stored_table_is_within_the_limits() -> None:
    rows = json.loads((ROOT / "benchmarks" / "results" / "looseness.json").read_text())["histories"]
    assert [row["history"] for row in rows] == list(BENCHMARK["HISTORIES"])
    assert all(BENCHMARK["met"](row) for row in rows)
