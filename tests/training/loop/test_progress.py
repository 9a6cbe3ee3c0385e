"""The progress bar of `fit`."""

from __future__ import annotations

import io
from typing import Any

import pytest
from torch import nn

from hush.training import fit
from training.loops import linear_data


def test_a_terminal_shows_one_line_that_is_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    settings: dict[str, Any] = {"noise_multiplier": 1.0, "delta": 1e-3, "num_steps": 4}
    fit(nn.Linear(4, 2), linear_data(), **settings)
    lines = stream.getvalue().rstrip("\n").split("\r")[1:]
    assert [line.split()[1] for line in lines] == ["0/4", "1/4", "2/4", "3/4", "4/4"]
    assert lines[-1].startswith("[" + "#" * 24 + "]")
    assert "accuracy" not in lines[-1]
    assert stream.getvalue().count("\n") == 1
