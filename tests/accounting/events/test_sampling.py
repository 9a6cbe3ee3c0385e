"""Sampled events: rates and sizes that make sense together."""

from __future__ import annotations

from typing import Any

import pytest

from hush.accounting import BallsInBinsEvent, FixedSizeSampledEvent, GaussianEvent, PoissonSampledEvent
from hush.errors import InvalidArgument


@pytest.mark.parametrize("rate", [0.0, 1e-13, 1.1, float("nan"), True, "1"])
def test_sampling_rates_are_probabilities(rate: Any) -> None:
    with pytest.raises(InvalidArgument, match="^sampling_rate="):
        PoissonSampledEvent(GaussianEvent(1.0), rate)


def test_a_batch_is_part_of_the_dataset() -> None:
    FixedSizeSampledEvent(GaussianEvent(1.0), 5, 5)
    with pytest.raises(InvalidArgument, match="^batch_size=6: expected at most dataset_size=5"):
        FixedSizeSampledEvent(GaussianEvent(1.0), 6, 5)


@pytest.mark.parametrize("bins", [0, 10**6 + 1, 2.0])
def test_bins_are_counted(bins: Any) -> None:
    with pytest.raises(InvalidArgument, match="^num_bins="):
        BallsInBinsEvent(GaussianEvent(1.0), bins)
