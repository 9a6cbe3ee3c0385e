"""How far one row moves the scores that estimators choose by; each was wrong once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hush.estimators as he
from hush.mechanisms import ExponentialMechanism, IteratedTopK
from hush.randomness import TestSource

FEW = np.array([[0.0, 0.0], [0.0, 0.0]])
MORE = np.vstack([FEW, [[1.0, 1.0]]])
SHORT = np.array([[0.2, 0.0], [0.2, 0.0], [1.0, 0.0], [1.0, 0.0]])
LONGER = np.vstack([SHORT, [[1.0, 0.0]]])


def compared(monkeypatch: Any, kind: Any, fit: Any) -> tuple[Any, float]:
    """Return the first scores of a fit that a mechanism selects by, and the sensitivity that it assumes."""
    releases: list[tuple[Any, float]] = []
    original = kind.release

    def release(mechanism: Any, scores: Any, source: Any) -> Any:
        releases.append((np.array(scores, dtype=np.float64), float(mechanism.sensitivity)))
        return original(mechanism, scores, source)

    with monkeypatch.context() as patched:
        patched.setattr(kind, "release", release)
        fit()
    return releases[0]


CHOICES = {
    "Frank-Wolfe": (
        ExponentialMechanism,
        lambda: he.PrivateLinearSVC(epsilon=1.0, data_norm=1.0, classes=[0, 1], method=he.FrankWolfe()),
        (FEW, [0, 1], MORE, [0, 1, 1]),
    ),
    "features": (
        IteratedTopK,
        lambda: he.PrivateSelectBest(k=1, epsilon=1.0, data_bound=1.0, classes=[0, 1]),
        (FEW, [0, 1], MORE, [0, 1, 1]),
    ),
    "norm": (
        ExponentialMechanism,
        lambda: he.PrivateLogisticRegression(epsilon=1.0, data_norm=he.LearnBounds(), classes=[0, 1]),
        (SHORT, [0, 1, 0, 1], LONGER, [0, 1, 0, 1, 1]),
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_one_row_changes_scores_by_the_sensitivity_at_most(monkeypatch, name):
    kind, make, (x, y, more_x, more_y) = CHOICES[name]
    before, reach = compared(monkeypatch, kind, lambda: make().set_params(source=TestSource(1)).fit(x, y))
    after, same = compared(monkeypatch, kind, lambda: make().set_params(source=TestSource(1)).fit(more_x, more_y))
    assert reach == same
    assert 0.99 * reach <= np.abs(before - after).max() <= reach  # attained by the worst row, and not exceeded
