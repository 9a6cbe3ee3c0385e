"""Exposure of secrets: reference values, extrapolation, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.audit.canaries import exposure
from hush.errors import InvalidArgument


def test_exposure_has_its_reference_values() -> None:
    """REFERENCES A.15: sixteen references 1 to 16."""
    values = exposure([0.0, 3.5, 20.0], range(1, 17))
    assert values[:2].tolist() == [4.0, 2.0]
    assert values[2] == pytest.approx(math.log2(16 / 17))
    assert exposure([3.0], range(1, 17))[0] == pytest.approx(2.0)  # a tie counts against the secret


def test_extrapolated_exposure_continues_beyond_ranks() -> None:
    references = np.random.default_rng(0).normal(100.0, 5.0, size=2000)
    assert exposure([50.0], references)[0] == pytest.approx(math.log2(2000))
    # Over seeds 74 with a standard deviation of 8, and 0.996 with 0.018.
    assert exposure([50.0], references, extrapolate=True)[0] > 20
    median = float(np.median(references))
    assert exposure([median], references, extrapolate=True)[0] == pytest.approx(1.0, abs=0.15)


def test_invalid_perplexities_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="not all the same"):
        exposure([1.0], [2.0] * 20, extrapolate=True)
    with pytest.raises(InvalidArgument, match="no NaN"):
        exposure([math.nan], [1.0])
