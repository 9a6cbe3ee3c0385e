"""Noise on integers: its scale, its event, and integers that stay integers."""

from __future__ import annotations

import numpy as np
import pytest

from hush.accounting import ZcdpAccountant
from hush.errors import InvalidArgument
from hush.mechanisms import DiscreteGaussian, DiscreteLaplace


def test_several_discrete_gaussians_rest_on_concentrated_privacy() -> None:
    mechanism = DiscreteGaussian(epsilon=1.0, delta=1e-6, sensitivity=3, size=100)
    rho = 9 / (2 * mechanism.noise_scale**2)
    assert mechanism.event.event.rho >= rho  # type: ignore[attr-defined]
    assert ZcdpAccountant().compose(mechanism.event).epsilon(1e-6) <= 1.05


def test_integers_stay_integers_and_do_not_overflow() -> None:
    mechanism = DiscreteLaplace(epsilon=1e-5, sensitivity=1 << 30, size=1000)
    values = mechanism.release(np.full(1000, np.iinfo(np.int64).max)).value
    assert values.dtype == np.int64
    assert np.abs(values - (1 << 61)).max() < 1 << 60
    assert isinstance(DiscreteLaplace(epsilon=1.0).release(3).value, int)
    with pytest.raises(InvalidArgument, match="2.50"):
        DiscreteLaplace(epsilon=1e-5, sensitivity=1 << 40)
    with pytest.raises(InvalidArgument, match="^value.dtype="):
        DiscreteLaplace(epsilon=1.0).release(3.5)
