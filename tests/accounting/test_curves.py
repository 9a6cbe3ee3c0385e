"""Curves: pairs of epsilon and delta, and the trade-off between an attacker's errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from hush.accounting import (
    GaussianEvent,
    PldAccountant,
    PoissonSampledEvent,
    delta_curve,
    epsilon_curve,
    gaussian_delta,
    max_true_positive_rate,
)


class TestCurves:
    accountant = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.02), 200)

    def test_curves_are_the_points(self) -> None:
        deltas_ = [1e-8, 1e-5, 1e-3]
        assert epsilon_curve(self.accountant, deltas_) == [(d, self.accountant.epsilon(d)) for d in deltas_]
        epsilons = [0.5, 1.0, 3.0]
        assert delta_curve(self.accountant, epsilons) == [(e, self.accountant.delta(e)) for e in epsilons]

    @pytest.mark.parametrize("rate", [0.02, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.0, 1.0))])
    def test_no_attack_beats_the_trade_off_and_it_beats_every_single_pair(self, rate: float) -> None:
        best = max_true_positive_rate(self.accountant, rate)
        assert rate <= best <= 1
        for delta in (1e-5, 1e-2):
            assert best <= self.accountant.guarantee(delta).max_tpr(rate) + 1e-3

    @pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
    @pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
    def test_gaussian_trade_off(self, rate: float, mu: float) -> None:
        truth = float(ndtr(ndtri(rate) + mu))  # Dong, Roth & Su 2022, equation 6
        rate_bound = max_true_positive_rate(PldAccountant().compose(GaussianEvent(1 / mu)), rate)
        assert truth * (1 - 1e-9) <= rate_bound <= truth * (1 + 1e-3)


def test_the_delta_of_a_gaussian() -> None:
    epsilons = np.array([0.0, 0.5, 2.0])
    accountant = PldAccountant().compose(GaussianEvent(1 / 0.8))
    expected = [accountant.delta(float(epsilon)) for epsilon in epsilons]
    assert gaussian_delta(epsilons, 0.8) == pytest.approx(expected, rel=1e-10)
