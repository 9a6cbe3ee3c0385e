"""The trade-off between an attacker's errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from hush.accounting import GaussianEvent, PldAccountant, PoissonSampledEvent, gaussian_delta


class TestTradeOff:
    accountant = PldAccountant().compose(PoissonSampledEvent(GaussianEvent(1.0), 0.02), 200)

    @pytest.mark.parametrize("rate", [0.02, *(pytest.param(rate, marks=pytest.mark.slow) for rate in (0.0, 1.0))])
    def test_no_attack_beats_the_trade_off_and_it_beats_every_single_pair(self, rate: float) -> None:
        best = self.accountant.max_tpr(rate)
        assert rate <= best <= 1
        for delta in (1e-5, 1e-2):
            assert best <= self.accountant.guarantee(delta).max_tpr(rate) + 1e-3

    @pytest.mark.parametrize("rate", [0.001, 0.01, 0.1, 0.5])
    @pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
    def test_gaussian_trade_off(self, rate: float, mu: float) -> None:
        truth = float(ndtr(ndtri(rate) + mu))  # Dong, Roth & Su 2022, equation 6
        rate_bound = PldAccountant().compose(GaussianEvent(1 / mu)).max_tpr(rate)
        assert truth * (1 - 1e-9) <= rate_bound <= truth * (1 + 1e-3)


def test_the_delta_of_a_gaussian() -> None:
    epsilons = np.array([0.0, 0.5, 2.0])
    accountant = PldAccountant().compose(GaussianEvent(1 / 0.8))
    expected = [accountant.delta(float(epsilon)) for epsilon in epsilons]
    assert gaussian_delta(epsilons, 0.8) == pytest.approx(expected, rel=1e-10)
