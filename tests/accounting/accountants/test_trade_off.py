"""The trade-off between an attacker's errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from hush.accounting import ApproximateDPEvent, GaussianEvent, PldAccountant, PoissonSampledEvent, gaussian_delta
from hush.accounting.accountants.trade_off import trade_off


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


@pytest.mark.parametrize("noise", [1.0, 0.1, 0.05, 0.001])
def test_without_a_false_alarm_next_to_nothing_is_found(noise: float) -> None:
    # The truth is 0: the loss is finite everywhere. It reaches 600 before delta is small at noise of 0.05.
    assert PldAccountant().compose(GaussianEvent(noise)).max_tpr(0.0) <= 1e-9


def test_a_claim_that_fails_is_found_without_a_false_alarm() -> None:
    accountant = PldAccountant().compose(ApproximateDPEvent(epsilon=60.0, delta=1e-6))
    assert 1e-6 <= accountant.max_tpr(0.0) <= 1.001e-6


class TestCurve:
    @pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
    def test_it_lies_just_above_the_truth(self, mu: float) -> None:
        curve = PldAccountant().compose(GaussianEvent(1 / mu)).tradeoff()
        for rate, reached in curve.points(21)[1:]:
            truth = float(ndtr(ndtri(rate) + mu))
            assert truth * (1 - 1e-9) <= reached <= truth * (1 + 5e-3)

    def test_a_curve_that_promises_nothing(self) -> None:
        class Nothing:
            def epsilon(self, delta: float) -> float:
                return float("inf")

            def delta(self, epsilon: float) -> float:
                return 1.0

        assert trade_off(Nothing()).max_tpr(0.5) == 1


def test_the_delta_of_a_gaussian() -> None:
    epsilons = np.array([0.0, 0.5, 2.0])
    accountant = PldAccountant().compose(GaussianEvent(1 / 0.8))
    expected = [accountant.delta(float(epsilon)) for epsilon in epsilons]
    assert gaussian_delta(epsilons, 0.8) == pytest.approx(expected, rel=1e-10)
