"""The start of k-means: the noisy overview, shrinkage, and first centres from a noisy map."""

from __future__ import annotations

import numpy as np
import pytest

from hush.estimators.moments.gram import STEPS
from hush.estimators.moments.moments import FixedPoint
from hush.estimators.partitions.kmeans_start import (
    centres_from_map,
    draw_directions,
    drop_missing,
    map_side,
    overview_totals,
    project,
    release_overview,
    shrink,
)
from hush.randomness import TestSource


def fixed_point(dimension: int, count: int) -> FixedPoint:
    return FixedPoint(np.full(dimension, -1.0), np.full(dimension, 1.0), count)


def test_directions_are_features_or_signs_of_all_of_them() -> None:
    assert (draw_directions(3, TestSource(1)) == np.eye(3)).all()
    directions = draw_directions(20, TestSource(1))
    assert directions.shape == (20, 3)
    assert set(directions.ravel()) == {-1.0, 1.0}


@pytest.mark.parametrize("dimension", [2, 9])
def test_projections_are_bounded_integers_of_each_row_alone(dimension: int) -> None:
    rows = np.trunc(np.random.default_rng(0).uniform(-1, 1, (50, dimension)) * STEPS)
    rows[0] = STEPS
    directions = draw_directions(dimension, TestSource(1))
    together = project(rows, directions)
    assert (together == np.trunc(together)).all()
    assert np.abs(together).max() <= STEPS
    assert (together == np.vstack([project(row[None], directions) for row in rows])).all()


def test_rows_with_a_missing_value_are_dropped() -> None:
    rows = np.array([[1.0, 2.0], [np.nan, 0.0], [3.0, 4.0]])
    assert drop_missing(rows).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert drop_missing(rows[::2]) is not None


@pytest.mark.parametrize("dimension", [2, 8])
def test_the_overview_is_close_where_there_is_little_noise(dimension: int) -> None:
    rows = np.random.default_rng(0).normal(0.2, 0.15, size=(20_000, dimension)).clip(-1, 1)
    directions = draw_directions(dimension, TestSource(1))
    totals = overview_totals(rows, directions, fixed_point(dimension, len(rows)))
    overview = release_overview(totals, directions, 5.0, TestSource(2))
    assert overview.count == pytest.approx(20_000, rel=0.01)
    assert overview.mean == pytest.approx(np.full(dimension, 0.2), abs=0.01)
    # With more than three features, the spread is estimated from three signed sums, which assumes independence.
    assert overview.spread == pytest.approx(dimension * 0.15**2, rel=0.3)


def test_an_overview_of_noise_alone_stays_within_the_bounds() -> None:
    directions = draw_directions(4, TestSource(1))
    totals = overview_totals(np.zeros((0, 4)), directions, fixed_point(4, 1))
    for seed in range(20):
        overview = release_overview(totals, directions, 0.01, TestSource(seed))
        assert overview.count >= 1
        assert (np.abs(overview.mean) <= 1).all()
        assert 0 < overview.spread <= 4


def test_shrinkage_keeps_what_stands_out_and_drops_what_does_not() -> None:
    distant, close = np.array([3.0, 4.0]), np.array([0.3, 0.4])
    assert shrink(distant, np.zeros(2), 0.25) == pytest.approx(distant * 0.99)
    assert shrink(close, np.zeros(2), 1.0) == pytest.approx([0.0, 0.0])
    assert shrink(distant, distant, 1.0) == pytest.approx(distant)


def test_a_map_has_more_cells_for_more_rows() -> None:
    sides = [map_side(count, 0.1, 2) for count in (10.0, 1e4, 1e6, 1e12)]
    assert sides == sorted(sides)
    assert sides[0] == 1
    assert sides[-1] ** 2 <= 4096


def test_a_map_finds_separated_clusters_and_none_in_an_even_cloud() -> None:
    rng, dimension = np.random.default_rng(0), 6
    centres = rng.choice([-0.6, 0.6], size=(3, dimension))
    blobs = (centres[rng.integers(0, 3, 30_000)] + rng.normal(0, 0.05, (30_000, dimension))).clip(-1, 1)
    directions = draw_directions(dimension, TestSource(3))
    settings = {"side": 12, "clusters": 3, "epsilon": 2.0}

    def mapped(rows: np.ndarray) -> np.ndarray | None:
        converter = fixed_point(dimension, len(rows))
        totals = overview_totals(rows, directions, converter)
        overview = release_overview(totals, directions, 5.0, TestSource(1))
        return centres_from_map(rows, overview, directions, converter, source=TestSource(2), **settings)

    first_centres = mapped(blobs)
    assert first_centres is not None
    expected = centres @ directions / dimension
    for centre in expected:
        assert np.abs(first_centres / STEPS - centre).max(axis=1).min() < 0.05
    assert mapped(rng.uniform(-1, 1, size=(30_000, dimension))) is None
