"""The private releases of bounds and values: how much noise they have, and what a unit can change."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from data.files import KEY, write_columns
from hush import data
from hush.accounting import ApproximateDPEvent, ComposedEvent, GaussianEvent, PldAccountant
from hush.data.preparation import learning
from hush.errors import InvalidArgument
from hush.randomness import TestSource
from hush.statistics.noise import NoisePlan, selection

LEARN = data.Learn(noise_multiplier=3.0, delta=1e-6)


def spread(noise: float, seed: int) -> float:
    plan, stddev = learning._noise(noise, 1, 40_000)
    assert stddev == pytest.approx(noise)
    return float(learning._noisy(np.zeros(40_000, dtype=np.int64), plan, TestSource(seed)).std())


@pytest.mark.parametrize("noise", [0.05, 0.5, 7.0, 1000.0])
def test_noise_has_the_standard_deviation_that_it_says(noise: float) -> None:
    # The standard error is 0.354 %: 2.2 % is 6.2 of them, 6e-10. Controls: a tenth too little and too much.
    assert spread(noise, 1) == pytest.approx(noise, rel=0.022)
    assert spread(0.9 * noise, 2) != pytest.approx(noise, rel=0.022)
    assert spread(1.1 * noise, 3) != pytest.approx(noise, rel=0.022)


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> list[tuple[NoisePlan, NDArray[np.int64]]]:
    """Record the totals that get noise, and the noise."""
    seen: list[tuple[NoisePlan, NDArray[np.int64]]] = []
    release = NoisePlan.release

    def recorded(plan: NoisePlan, totals: NDArray[np.int64], source: Any) -> NDArray[np.int64]:
        seen.append((plan, totals))
        return release(plan, totals, source)

    monkeypatch.setattr(NoisePlan, "release", recorded)
    return seen


@pytest.mark.parametrize(
    ("numbers", "values", "factor"), [(4, 0, 2.0), (0, 4, 2.0), (2, 2, 2.0), (8, 2, 4.0), (1, 0, 1.0)]
)
def test_noise_is_scaled_to_the_number_of_histograms(
    releases: list[tuple[NoisePlan, NDArray[np.int64]]], numbers: int, values: int, factor: float
) -> None:
    histogram = np.zeros(learning.BINS.size, dtype=np.int64)
    histogram[3] = 1  # what one unit adds
    learning.release([histogram] * numbers, [{"x": 1}] * values, data.Learn(noise_multiplier=3.0), TestSource(1))
    assert len(releases) == numbers + values
    scales = [plan.block_scales[0] / float(totals.sum()) for plan, totals in releases]  # in units of what a unit adds
    assert scales[0] == pytest.approx(3 * factor)
    # The sum of what a unit adds, each in units of its noise, squared: exactly the event's.
    assert sum(scale**-2 for scale in scales) <= 3.0**-2
    assert sum(scale**-2 for scale in scales) == pytest.approx(3.0**-2)


def revealed_share(threshold: Callable[[NoisePlan, float], int], monkeypatch: pytest.MonkeyPatch) -> float:
    """Return how often a value that one unit has is revealed, with delta = 0.02 for two columns."""
    monkeypatch.setattr(selection, "gaussian_threshold", threshold)
    lonely = {str(number): 1 for number in range(40_000)}
    learned = learning.release([], [lonely, {}], data.Learn(noise_multiplier=0.5, delta=0.02), TestSource(4))
    return len(learned.values[0]) / len(lonely)


def test_a_value_of_one_unit_is_revealed_with_probability_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    right = selection.gaussian_threshold
    # Expected 0.01; the standard error is 0.0005.
    # False alarms: P(|Binomial(40000, 0.01) - 400| > 130) below 1e-9.
    assert 0.0068 < revealed_share(right, monkeypatch) < 0.0132
    # The twins: one forgets the unit's own count, and the other one that there are two columns.
    assert revealed_share(lambda noise, delta: right(noise, delta) - noise.blocks[0].l1, monkeypatch) > 0.0132
    assert revealed_share(lambda noise, delta: right(noise, 2 * delta), monkeypatch) > 0.0132


def test_events(tmp_path: Path) -> None:
    columns = {"a": range(200), "y": [0, 1] * 100}
    source = write_columns(tmp_path / "t.csv", columns)
    quiet = data.Learn(noise_multiplier=0.5, delta=1e-6)
    classes = data.Schema(classes=("0", "1"))
    everything = data.Schema(classes=("0", "1"), columns={"a": data.Numeric(lower=0, upper=1)})
    assert data.prepare(source, target="y", schema=classes, learn=quiet, key=KEY).event == GaussianEvent(0.5)
    with_values = ComposedEvent((GaussianEvent(0.5), ApproximateDPEvent(0.0, 1e-6)))
    assert data.prepare(source, target="y", learn=quiet, key=KEY).event == with_values
    assert data.prepare(source, target="y", schema=everything, learn=quiet, key=KEY).event is None
    assert (LEARN.event().events[0], LEARN.bounds_event()) == (GaussianEvent(3.0), GaussianEvent(3.0))  # type: ignore[attr-defined]
    cost = PldAccountant().compose(LEARN.event()).epsilon(1e-5)
    assert (
        PldAccountant().compose(GaussianEvent(3.0)).epsilon(1e-5)
        < cost
        < PldAccountant().compose(GaussianEvent(2.9)).epsilon(1e-5)
    )


def test_nothing_is_learned_without_noise(tmp_path: Path) -> None:
    source = write_columns(tmp_path / "t.csv", {"a": range(20), "y": [0, 1] * 10})
    assert data.needs_learning(source, "y") == ["bounds of column 'a'", "classes of the target"]
    with pytest.raises(InvalidArgument, match="^learn=None: expected the noise"):
        data.prepare(source, target="y", key=KEY)
    for wrong in ({"noise_multiplier": 0.0}, {"noise_multiplier": math.nan}, {"noise_multiplier": 1.0, "delta": 0.0}):
        with pytest.raises(InvalidArgument):
            data.Learn(**wrong)
