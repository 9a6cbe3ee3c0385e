"""A budget in two stages: the parts add up to the whole, for accountants, too."""

from __future__ import annotations

import pytest

from hush.accounting import PldAccountant
from hush.estimators.base.two_stage_budget import TwoStageBudget


@pytest.mark.parametrize("epsilon", [1e-4, 0.3, 1.0, 7.7])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1e-5])
@pytest.mark.parametrize("share", [0.05, 0.1, 1 / 3])
@pytest.mark.quick_cases(10)
def test_both_stages_cost_no_more_than_the_whole(epsilon: float, delta: float, share: float) -> None:
    stages = TwoStageBudget.split(epsilon, delta, share)
    assert stages.first == epsilon * share
    assert stages.first + stages.second <= epsilon
    assert stages.first + stages.second == pytest.approx(epsilon, rel=1e-12)
    assert stages.delta <= delta
    assert PldAccountant().compose(stages.event).epsilon(delta) <= epsilon * (1 + 1e-9)


def test_a_twin_that_gives_the_second_stage_everything_costs_more() -> None:
    stages = TwoStageBudget(0.1, 1.0, 1e-6)
    assert PldAccountant().compose(stages.event).epsilon(1e-6) > 1.09


def test_the_event_claims_no_finer_law_for_the_second_stage() -> None:
    """The second stage is an (epsilon, delta) claim, not a Gaussian mechanism: half of delta buys nothing."""
    stages = TwoStageBudget.split(1.0, 1e-6, 0.1)
    assert PldAccountant().compose(stages.event).epsilon(0.5e-6) > 10
