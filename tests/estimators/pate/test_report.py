"""The published cost: rarely too low, never above the worst case, and its own price."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from estimators.pate.exact import all_answered
from hush.accounting import renyi_to_epsilon
from hush.errors import InvalidArgument
from hush.estimators.pate import ConfidentGNMax, CostReport, GNMax
from hush.estimators.pate import costs as costs
from hush.estimators.pate.report import DataDependentCost, DivergenceCost, ExPostCost
from hush.randomness import TestSource

REPORT = CostReport(epsilon=1.0, delta=1e-6, order=14.0, confidence=0.95)
AGREED = np.tile([230, 10, 10], (200, 1))


def released(report: CostReport, seed: int) -> DataDependentCost:
    return report.release(
        AGREED, all_answered(200), GNMax(sigma=40.0), num_teachers=250, delta=1e-5, source=TestSource(seed)
    )


def test_the_report_is_rarely_below_the_truth_and_never_above_the_worst() -> None:
    beta = REPORT._mechanism(1.0).beta
    truth = costs.raw_cost(AGREED, all_answered(200), GNMax(sigma=40.0), num_teachers=250, order=14.0, beta=beta)
    true, worst = (
        float(renyi_to_epsilon(np.array([d]), np.array([14.0]), 1e-5)[0]) + 1.0 for d in (truth.cost, truth.worst)
    )
    published = np.array([released(REPORT, seed).epsilon for seed in range(400)])
    # False alarms: 5 % of 400 may be too low, P(Binomial(400, 0.05) > 55) = 6e-12.
    assert (published < true).sum() <= 55
    assert (published <= worst).all()
    assert np.median(published) < worst, "worth asking for"
    assert len(np.unique(published)) > 100, "there is noise"


def test_the_report_says_what_it_costs() -> None:
    published = released(REPORT, 1)
    assert published.delta == pytest.approx(1e-5 + 1e-6)
    assert published.epsilon >= REPORT.epsilon
    assert set(DataDependentCost.__dataclass_fields__) == {"epsilon", "delta", "order", "confidence"}
    assert type(published) is DivergenceCost
    assert repr(costs.RawCost(0.125, 0.25, 0.5)) == "RawCost(private)"


@pytest.mark.parametrize(
    "wrong",
    [
        {"order": 1.0},
        {"order": math.nan},
        {"confidence": 0.3},
        {"confidence": 1.0},
        {"confidence": 1 - 1e-9},
        {"epsilon": 0.0},
        {"delta": 0.0},
    ],
)
def test_reports_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgument):
        CostReport(**({"epsilon": 1.0, "delta": 1e-6} | wrong))


def test_the_loss_after_the_fact_is_converted_by_markov_and_a_divergence_more_tightly() -> None:
    loss, divergence = (kind.epsilon_of(0.25, 11.0, 1e-5) for kind in (ExPostCost, DivergenceCost))
    assert loss == pytest.approx(0.25 + math.log(1e5) / 10)
    assert 0 < divergence < loss
    confident = ConfidentGNMax(threshold=200.0, sigma_threshold=150.0, sigma=40.0)
    settings: dict[str, Any] = {"num_teachers": 250, "delta": 1e-5, "source": TestSource(1)}
    published = REPORT.release(AGREED, all_answered(200), confident, **settings)
    assert type(published) is ExPostCost
