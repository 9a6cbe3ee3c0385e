"""What is said before a run, from public numbers."""

from __future__ import annotations

import math

import pytest

from hush.runs.outputs.forecast import expected_loss, half_width


def test_more_units_and_a_larger_epsilon_help() -> None:
    losses = [expected_loss(10, 10**power, 1.0, 1e-5) for power in range(2, 7)]
    assert losses == sorted(losses, reverse=True)
    assert expected_loss(10, 1000, 2.0, 1e-5) == pytest.approx(expected_loss(10, 2000, 1.0, 1e-5))
    widths = [half_width(3.0, 10**power) for power in range(1, 7)]
    assert widths == sorted(widths, reverse=True)
    assert half_width(0.0, 100) == pytest.approx(1.959964 * 0.05)  # sampling alone
    assert half_width(1.0, 0) == math.inf
