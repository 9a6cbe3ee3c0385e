"""Epsilon of Gaussian differential privacy: reference values, the safe side, and refusals."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush import accounting
from hush.audit.bounds.gaussian import _delta, gdp_epsilon
from hush.errors import InvalidArgument
from oracles import closed_form


@pytest.mark.parametrize(("mu", "delta", "epsilon"), closed_form.GAUSSIAN_EPSILONS)
def test_reference_values(mu: float, delta: float, epsilon: float) -> None:
    assert gdp_epsilon(mu, delta) == pytest.approx(epsilon, abs=5e-7)


@given(st.floats(0.05, 5), st.floats(1e-9, 0.3))
def test_the_result_is_rounded_down(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon > 0:
        assert _delta(mu, epsilon) > delta
        assert _delta(mu, math.nextafter(epsilon, math.inf)) <= delta
    else:
        assert _delta(mu, 0.0) <= delta


def test_the_accountant_agrees() -> None:
    # mu-GDP is Gaussian noise with a noise multiplier of 1 / mu. The accountant rounds up.
    claimed = accounting.epsilon(noise_multiplier=0.8, delta=1e-5)
    assert gdp_epsilon(1 / 0.8, 1e-5) <= claimed
    assert gdp_epsilon(1 / 0.8, 1e-5) == pytest.approx(claimed, rel=1e-5)


@pytest.mark.parametrize(
    "call", [lambda: gdp_epsilon(1.0, 0.0), lambda: gdp_epsilon(math.nan, 0.1), lambda: gdp_epsilon(-1.0, 0.1)]
)
def test_invalid_arguments_are_refused(call: Any) -> None:
    with pytest.raises(InvalidArgument):
        call()
