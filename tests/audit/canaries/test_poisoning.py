"""ClipBKD: where the poison lies, its label, and the bound from poisoned models."""

from __future__ import annotations

import numpy as np
import pytest

from hush.audit.canaries import audit_poisoning, clip_bkd
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit


def test_the_poison_lies_where_the_data_do_not() -> None:
    random = np.random.default_rng(4)
    x = random.normal(size=(400, 6)) * np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.01])
    y = (x[:, 0] > 0).astype(int)
    poison = clip_bkd(x, y, num_classes=2, norm=2.5, copies=3)
    assert np.linalg.norm(poison.point) == pytest.approx(2.5)
    assert abs(poison.point[5]) == pytest.approx(2.5, abs=1e-2)  # 1e-6 off, over seeds
    assert poison.label in (0, 1)
    assert poison.statistic([[1.0, 4.0]], [[0.5, 1.0]]).tolist() == [[0.5, 3.0][poison.label]]


def test_the_label_of_the_poison_is_the_least_likely() -> None:
    random = np.random.default_rng(5)
    x = random.normal(size=(300, 3)) * np.array([1.0, 1.0, 0.1])
    y = np.zeros(300, dtype=int)
    y[:30] = 1
    assert clip_bkd(x, y, num_classes=2, norm=1.0).label == 1


def test_poisoned_models_bound_the_epsilon_of_one_unit() -> None:
    """Perfectly separated, 500 models each: half of them counted, two-sided at 99 %: A.2's arithmetic."""
    random = np.random.default_rng(6)
    poisoned, clean = random.uniform(2, 3, size=1000), random.uniform(0, 1, size=1000)
    single = audit_poisoning(poisoned, clean, copies=1, confidence=0.99)
    double = audit_poisoning(poisoned, clean, copies=2, confidence=0.99)
    assert single.epsilon_lower == pytest.approx(4.541915810224, abs=1e-9)
    assert double.epsilon_lower == pytest.approx(2.270957905, abs=1e-9)
    with pytest.raises(InvalidArgument, match="four models"):
        audit_poisoning([1.0], [2.0, 3.0], copies=1)


def test_the_threshold_is_chosen_on_models_that_are_not_counted() -> None:
    """The counted half decides nothing: its values do not move the threshold."""
    random = np.random.default_rng(7)
    poisoned, clean = random.normal(1, 1, 40), random.normal(0, 1, 40)
    before = audit_poisoning(poisoned, clean, copies=1)
    poisoned[1::2] += 10
    after = audit_poisoning(poisoned, clean, copies=1)
    assert after.details["threshold"] == before.details["threshold"]
    assert after.details["tp"] == 20
    assert before.num_in == after.num_in == 20


def test_results_carry_unit_and_relation() -> None:
    result = audit_poisoning(
        np.arange(40.0) + 100, np.arange(40.0), copies=2, unit=Unit.user(), relation=Relation.REPLACE
    )
    assert (result.unit, result.relation) == (Unit.user(), Relation.REPLACE)
    assert result.epsilon_lower > 0
