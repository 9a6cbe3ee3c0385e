"""The histogram test: its tolerance, its point estimate, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.lab.histogram import HistogramAttack, _bound, _hockey_stick, _root


def test_the_tolerance_is_as_published() -> None:
    # Half of 2 / sqrt(n) (S sqrt p + e^eps S sqrt q) + 6 (1 + e^eps) sqrt(ln(4 / beta) / 2n): for total variation.
    counts, other_counts = np.array([9_000.0, 1_000.0]), np.array([1_000.0, 9_000.0])
    epsilon = _bound(counts, other_counts, 0.1, 0.05)
    roots = math.sqrt(0.9) + math.sqrt(0.1)
    tolerance = 0.5 * (1 + math.exp(epsilon)) * (2 / 100 * roots + 6 * math.sqrt(math.log(80) / 20_000))
    assert 0.9 - math.exp(epsilon) * 0.1 - tolerance == pytest.approx(0.1, abs=1e-9)


def test_the_divergence_of_exact_frequencies_gives_epsilon_back() -> None:
    p, q = np.array([0.75, 0.25]), np.array([0.25, 0.75])
    assert _hockey_stick(p, q, 0.0) == pytest.approx(0.5)
    # (0.75 - e^eps 0.25)_+ falls to delta at ln((0.75 - delta) / 0.25).
    assert _root(lambda epsilon: _hockey_stick(p, q, epsilon), 0.1) == pytest.approx(math.log(2.6))
    assert _root(lambda epsilon: 0.05, 0.1) == 0.0
    assert _root(lambda epsilon: 0.2, 0.1) == math.inf


def test_a_single_bin_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="^num_bins="):
        HistogramAttack(num_bins=1)
