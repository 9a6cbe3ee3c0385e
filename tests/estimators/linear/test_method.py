"""Problems of linear classifiers: how a budget is divided between outputs, and labels as signs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.estimators.linear.losses import LogisticLoss
from hush.estimators.linear.method import Problem, label_signs

PROBLEM = Problem(
    loss=LogisticLoss(), dimension=3, outputs=1, softmax=True, epsilon=1.0, delta=1e-6, regularization=None
)


@pytest.mark.parametrize("outputs", [1, 2, 3, 7, 10])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_budgets_of_all_outputs_add_up_to_the_whole(outputs: int, delta: float) -> None:
    problem = replace(PROBLEM, outputs=outputs, delta=delta)
    epsilon_share, delta_share = problem.per_output_budget()
    assert outputs * epsilon_share <= 1.0
    assert outputs * delta_share <= delta
    # Accountants round up: at delta itself, shares of delta that are less than 1e-12 below it may not fit.
    spent = PldAccountant().compose(problem.per_output_event()).epsilon(delta * (1 + 1e-9))
    assert spent <= 1.0
    assert spent == pytest.approx(1.0, rel=1e-6)


def test_a_twin_that_pays_for_one_output_only_exceeds_epsilon() -> None:
    one_output = PROBLEM.per_output_event()
    assert PldAccountant().compose(one_output, 3).epsilon(3e-6) > 2.9


def test_classes_are_joint_where_the_loss_allows_it_and_there_are_several() -> None:
    assert not PROBLEM.joint
    assert replace(PROBLEM, outputs=3).joint
    assert not replace(PROBLEM, outputs=3, softmax=False).joint


def test_signs_are_of_the_second_of_two_classes_or_of_each_against_the_rest() -> None:
    assert label_signs(np.array([0, 1, 1]), 1).tolist() == [[-1], [1], [1]]
    assert label_signs(np.array([2, 0]), 3).tolist() == [[-1, -1, 1], [1, -1, -1]]
    assert label_signs(np.zeros(0, dtype=np.int64), 3).shape == (0, 3)
