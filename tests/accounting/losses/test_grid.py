"""The choice of a lattice: finer for more accuracy, exact where all corners fit, and always within memory."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting.losses.grid import MAX_POINTS, LossGrid, _spread_indices, choose_grid
from hush.accounting.losses.noise_profiles import GaussianProfile, LaplaceProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import DominatingPair
from hush.accounting.losses.saddle_point import CountedPair, CumulantFunction, find_saddle
from hush.accounting.losses.sampled_profiles import SampledAddition, SampledRemoval


def sampled(mu: float, rate: float) -> DominatingPair:
    base = GaussianProfile(mu)
    return DominatingPair(SampledRemoval(base, rate), SampledAddition(base, rate))


def grid_for(parts: list[CountedPair], *, delta: float = 1e-6, accuracy: float = 1e-4) -> LossGrid:
    tail = 1e-9 * delta / sum(count for _, count in parts)
    moments = CumulantFunction.of(parts, tail)
    saddle = find_saddle(moments, log_delta=math.log(delta))
    return choose_grid(parts, moments, saddle, math.log(delta), tail, accuracy, saddle.epsilon)


def test_more_accuracy_means_a_finer_lattice() -> None:
    grids = [grid_for([(sampled(1.0, 0.01), 1000)], accuracy=accuracy) for accuracy in (1e-2, 1e-4, 1e-6)]
    assert grids[0].spacing > grids[1].spacing > grids[2].spacing
    # The error is of second order: a hundred times the accuracy takes about a tenth of the spacing.
    assert 4 < grids[1].spacing / grids[2].spacing < 25


def test_the_window_holds_the_tilted_loss() -> None:
    parts: list[CountedPair] = [(sampled(1.0, 0.01), 1000)]
    grid = grid_for(parts)
    moments = CumulantFunction.of(parts, grid.tail)
    spread = math.sqrt(moments.at(grid.tilt)[2])
    assert grid.num_points * grid.spacing > 10 * spread


def test_a_common_period_makes_the_lattice_exact() -> None:
    grid = grid_for([(DominatingPair.symmetric(RandomizedResponseProfile(0.1)), 1000)])
    assert grid.exact
    assert grid.spacing == pytest.approx(0.1, rel=1e-12)
    assert grid.spacing > 0.1, "no corner may be left of its point"
    mixed = [
        (DominatingPair.symmetric(RandomizedResponseProfile(epsilon)), 10) for epsilon in (0.1, 0.1 * math.sqrt(2))
    ]
    assert not grid_for(mixed).exact


def test_bounded_losses_end_on_a_lattice_point() -> None:
    grid = grid_for([(DominatingPair.symmetric(LaplaceProfile(0.3)), 50)])
    assert (0.3 / grid.spacing) == pytest.approx(round(0.3 / grid.spacing), abs=1e-9)


def test_a_coarser_grid_has_the_same_window_and_fits_into_memory() -> None:
    grid = LossGrid(spacing=1e-6, tilt=3.0, num_points=5 * MAX_POINTS, fine_reach=256, tail=1e-20, exact=True)
    coarse = grid.coarser()
    assert coarse.num_points <= MAX_POINTS
    assert coarse.num_points * coarse.spacing == pytest.approx(grid.num_points * grid.spacing, rel=0.01)
    assert not coarse.exact


def test_points_are_dense_near_zero_and_relatively_spaced_beyond() -> None:
    indices = _spread_indices(100_000, 64)
    assert indices[0] == 0
    assert indices[-1] == 100_000
    gaps = np.diff(indices)
    assert (gaps[indices[:-1] < 64] == 1).all()
    outer = indices[:-1] >= 64
    assert (gaps[outer] <= indices[:-1][outer] / 16).all()
    assert len(indices) < 500
    assert _spread_indices(10, 64).tolist() == list(range(11))


def test_the_points_of_a_pair_reach_its_tails() -> None:
    pair = sampled(1.0, 0.1)
    grid = grid_for([(pair, 10)])
    indices = grid.indices(pair, 10, complete=True)
    assert (np.diff(indices) > 0).all()
    assert 0 in indices
    assert float(pair.forward.delta(np.array([indices[-1] * grid.spacing]))[0]) <= grid.tail
    assert -indices[0] * grid.spacing >= pair.backward.max_loss * (1 - 1e-9)
