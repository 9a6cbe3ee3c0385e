"""The functional mechanism: sensitivity of the coefficients, what is learned, and a twin without noise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from black_box.certainty import audit
from estimators.checks import unexpected_failures
from hush.errors import InvalidArgument, Unsupported
from hush.estimators import FunctionalMechanism, FunctionalRegression, PrivateLinearSVC, PrivateLogisticRegression
from hush.estimators.linear.functional_mechanism import Quadratic
from hush.randomness import TestSource


@pytest.mark.parametrize("dimension", [1, 2, 7])
def test_one_row_moves_the_coefficients_by_the_sensitivity_at_most(dimension: int) -> None:
    for shape in (Quadratic(linear=-0.5, square=0.125), Quadratic(linear=-2.0, square=1.0)):
        row = np.full(dimension, dimension**-0.5)  # the worst of all rows of norm 1
        products = shape.square * np.outer(row, row)
        moved = np.abs(shape.linear * row).sum() + np.abs(products).sum()
        assert moved == pytest.approx(shape.sensitivity(dimension))
        for other in np.random.default_rng(1).normal(size=(20, dimension)):
            unit = other / np.linalg.norm(other)
            assert np.abs(shape.linear * unit).sum() + shape.square * np.abs(unit).sum() ** 2 <= moved + 1e-12


class Forgetful(Quadratic):
    """A broken twin: the sensitivity is far too small."""

    def sensitivity(self, dimension: int) -> float:
        return abs(self.linear) / 1e4


@pytest.mark.parametrize("kind", [Quadratic, Forgetful])
def test_black_box(kind: Any) -> None:
    shape = kind(linear=-2.0, square=1.0)

    def run(data: tuple[Any, Any], source: Any) -> Any:
        return shape.noisy_minimum(*data, epsilon=1.0, ridge=0.0, source=source)

    row = np.full((1, 4), 0.5)
    first, second = (np.zeros((0, 4)), np.zeros(0)), (row, np.ones(1))
    result = audit(run, first, second, samples=150, search_samples=75, source=TestSource("functional"))
    assert result.compare(1.0).violated is (kind is Forgetful)


def test_lines_and_classes_are_learned() -> None:
    chance = np.random.default_rng(1)
    X = chance.uniform(-1, 1, size=(20_000, 2))
    y = 3 + X @ [1.0, -0.5]
    model = FunctionalRegression(epsilon=1.0, data_norm=1.5, target_bounds=(0.0, 6.0), source=TestSource(1)).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.guarantee_.delta == 0
    labels = (y > 3).astype(int)
    settings: dict[str, Any] = {"epsilon": 1.0, "data_norm": 1.5, "classes": [0, 1], "method": FunctionalMechanism()}
    assert PrivateLogisticRegression(**settings, source=TestSource(1)).fit(X, labels).score(X, labels) > 0.95
    with pytest.raises(Unsupported):
        PrivateLinearSVC(**settings)
    with pytest.raises(InvalidArgument):
        FunctionalRegression(epsilon=1.0, data_norm=1.0, target_bounds=(1.0, 1.0))


def test_few_rows_raise_no_error() -> None:
    model = FunctionalRegression(epsilon=0.01, data_norm=1.0, target_bounds=(0.0, 1.0), source=TestSource(1))
    assert np.isfinite(model.fit([[np.nan], [1.0]], [1.0, np.nan]).coef_).all()


def test_scikit_learn() -> None:
    assert unexpected_failures(FunctionalRegression(epsilon=900.0, data_norm=10.0, target_bounds=(-5.0, 5.0))) == []
