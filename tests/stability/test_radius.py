"""Certified radii: closed forms, the order of the two bounds, and refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from hush.errors import InvalidArgument
from hush.lab.radius import pixeldp_radius
from hush.stability import gaussian_radius


@given(st.floats(0.51, 0.9999), st.floats(0.01, 10))
def test_a_single_epsilon_never_proves_more(lower: float, stddev: float) -> None:
    pixeldp, gaussian = (radius(lower, 1 - lower, stddev) for radius in (pixeldp_radius, gaussian_radius))
    assert 0 <= pixeldp <= gaussian


@given(st.floats(0.51, 0.999), st.floats(0.1, 5))
def test_half_spaces_flip_exactly_at_the_radius(lower: float, stddev: float) -> None:
    # P(x + noise > 0) = Phi(x / stddev) = lower at x = radius.
    radius = gaussian_radius(lower, 1 - lower, stddev)
    assert ndtr(radius / stddev) == pytest.approx(lower)


def test_the_pixeldp_condition_is_tight_at_the_radius() -> None:
    radius = pixeldp_radius(0.95, 0.02, 1.0)
    epsilons = np.linspace(0, 6, 600)
    deltas = ndtr(radius / 2 - epsilons / radius) - np.exp(epsilons) * ndtr(-radius / 2 - epsilons / radius)
    margins = 0.95 - np.exp(2 * epsilons) * 0.02 - (1 + np.exp(epsilons)) * deltas
    assert margins.max() == pytest.approx(0, abs=2e-3)


def test_there_is_no_radius_without_a_most_likely_class() -> None:
    assert gaussian_radius(0.4, 0.6, 1.0) == pixeldp_radius(0.4, 0.6, 1.0) == 0.0


def test_certainty_has_a_finite_pixeldp_radius() -> None:
    assert gaussian_radius(1.0, 0.0, 1.0) == math.inf
    assert 1 < pixeldp_radius(1.0, 0.0, 1.0) < 40


@pytest.mark.parametrize("arguments", [(1.5, 0.1, 1.0), (math.nan, 0.1, 1.0), (0.9, 0.1, 0.0), (0.9, -1.0, 1.0)])
def test_invalid_arguments_are_refused(arguments: tuple[float, float, float]) -> None:
    for radius in (gaussian_radius, pixeldp_radius):
        with pytest.raises(InvalidArgument):
            radius(*arguments)
