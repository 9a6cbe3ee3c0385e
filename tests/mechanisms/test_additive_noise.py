"""What all additive noise has in common: the grid, shapes, and values that are no ordinary numbers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.guarantee import Relation
from hush.mechanisms import DiscreteLaplace, ExponentialMechanism, Gaussian, Laplace, Staircase
from hush.randomness import TestSource


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1.0, 12345.678, 1e150])
def test_rounding_is_part_of_the_sensitivity(scale: float) -> None:
    for size in (1, 1000):
        laplace = Laplace(epsilon=0.5, sensitivity=scale, size=size)
        moved = Fraction(scale) + size * Fraction(laplace._grid.spacing)  # every coordinate rounds, by one step at most
        assert moved / Fraction(laplace.noise_scale) <= Fraction(0.5)
        assert laplace.noise_scale <= scale / 0.5 * (1 + 1e-8)


@pytest.mark.parametrize("mechanism", [Laplace(epsilon=0.3, sensitivity=0.7), Staircase(epsilon=0.3, sensitivity=0.7)])
def test_released_values_lie_on_a_grid_that_the_data_do_not_choose(mechanism: Any) -> None:
    spacing = mechanism._grid.spacing
    assert math.frexp(spacing)[0] == 0.5
    for value in (0.0, 0.1, 1 / 3, -7e-9, 12345.678):
        for _ in range(200):
            assert (mechanism.release(value).value / spacing).is_integer()


def test_replacement_is_accounted_for_as_such() -> None:
    for mechanism in (
        Laplace(epsilon=0.5, sensitivity=2.0, relation=Relation.REPLACE),
        Gaussian(epsilon=0.5, delta=1e-6, sensitivity=2.0, relation=Relation.REPLACE),
    ):
        accountant = PldAccountant(relation=Relation.REPLACE).compose(mechanism.event)
        delta = mechanism.guarantee().delta
        assert accountant.epsilon(delta) == pytest.approx(0.5, rel=1e-5)
        assert accountant.epsilon(delta) <= 0.5


def test_shapes_are_public_and_checked() -> None:
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0, size=6)
    assert mechanism.release(np.zeros((2, 3))).value.shape == (2, 3)
    for shape in ((5,), (2, 2), (), (0,)):
        with pytest.raises(InvalidArgument, match="^value.shape="):
            mechanism.release(np.zeros(shape))


@pytest.mark.parametrize("kind", [int, np.int64])
def test_large_integers_are_not_rounded_apart(kind: Any) -> None:
    """As floats 2^60 + 128 and 2^60 + 129 are 256 apart, and the noise was for 1."""
    mechanism = Laplace(epsilon=1.0, sensitivity=1.0)
    values = [mechanism.release(kind(2**60 + extra), TestSource(1)).value for extra in (128, 129)]
    assert abs(values[0] - values[1]) <= 1
    scores = [[2**60 + 128, 2**60 + 129], [2**60 + 129, 2**60 + 128]]
    choices = [ExponentialMechanism(epsilon=0.1).release(row, TestSource(2)).value for row in scores]
    assert choices[0] == choices[1]


def test_large_and_missing_numbers_are_answered() -> None:
    for values in ([2**64, 1], [2**63, -1], [1, None], [Fraction(10**400), 1], [Fraction(-(10**400)), 1]):
        assert np.isfinite(Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(values).value).all()
    for integers in ([2**63, 1], [2**62, -1], [2**70, -(2**70)], [None, 1]):
        DiscreteLaplace(epsilon=1.0, size=2).release(integers)


def test_masked_values_are_not_used() -> None:
    with pytest.raises(InvalidArgument, match="masked"):
        Laplace(epsilon=1.0, sensitivity=1.0, size=2).release(np.ma.masked_array([777.0, 1.0], mask=[True, False]))
