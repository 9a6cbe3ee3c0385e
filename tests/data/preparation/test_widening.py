"""Bounds that leave data out are noticed, and cost what they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data.files import KEY, write_columns
from hush import data
from hush.data.preparation.learning import FIRST, SECOND, THIRD, log_histogram
from hush.data.preparation.widening import NUM_BINS, OuterBins

AROUND = OuterBins(lower=-11.5, upper=6.5)


def test_the_precisions_of_the_releases_are_all_there_is() -> None:
    assert 1 - 1e-6 < FIRST**-2 + SECOND**-2 + THIRD**-2 <= 1


@pytest.mark.parametrize("number", [-11.5, 6.5, 0.0, np.nan, np.inf, -np.inf, 1e308, -1e308, 1300.0, 5e-324, 6.5000001])
def test_a_number_counts_once_at_most(number: float) -> None:
    counts = AROUND.counts(np.array([number]))
    assert counts.shape == (2 * NUM_BINS,)
    is_outside = not -11.5 <= number <= 6.5 and not np.isnan(number)
    assert counts.sum() == is_outside
    assert counts[:NUM_BINS].sum() == (is_outside and number < 0)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e150, 1.7e308])
def test_scales_do_not_matter(scale: float) -> None:
    around = OuterBins(lower=0.0, upper=scale)
    assert around.counts(np.array([scale * 0.5, -scale / 2, -scale * 0.99])).sum() == 2
    lower, upper = around.wider_bounds(around.counts(np.full(100, -scale / 2)).astype(float), 0.1, 100)
    assert np.isfinite([lower, upper]).all()
    assert lower < upper


def test_delays_up_to_1300_are_noticed() -> None:
    """The bounds that a run once learned for the delays of flights: a third of all were beyond them."""
    delays = np.random.default_rng(0).exponential(60, 20_000) - 20
    counts = AROUND.counts(delays) + np.random.default_rng(1).normal(0, 80, 2 * NUM_BINS)
    lower, upper = AROUND.wider_bounds(counts, 80.0, len(delays))
    assert (delays > upper).mean() < 0.03
    assert upper < 1000  # not to the last outlier
    assert lower <= -11.5


def test_noise_alone_widens_little() -> None:
    """The probability is at most 0.005 on either side, and halves with each bin. Fixed key."""
    rng = np.random.default_rng(7)
    widened = [AROUND.wider_bounds(row, 50.0, 1000) for row in rng.normal(0, 50, (2000, 2 * NUM_BINS))]
    assert 0 < np.mean([pair != (-11.5, 6.5) for pair in widened]) <= 0.015  # of 0.01 at most
    assert np.mean([upper - lower for lower, upper in widened]) < 18 * (1 + 0.005 * 2 * NUM_BINS)


def test_neighbouring_bins_show_together() -> None:
    """A third of the units is out, in three bins. Noise hides that in each, and in sums over all bins. Fixed key."""
    counts = np.zeros(2 * NUM_BINS)
    counts[NUM_BINS : NUM_BINS + 3] = 500.0
    rng = np.random.default_rng(8)
    reached = [AROUND.wider_bounds(row, 200.0, 4800)[1] for row in counts + rng.normal(0, 200, (200, 2 * NUM_BINS))]
    assert np.mean(np.array(reached) > 6.5) > 0.75  # of sums from each bin to the last, less than a tenth show


def test_a_bin_that_shows_takes_no_empty_ones_along() -> None:
    counts = np.zeros(2 * NUM_BINS)
    counts[NUM_BINS] = 1e5
    assert AROUND.wider_bounds(counts, 10.0, 200_000) == (-11.5, 6.5 + 18)
    counts[-1] = 1e5  # nor does one stop the search
    assert AROUND.wider_bounds(counts, 10.0, 200_000)[1] == 6.5 + 18 * (2**NUM_BINS - 1)


def test_bounds_are_wide_enough_after_learning(tmp_path: Path) -> None:
    """Nine tenths of the column are one number, which alone would decide the bounds. Fixed key."""
    values = [*[5.0] * 1800, *np.linspace(100, 900, 200).round(1)]
    source = write_columns(tmp_path / "t.csv", {"a": values, "y": [0, 1] * 1000})
    learn = data.Learn(noise_multiplier=0.5)
    prepared = data.prepare(source, target="y", learn=learn, key=KEY)
    column = prepared.schema.columns["a"]
    assert isinstance(column, data.Numeric)
    assert column.lower is not None
    assert column.upper is not None
    assert column.lower <= 5 < 800 <= column.upper
    assert log_histogram(np.array(values), np.ones(len(values), dtype=np.bool_)).sum() == len(values)


def test_numbers_that_are_spread_are_not_left_out(tmp_path: Path) -> None:
    """Noise far above the count of each part of an interval used to leave two fifths of the numbers out. Fixed keys."""
    rng = np.random.default_rng(2)
    columns = {f"u{number}": rng.uniform(0, 100, 4000).round(3) for number in range(6)}
    labels = rng.integers(0, 2, 4000)
    source = write_columns(
        tmp_path / "t.csv", {**{name: list(column) for name, column in columns.items()}, "y": labels.tolist()}
    )
    outside = []
    for number in range(6):
        learn = data.Learn(noise_multiplier=11.0)  # that of a tenth of epsilon 3 or so
        schema = data.Schema(classes=("0", "1"))
        prepared = data.prepare(source, target="y", schema=schema, learn=learn, key=bytes([number]) * 32)
        for name, column in columns.items():
            bounds = prepared.schema.columns[name]
            assert isinstance(bounds, data.Numeric)
            outside.append(np.mean((column < (bounds.lower or 0.0)) | (column > (bounds.upper or 0.0))))
    assert np.mean(outside) < 0.05
    assert max(outside) < 0.2
