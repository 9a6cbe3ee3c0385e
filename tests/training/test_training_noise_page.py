"""docs/training_noise.md: its examples run, and its picture is small and shows what it says."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from training.pages import ROOT, run_examples

pytest.importorskip("torch", reason="the page is about training")

PICTURE = ROOT / "docs" / "training_noise.svg"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    monkeypatch.delitem(sys.modules, "training_noise_figure", raising=False)
    import training_noise_figure

    monkeypatch.delitem(sys.modules, "training_noise_figure")
    return training_noise_figure


def test_examples_run() -> None:
    assert run_examples("training_noise.md") == 2


def test_the_picture_is_small_and_on_the_page() -> None:
    assert PICTURE.stat().st_size < 100_000
    assert f"({PICTURE.name})" in Path(ROOT / "docs" / "training_noise.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_picture_is_that_of_the_script(script: ModuleType) -> None:
    assert script.svg() == PICTURE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_picture_shows_two_combs_and_one_grid(script: ModuleType) -> None:
    """Fixed key. Above, hardly any bin is filled by both sums; below, both fill the same points."""
    overlaps = [
        np.minimum(*pair).sum() / np.maximum(*pair).sum() for pair in (script.floating_point(), script.on_the_grid())
    ]
    assert overlaps[0] < 0.3
    assert overlaps[1] > 0.75
