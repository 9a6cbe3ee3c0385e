"""`import hush` stays light: what it may not load, and how many names it offers."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import hush

HEAVY = {"numpy", "pandas", "scipy", "torch"}
MOST_NAMES = 13

PROBE = """
import json, sys
import {modules}
print(json.dumps(sorted({{name.partition(".")[0] for name in sys.modules}})))
"""


def imported(*modules: str) -> Any:
    """Import modules in a fresh interpreter; return every top-level package that they loaded."""
    probe = [sys.executable, "-W", "error", "-c", PROBE.format(modules=", ".join(modules))]
    return json.loads(subprocess.run(probe, capture_output=True, text=True, check=True, timeout=600).stdout)


@pytest.mark.parametrize(
    ("modules", "allowed"),
    [
        (["hush", "hush.training"], set()),
        (["hush.accounting", "hush.audit", "hush.training.plan.training_plan", "hush.runs.draft"], {"numpy", "scipy"}),
    ],
)
def test_loads_nothing_heavy(modules: list[str], allowed: set[str]) -> None:
    assert not (HEAVY - allowed) & set(imported(*modules))


def test_the_root_has_few_names_and_all_of_them_resolve() -> None:
    pytest.importorskip("torch")  # some names are of its layer
    assert len(hush.__all__) <= MOST_NAMES
    for name in hush.__all__:
        assert getattr(hush, name) is not None
        assert name in dir(hush)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'acounting'"):
        _ = hush.acounting  # type: ignore[attr-defined]
