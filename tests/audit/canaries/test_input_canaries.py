"""Canaries with wrong labels: their labels and coins, calibration over runs, and the bound."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from hush.audit.canaries import label_canaries
from hush.errors import InvalidArgument
from hush.randomness import TestSource


def test_labels_of_canaries_are_wrong_and_coins_fair() -> None:
    labels = np.random.default_rng(1).integers(-1, 4, size=5000)
    canaries = label_canaries(labels, num_classes=4, num_canaries=2000, source=TestSource(1))
    assert len(np.unique(canaries.units)) == 2000
    assert np.all(canaries.labels != labels[canaries.units])
    assert set(canaries.labels.tolist()) == {0, 1, 2, 3}
    assert binomtest(int(canaries.included.sum()), 2000).pvalue > 1e-7
    again = canaries.again(TestSource(2))
    assert np.array_equal(again.units, canaries.units)
    assert not np.array_equal(again.included, canaries.included)


@pytest.mark.parametrize(
    ("labels", "classes", "count"), [([0, 1], 1, 1), ([0, 5], 2, 1), ([0, 1], 2, 3), ([0.5, 1.0], 2, 1)]
)
def test_invalid_canaries_are_refused(labels: list[float], classes: int, count: int) -> None:
    with pytest.raises(InvalidArgument):
        label_canaries(labels, num_classes=classes, num_canaries=count)
