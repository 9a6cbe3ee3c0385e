"""Input canaries, ClipBKD and exposure."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from hush.audit.canaries import (
    audit_label_canaries,
    audit_poisoning,
    calibrated_scores,
    clip_bkd,
    exposure,
    exposure_extrapolated,
    label_canaries,
)
from hush.errors import InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource


def test_exposure_has_its_reference_values() -> None:
    """REFERENCES A.15: sixteen references 1 to 16."""
    found = exposure([0.0, 3.5, 20.0], range(1, 17))
    assert found[:2].tolist() == [4.0, 2.0]
    assert found[2] == pytest.approx(math.log2(16 / 17))
    assert exposure([3.0], range(1, 17))[0] == pytest.approx(2.0)  # a tie counts against the secret


def test_extrapolated_exposure_goes_on_where_ranks_end() -> None:
    references = np.random.default_rng(0).normal(100.0, 5.0, size=2000)
    assert exposure([50.0], references)[0] == pytest.approx(math.log2(2000))
    # Over seeds 74 with a standard deviation of 8, and 0.996 with 0.018.
    assert exposure_extrapolated([50.0], references)[0] > 20
    median = float(np.median(references))
    assert exposure_extrapolated([median], references)[0] == pytest.approx(1.0, abs=0.15)
    with pytest.raises(InvalidArgument, match="not all the same"):
        exposure_extrapolated([1.0], [2.0] * 20)
    with pytest.raises(InvalidArgument, match="no NaN"):
        exposure([math.nan], [1.0])


def test_labels_of_canaries_are_wrong_and_coins_fair() -> None:
    labels = np.random.default_rng(1).integers(-1, 4, size=5000)
    found = label_canaries(labels, num_classes=4, num_canaries=2000, source=TestSource(1))
    assert len(np.unique(found.units)) == 2000
    assert np.all(found.labels != labels[found.units])
    assert set(found.labels.tolist()) == {0, 1, 2, 3}
    assert binomtest(int(found.included.sum()), 2000).pvalue > 1e-7
    again = found.again(TestSource(2))
    assert np.array_equal(again.units, found.units)
    assert not np.array_equal(again.included, found.included)


@pytest.mark.parametrize(
    ("labels", "classes", "count"), [([0, 1], 1, 1), ([0, 5], 2, 1), ([0, 1], 2, 3), ([0.5, 1.0], 2, 1)]
)
def test_canaries_that_cannot_be_are_refused(labels: list[float], classes: int, count: int) -> None:
    with pytest.raises(InvalidArgument):
        label_canaries(labels, num_classes=classes, num_canaries=count)


def test_what_a_canary_is_anyway_is_taken_off() -> None:
    """A canary that every model finds likely says nothing by being likely once more."""
    random = np.random.default_rng(2)
    coins = random.integers(0, 2, size=(10, 500)).astype(bool)
    anyway = 10 * random.normal(size=500)
    scores = anyway + 3.0 * coins + random.normal(size=(10, 500))
    alone = [audit_label_canaries(scores[0], coins[0], delta=1e-5), audit_label_canaries(scores, coins, delta=1e-5)]
    # Over 30 seeds 0.16 and 5.1, with standard deviations of 0.13 and 0.26.
    assert alone[1].epsilon_lower > 2 > alone[0].epsilon_lower
    assert np.allclose(calibrated_scores(scores + anyway), calibrated_scores(scores))


def test_the_bound_fails_no_more_often_than_it_may() -> None:
    """Randomised response on each coin, in four runs; scores are the answers."""
    epsilon, failed = 1.0, 0
    random = np.random.default_rng(3)
    for _ in range(200):
        coins = random.integers(0, 2, size=(4, 100)).astype(bool)
        lie = random.random(size=coins.shape) > math.exp(epsilon) / (1 + math.exp(epsilon))
        answers = (coins ^ lie).astype(float) + 1e-6 * random.random(size=coins.shape)
        failed += audit_label_canaries(answers, coins, delta=0.0).epsilon_lower > epsilon
    assert binomtest(failed, 200, 0.05, alternative="greater").pvalue > 1e-7


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
    one = audit_poisoning(poisoned, clean, copies=1, confidence=0.99)
    two = audit_poisoning(poisoned, clean, copies=2, confidence=0.99)
    assert one.epsilon_lower == pytest.approx(4.541915810224, abs=1e-9)
    assert two.epsilon_lower == pytest.approx(2.270957905, abs=1e-9)
    with pytest.raises(InvalidArgument, match="four models"):
        audit_poisoning([1.0], [2.0, 3.0], copies=1)


@pytest.mark.parametrize("coins", [np.array(["0", "1"] * 50), np.array([-1, 1] * 50), np.array([np.nan, 0.0] * 50)])
def test_coins_are_true_or_false(coins: Any) -> None:
    with pytest.raises(InvalidArgument, match="included"):
        audit_label_canaries(np.arange(100.0), coins, delta=1e-5)


def test_what_so_many_canaries_can_show_at_best() -> None:
    coins = np.array([True, False] * 100)
    perfect = audit_label_canaries(coins.astype(float), coins, delta=1e-5, guessed=1.0)
    assert perfect.epsilon_lower == pytest.approx(float(perfect.details["epsilon_at_best"]))
    blind = audit_label_canaries(np.zeros(200), coins, delta=1e-5, guessed=1.0)
    assert blind.details["epsilon_at_best"] == perfect.details["epsilon_at_best"]
    assert blind.epsilon_lower == 0


def test_a_poisoning_audit_says_what_a_copy_is() -> None:
    found = audit_poisoning(
        np.arange(40.0) + 100, np.arange(40.0), copies=2, unit=Unit.user(), relation=Relation.REPLACE
    )
    assert (found.unit, found.relation) == (Unit.user(), Relation.REPLACE)
    assert found.epsilon_lower > 0
