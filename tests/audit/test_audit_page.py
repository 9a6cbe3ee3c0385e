"""docs/audit.md: its examples run, and every public name of the package stands on it."""

from __future__ import annotations

import pytest

from training.pages import missing_names, run_examples

pytest.importorskip("torch", reason="half of the page is about trained models")

ROOMS = ("canaries", "fairness", "membership", "testers", "training")


def test_examples_run() -> None:
    """All randomness on the page has a seed."""
    assert run_examples("audit.md") >= 12


def test_every_public_name_stands_on_the_page() -> None:
    modules = ["hush.audit", *(f"hush.audit.{room}" for room in ROOMS)]
    assert missing_names(modules, ["docs/audit.md"]) == []
