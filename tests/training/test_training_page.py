"""docs/training.md: its examples run, and every public name of the package stands on a page."""

from __future__ import annotations

import pytest

from training.pages import missing_names, run_examples

pytest.importorskip("torch", reason="the page is about training")


def test_examples_run() -> None:
    pytest.importorskip("peft")
    assert run_examples("training.md") >= 4


def test_every_public_name_stands_on_a_page() -> None:
    pages = ("README.md", "docs/training.md", "docs/pitfalls.md")
    assert missing_names(["hush.training", "hush.training.scattering"], pages) == []
