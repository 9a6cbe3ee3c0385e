"""Private feature selection: sensitivity of the scores, the event, a black box and a twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from hush.accounting import PldAccountant
from hush.errors import InvalidArgument
from hush.estimators import PrivateSelectBest
from hush.estimators.selection.feature_selection import class_contrasts
from hush.randomness import TestSource


def test_scikit_learn() -> None:
    assert unexpected_failures(PrivateSelectBest(k=1, epsilon=900.0, data_bound=10.0, classes=[0, 1, 2])) == []


@pytest.mark.parametrize("num_classes", [2, 3, 7])
def test_one_row_changes_every_score_by_at_most_one(num_classes: int) -> None:
    chance = np.random.default_rng(num_classes)
    worst = 0.0
    for _ in range(50):
        values, class_indices = chance.choice([-1.0, 1.0, 0.5], (6, 4)), chance.integers(0, num_classes, 6)
        moved = class_contrasts(values, class_indices, num_classes) - class_contrasts(
            values[1:], class_indices[1:], num_classes
        )
        worst = max(worst, float(np.abs(moved).max()))
    assert 0.9 < worst <= 1


class BoundFromData(PrivateSelectBest):
    """A broken twin: it takes the largest value as the bound."""

    def fit(self, X: Any, y: Any) -> Any:
        self.data_bound = np.abs(X).max()
        return super().fit(X, y)


@pytest.mark.parametrize("kind", [PrivateSelectBest, BoundFromData])
def test_features_as_a_black_box(kind: Any) -> None:
    def choose(data: Any, source: Any) -> int:
        selector = kind(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=source).fit(*data)
        return int(selector.get_support(indices=True)[0])

    rows, y = np.zeros((30, 200)), np.ones(30)
    rows[:, 0], new = 1.0, np.zeros(200)
    new[1] = 1e6
    first, second = (rows, y), (np.vstack([rows, new]), np.append(y, 1))
    result = audit(choose, first, second, samples=150, search_samples=75, source=TestSource("features"))
    assert result.compare(1.0).violated is (kind is BoundFromData)


def test_the_selector_spends_its_epsilon_and_finds_features() -> None:
    rows = np.zeros((400, 6))
    y = np.arange(400) % 2
    rows[:, 2], rows[:, 5] = 2 * y - 1, 0.8 * (1 - 2 * y)
    selector = PrivateSelectBest(k=2, epsilon=1.0, data_bound=1.0, classes=[0, 1], source=TestSource(1)).fit(rows, y)
    assert selector.get_support(indices=True).tolist() == [2, 5]
    assert selector.transform(rows).shape == (400, 2)
    assert 0.99 < PldAccountant().compose(selector.event_).epsilon(0.0) <= 1 + 1e-9
    with pytest.raises(InvalidArgument, match="k=9"):
        PrivateSelectBest(k=9, epsilon=1.0, data_bound=1.0, classes=[0, 1]).fit(rows, y)
