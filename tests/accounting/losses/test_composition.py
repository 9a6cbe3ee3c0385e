"""Composition on a lattice: certified bounds around direct convolutions, with and without binning."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hush.accounting.losses import composition
from hush.accounting.losses.composition import LatticePart, Spectrum, spectrum
from hush.accounting.losses.lattice import Atoms, dominating
from hush.accounting.losses.noise_profiles import GaussianProfile, RandomizedResponseProfile
from hush.accounting.losses.profile import DominatingPair

SPACING = 0.05


def on_lattice(pair: DominatingPair, reach: int, count: int, offset: float = 0.0) -> LatticePart:
    indices = np.arange(-reach, reach + 1)
    losses = indices * SPACING + offset
    return LatticePart(dominating(pair, losses, np.full(2 * reach, SPACING)), indices, count, offset)


def convolved(parts: list[LatticePart], epsilon: float) -> float:
    """Return the lattice's delta by direct convolution of positive masses: no FFT, no tilt."""
    masses, first, log_certain, offset = np.ones(1), 0, 0.0, 0.0
    for part in parts:
        for _ in range(part.count):
            masses = np.convolve(masses, np.maximum(part.atoms.masses, 0.0))
            first += int(part.indices[0])
            log_certain += math.log1p(-part.atoms.infinite)
            offset += part.offset
    losses = (first + np.arange(len(masses))) * SPACING + offset
    gaps = -np.expm1(np.minimum(epsilon - losses, 0.0))
    return -math.expm1(log_certain) + float(np.dot(masses, np.maximum(gaps, 0.0)))


def composed(parts: list[LatticePart], tilt: float, num_points: int = 1 << 12) -> Spectrum:
    result = spectrum(parts, SPACING, tilt, num_points, 1 << 20)
    assert result is not None
    return result


GAUSSIAN = DominatingPair.symmetric(GaussianProfile(0.4))
RESPONSE = DominatingPair.symmetric(RandomizedResponseProfile(SPACING * 6, failure=1e-4))


@pytest.mark.parametrize("tilt", [0.5, 2.0, 8.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.123, 1.0, 3.0])
def test_the_bounds_hold_the_direct_convolution(tilt: float, epsilon: float) -> None:
    parts = [on_lattice(GAUSSIAN, 60, 12), on_lattice(RESPONSE, 6, 9)]
    lower, upper = composed(parts, tilt).delta_bounds(epsilon)
    exact = convolved(parts, epsilon)
    assert lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-12) <= upper
    if tilt <= 2:  # a tilt far beyond the saddle point magnifies rounding errors: valid, but loose
        assert upper <= exact * (1 + 1e-6)


def test_far_out_the_error_is_relative_to_delta() -> None:
    # delta is 1e-22 here: an untilted FFT, whose error is T * 1e-16, could say nothing.
    parts = [on_lattice(GAUSSIAN, 80, 12)]
    epsilon = 14.0
    exact = convolved(parts, epsilon)
    assert 1e-30 < exact < 1e-18
    lower, upper = composed(parts, 9.0, 1 << 13).delta_bounds(epsilon)
    assert exact * (1 - 1e-3) <= lower <= exact * (1 + 1e-9)
    assert exact * (1 - 1e-9) <= upper <= exact * (1 + 1e-3)


def test_wrap_around_errs_upwards_only() -> None:
    parts = [on_lattice(GAUSSIAN, 60, 12)]
    exact = convolved(parts, 1.0)
    for num_points in (128, 160, 256):  # windows that are too short for the loss
        assert composed(parts, 2.0, num_points).delta_bounds(1.0)[1] >= exact * (1 - 1e-12)
    assert composed(parts, 2.0, 128).delta_bounds(1.0)[1] > exact * 1.001


def test_an_offset_shifts_every_step() -> None:
    parts = [on_lattice(GAUSSIAN, 60, 7, offset=0.013)]
    for epsilon in (0.5, 1.5):
        lower, upper = composed(parts, 2.0).delta_bounds(epsilon)
        assert lower * (1 - 1e-9) <= convolved(parts, epsilon) <= upper * (1 + 1e-9)


def test_infinite_losses_compose() -> None:
    parts = [on_lattice(RESPONSE, 6, 50)]
    result = composed(parts, 5.0)
    assert result.infinite == pytest.approx(1 - (1 - 1e-4) ** 50)
    assert result.delta_bounds(40.0)[0] == pytest.approx(result.infinite)


def test_low_frequencies_from_bins_are_those_of_a_plain_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    # After many steps few bins are enough: here 4,320 for a period of 32,768 points.
    part = on_lattice(DominatingPair.symmetric(GaussianProfile(0.3)), 60, 2_000)
    tilt, num_points = 0.5, 1 << 15
    binned = spectrum([part], SPACING, tilt, num_points, num_points - 1)
    assert binned is not None
    monkeypatch.setattr(composition, "_first_guess", lambda tilted, spacing, points: points)
    plain = spectrum([part], SPACING, tilt, num_points, num_points)
    assert plain is not None
    for epsilon in (100.0, 150.0, 180.0):
        low, high = plain.delta_bounds(epsilon)
        other_low, other_high = binned.delta_bounds(epsilon)
        assert low <= other_high * (1 + 1e-12)
        assert other_low <= high * (1 + 1e-12)
        assert other_high == pytest.approx(high, rel=1e-2)


def test_too_large_a_problem_is_left_to_a_coarser_grid() -> None:
    part = on_lattice(DominatingPair.symmetric(RandomizedResponseProfile(SPACING * 6)), 6, 1)
    assert spectrum([part], SPACING, 1.0, 1 << 15, 1 << 10) is None


def test_errors_of_the_curve_widen_the_bounds() -> None:
    part = on_lattice(GAUSSIAN, 60, 12)
    atoms = part.atoms
    rough = Atoms(atoms.losses, atoms.gaps, atoms.masses, atoms.mass_noise, atoms.infinite, atoms.curve, 1e-6)
    widths = []
    for loss in (atoms, rough):
        lower, upper = composed([LatticePart(loss, part.indices, 12)], 1.0).delta_bounds(1.0)
        widths.append((upper - lower) / upper)
    assert widths[0] < 1e-9 < 1e-6 < widths[1] < 1e-2
    assert math.isfinite(widths[1])
