"""Search spaces: products, ranges and lists, drawn with the right probabilities.

Statistical comparisons are made at p-values of 1e-8, at most six in a test. So a correct search fails a test with
probability at most 1e-7, whatever the seeds. Comments state how rarely broken twins are missed, which is less than once
in a million times. (All rates are exact sums over binomial laws, or those of chi-squared statistics.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.training import Range
from hush.training.tuning.space import as_space
from training.searches import ALARM, within


class TestSpaces:
    def test_products_and_ranges(self) -> None:
        space = as_space(
            {"rate": Range.logarithmic(0.01, 10.0), "share": Range.uniform(-1, 1), "size": [64, 256], "deep": (True,)}
        )
        assert [dict(settings) for settings in space.listed] == [
            {"size": 64, "deep": True},
            {"size": 256, "deep": True},
        ]
        source = TestSource("space")
        drawn = [space.draw(source) for _ in range(4000)]
        assert within(sum(index for index, _ in drawn), 4000, 0.5)
        assert all(settings["size"] == (64, 256)[index] for index, settings in drawn)
        rates = np.array([settings["rate"] for _, settings in drawn])
        shares = np.array([settings["share"] for _, settings in drawn])
        assert rates.min() >= 0.01
        assert rates.max() <= 10.0
        assert within(int((rates < 0.1).sum()), 4000, 1 / 3)
        assert within(int((shares < -0.5).sum()), 4000, 1 / 4)
        # About normal (shares are uniform, rates independent of them): beyond 6 deviations with probability 2e-9.
        assert abs(np.corrcoef(rates, shares)[0, 1]) < 6 / math.sqrt(4000)

    def test_lists_are_drawn_evenly(self) -> None:
        space, source = as_space([{"a": 1}, {"a": 2}, {"a": 2}, {"b": 3}]), TestSource("list")
        counts = np.bincount([space.draw(source)[0] for _ in range(4000)], minlength=4)
        assert chisquare(counts).pvalue > ALARM

    @pytest.mark.parametrize(
        "space",
        [
            [],
            {},
            "grid",
            3,
            [1, 2],
            {"rate": 0.1},
            {"rate": []},
            {"rate": "abc"},
            {1: [2]},
            {"a": [0] * 100, "b": [0] * 11},
        ],
    )
    def test_spaces_that_are_refused(self, space: Any) -> None:
        with pytest.raises(InvalidArgument, match="^space="):
            as_space(space)

    @pytest.mark.parametrize(("low", "high"), [(1, 1), (2, 1), (math.nan, 1), (0, math.inf), (True, 2), ("0", 1)])
    def test_ranges_that_are_refused(self, low: Any, high: Any) -> None:
        for kind in (Range.uniform, Range.logarithmic):
            with pytest.raises(InvalidArgument, match="^(low|high)="):
                kind(low, high)
        with pytest.raises(InvalidArgument, match="^low="):
            Range.logarithmic(0.0, 1.0)
