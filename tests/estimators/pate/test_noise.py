"""Noise on votes: refused scales and counts."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.estimators.pate import ConfidentGNMax, GNMax, LNMax
from hush.randomness import TestSource

EVERYTHING = Fraction(10**9)


@pytest.mark.parametrize("wrong", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_noise_is_checked(wrong: Any) -> None:
    for make in (
        lambda: LNMax(scale=wrong),
        lambda: GNMax(sigma=wrong),
        lambda: ConfidentGNMax(threshold=1.0, sigma_threshold=wrong, sigma=1.0),
        lambda: ConfidentGNMax(threshold=wrong, sigma_threshold=1.0, sigma=1.0),
    ):
        with pytest.raises(InvalidArgument):
            make()


@pytest.mark.parametrize("wrong", [[1, 2], [[1.5, 2.0]], [[1]], [["a", "b"]]])
def test_counts_are_checked(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="counts"):
        GNMax(sigma=1.0).answer(np.array(wrong), TestSource(0), limit=EVERYTHING)
