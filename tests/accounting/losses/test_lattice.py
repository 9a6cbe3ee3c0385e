"""Lattices: above the profile, or below it, and a distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest

from accounting.losses.cases import EVERY_CASE, Case, pairs
from hush.accounting.losses.lattice import Atoms, dominated, dominating, loss_range, rounded_down
from hush.accounting.losses.profile import DominatingPair


def lattice_delta(atoms: Atoms | list[Atoms], epsilon: np.ndarray) -> np.ndarray:
    """Return the profile of a lattice loss, or the largest of several lower bounds."""
    if isinstance(atoms, list):
        return np.max([lattice_delta(lower, epsilon) for lower in atoms], axis=0)
    gaps = -np.expm1(np.minimum(epsilon[:, None] - atoms.losses[None, :], 0.0))
    return atoms.infinite + np.where(gaps > 0, gaps, 0.0) @ atoms.masses


def points(pair: DominatingPair, spacing: float, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    low, high = loss_range(pair, 1e-13)
    indices = np.arange(-math.ceil((offset - low) / spacing), math.ceil((high - offset) / spacing) + 1)
    return offset + indices * spacing, np.full(len(indices) - 1, spacing)


def lattices(pair: DominatingPair, spacing: float) -> tuple[Atoms, list[Atoms]]:
    """Return the lattice from above, and all from below: with a point at 0, and at the smallest loss."""
    smallest = -pair.backward.max_loss
    offsets = [0.0, smallest] if -math.inf < smallest < 0 else [0.0]
    below = []
    for offset in offsets:
        below += [*dominated(pair, *points(pair, spacing, offset)), rounded_down(pair, *points(pair, spacing, offset))]
    return dominating(pair, *points(pair, spacing)), below


def curve(pair: DominatingPair, epsilon: np.ndarray) -> np.ndarray:
    """Return the profile, also at negative epsilon, where it follows from the opposite direction."""
    right = pair.forward.delta(np.maximum(epsilon, 0.0))
    left = -np.expm1(epsilon) + np.exp(epsilon) * pair.backward.delta(np.maximum(-epsilon, 0.0))
    return np.where(epsilon >= 0, right, left)


SPACINGS = pytest.mark.parametrize("spacing", [0.3, 0.01])


@EVERY_CASE
@SPACINGS
def test_dominated_below_profile_below_dominating(case: Case, spacing: float) -> None:
    for pair in pairs(case):
        above, below = lattices(pair, spacing)
        for epsilon in (np.linspace(-3, 0, 400), np.linspace(0, 9, 1200), np.geomspace(1e-6, 0.3, 300)):
            truth = curve(pair, epsilon)
            assert np.all(truth <= lattice_delta(above, epsilon) + 1e-13 + 1e-9 * truth)
            for lower in below:
                assert np.all(lattice_delta(lower, epsilon) <= truth + 1e-13 + 1e-12 * truth)


@EVERY_CASE
def test_the_tails_are_bounded_relatively_too(case: Case) -> None:
    # Far out, where delta is 1e-10, an absolute error of 1e-13 would prove nothing.
    for pair in pairs(case):
        above, below = lattices(pair, 0.02)
        high = loss_range(pair, 1e-10)[1]
        epsilon = np.linspace(0.3 * high, 0.98 * high, 200)
        truth = curve(pair, epsilon)
        assert np.all(truth * (1 - 1e-9) - 1e-16 <= lattice_delta(above, epsilon))
        for lower in below:
            assert np.all(lattice_delta(lower, epsilon) <= truth * (1 + 1e-9) + 1e-16)


@EVERY_CASE
@SPACINGS
def test_masses_are_a_distribution_under_both(case: Case, spacing: float) -> None:
    for pair in pairs(case):
        above, below = lattices(pair, spacing)
        assert np.all(above.masses >= -1e-11)  # rounding of the curve, over the spacing
        other = float(np.dot(above.masses, np.exp(-above.losses)))
        assert other <= 1 + 1e-9, "Q's probabilities, e^-loss times P's, sum to at most 1"
        assert below
        assert float(above.masses.sum()) + above.infinite == pytest.approx(1, abs=1e-12)
        for atoms in below:
            assert np.all(atoms.masses >= 0)
            assert float(atoms.masses.sum()) + atoms.infinite <= 1 + 1e-12 + float(atoms.mass_noise.sum())


@EVERY_CASE
def test_finer_is_closer(case: Case) -> None:
    for pair in pairs(case):
        epsilon = np.linspace(0.01, 3, 200)
        widths = []
        for spacing in (0.1, 0.01):
            above, below = lattices(pair, spacing)
            best = np.max([lattice_delta(lower, epsilon) for lower in below], axis=0)
            widths.append(float(np.max(lattice_delta(above, epsilon) - best)))
        assert widths[1] <= 0.5 * widths[0] + 1e-11  # a corner between points costs the first order
