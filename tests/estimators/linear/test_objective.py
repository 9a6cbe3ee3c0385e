"""Objective perturbation: densities of neighbours by the theorem's change of variables, twins, and black boxes."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.special import softmax

from black_box.certainty import audit
from hush.accounting import PldAccountant
from hush.estimators import ObjectivePerturbation, PrivateLinearSVC, PrivateLogisticRegression
from hush.estimators.linear.losses import HuberHinge, LogisticLoss, MarginLoss
from hush.estimators.linear.method import Problem
from hush.estimators.linear.objective import _GaussianVectorNoise, joint_curvature_cost
from hush.estimators.linear.sums import clip_rows
from hush.randomness import TestSource

Floats = NDArray[np.float64]

LOSSES = [LogisticLoss(), HuberHinge(), HuberHinge(0.1)]


def problem(loss: MarginLoss, dimension: int = 1, **changes: Any) -> Problem:
    usual = Problem(
        loss=loss, dimension=dimension, outputs=1, softmax=False, epsilon=1.0, delta=0.0, regularization=1e-6
    )
    return replace(usual, **changes)


def largest_loss(loss: MarginLoss, scale: float, ridge: float, record: Floats) -> float:
    """Return the largest log-ratio of the densities of the minimum, with and without one row, over weights along it.

    All other rows are many and tiny: together they tilt the sum by any amount, with hardly any curvature.
    """
    direction = record / np.linalg.norm(record)
    along = np.concatenate([np.linspace(-60, 60, 40_001), np.geomspace(60, 1e5, 200), -np.geomspace(60, 1e5, 200)])
    worst = 0.0
    for aside, pull in ((0.0, 0.0), (0.3, 0.0), (0.0, 50.0), (0.0, -50.0)):
        across = np.zeros_like(direction)
        if len(across) > 1:
            across[0], across[1] = -direction[1], direction[0]
        weights = along[:, None] * direction + aside * across
        without = -ridge * weights + pull * direction
        margins = weights @ record
        with_it = without - loss.slope(margins)[:, None] * record
        noise = (np.linalg.norm(without, axis=1) - np.linalg.norm(with_it, axis=1)) / scale
        volume = np.log1p(loss.second_derivative(margins) * (record @ record) / ridge)
        worst = max(worst, float(np.abs(noise + volume).max()))
    return worst


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_densities_of_neighbours_are_within_epsilon(loss: MarginLoss, epsilon: float) -> None:
    for dimension in (1, 2):
        recipe: Any = ObjectivePerturbation().prepare(problem(loss, dimension, epsilon=epsilon))
        record = np.ones(dimension) / math.sqrt(dimension)
        largest = largest_loss(loss, recipe.noise.scale, recipe.ridge, record)
        assert largest <= epsilon - recipe.masking_epsilon
        assert largest > 0.7 * epsilon, "the bound is nearly reached: there is no noise to spare"


@pytest.mark.parametrize("loss", LOSSES)
def test_a_twin_without_the_curvature_term_exceeds_epsilon(loss: MarginLoss) -> None:
    recipe: Any = ObjectivePerturbation(curvature_share=0.5).prepare(problem(loss))
    main = 1.0 - recipe.masking_epsilon
    assert largest_loss(loss, 1 / main, recipe.ridge, np.ones(1)) > 1.02, "all of epsilon on the noise"
    assert largest_loss(loss, recipe.noise.scale, recipe.ridge / 8, np.ones(1)) > 1.02, "too small a ridge"


def test_an_intercept_outside_the_norm_exceeds_epsilon() -> None:
    recipe: Any = ObjectivePerturbation().prepare(problem(LogisticLoss(), 2))
    bounded = clip_rows(np.array([[3.0]]), 1.0, intercept=True)
    assert np.linalg.norm(bounded) <= 1
    assert largest_loss(LogisticLoss(), recipe.noise.scale, recipe.ridge, bounded[0]) <= 1
    escaped = np.array([1.0, 1.0])  # a column of ones next to rows of norm 1
    assert largest_loss(LogisticLoss(), recipe.noise.scale, recipe.ridge, escaped) > 1.1


def test_gaussian_noise_is_calibrated_to_what_the_curvature_term_leaves() -> None:
    recipe: Any = ObjectivePerturbation().prepare(problem(LogisticLoss(), 50, delta=1e-6))
    assert isinstance(recipe.noise, _GaussianVectorNoise)
    left = 1.0 - recipe.masking_epsilon - math.log1p(0.25 / recipe.ridge)
    from hush.accounting import GaussianEvent

    spent = PldAccountant().compose(GaussianEvent(recipe.noise.scale)).epsilon(1e-6)
    assert 0.99 * left < spent <= left


def exact_delta(loss: MarginLoss, stddev: float, ridge: float, epsilon: float, pull: float, swap: bool) -> float:
    """Return the hockey-stick divergence of the densities of one weight under Gaussian noise, by integration."""
    weights = np.linspace(-40 * stddev / ridge, 40 * stddev / ridge, 400_001)
    without = -ridge * weights + pull
    with_it = without - loss.slope(weights)
    thin = np.exp(-((without / stddev) ** 2) / 2) * ridge
    thick = np.exp(-((with_it / stddev) ** 2) / 2) * (ridge + loss.second_derivative(weights))
    first, second = (thick, thin) if swap else (thin, thick)
    step = (weights[1] - weights[0]) / (stddev * math.sqrt(2 * math.pi))
    assert abs(first.sum() * step - 1) < 1e-3
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * step)


@pytest.mark.parametrize("loss", LOSSES)
def test_gaussian_noise_keeps_delta_and_twins_do_not(loss: MarginLoss) -> None:
    delta, epsilon = 1e-2, 1.0
    recipe: Any = ObjectivePerturbation(curvature_share=0.5).prepare(problem(loss, 50, delta=delta, epsilon=epsilon))
    assert isinstance(recipe.noise, _GaussianVectorNoise)
    stddev, ridge = recipe.noise.scale, recipe.ridge
    cases = [(pull, swap) for pull in (-3.0, 0.0, 1.0, 3.0) for swap in (False, True)]
    assert max(exact_delta(loss, stddev, ridge, epsilon, *case) for case in cases) <= delta
    assert max(exact_delta(loss, stddev / 2, ridge, epsilon, *case) for case in cases) > delta, "half the noise"
    assert max(exact_delta(loss, stddev, ridge / 20, epsilon, *case) for case in cases) > delta, "no curvature term"


def _weights(rows: Floats, loss: MarginLoss, recipe: Any) -> Any:
    def run(data: tuple[Floats, NDArray[np.int64]], source: Any) -> Floats:
        weights: Floats = recipe.run(*data, source)[0]
        return weights

    return run


@pytest.mark.parametrize("unclipped", [False, True])
def test_black_box(unclipped: bool) -> None:
    recipe: Any = ObjectivePerturbation().prepare(problem(LogisticLoss(), regularization=None))
    row = np.array([[600.0]]) if unclipped else clip_rows(np.array([[600.0]]), 1.0, intercept=False)
    first = (np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    second = (row, np.ones(1, dtype=np.int64))
    run = _weights(row, LogisticLoss(), recipe)
    result = audit(run, first, second, samples=600, search_samples=100, source=TestSource("objective"))
    assert result.compare(1.0).violated is unclipped


def largest_joint_loss(scale: float, ridge: float, classes: int) -> float:
    """Like `largest_loss`, for one weight per class, learned jointly, and a row of any class."""
    basis = helmert(classes)
    chance = np.random.default_rng(classes)
    ways = chance.normal(size=(2000, classes - 1))
    weights = ways / np.linalg.norm(ways, axis=1, keepdims=True) * np.geomspace(1e-3, 300, 2000)[:, None]
    worst = 0.0
    for pull in (0.0, 30.0):
        for label in range(classes):
            shares = softmax(weights @ basis, axis=1)
            without = -ridge * weights + pull * basis[:, label]
            with_it = without - (shares - np.eye(classes)[label]) @ basis.T
            noise = (np.linalg.norm(without, axis=1) - np.linalg.norm(with_it, axis=1)) / scale
            bends = shares[:, :, None] * np.eye(classes) - shares[:, :, None] * shares[:, None, :]
            volume = np.linalg.slogdet(np.eye(classes - 1) + basis @ bends @ basis.T / ridge)[1]
            assert (volume <= joint_curvature_cost(classes, ridge)).all()
            worst = max(worst, float(np.abs(noise + volume).max()))
    return worst


@pytest.mark.parametrize("classes", [3, 10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_densities_of_neighbours_are_within_epsilon_for_several_classes(classes: int, epsilon: float) -> None:
    joint_problem = problem(LogisticLoss(), outputs=classes, softmax=True, epsilon=epsilon)
    recipe: Any = ObjectivePerturbation(curvature_share=0.4).prepare(joint_problem)
    largest = largest_joint_loss(recipe.noise.scale, recipe.ridge, classes)
    assert largest <= epsilon - recipe.masking_epsilon
    assert largest > 0.4 * epsilon
    short = largest_joint_loss(recipe.noise.scale / 2, recipe.ridge, classes)
    assert short > largest * 1.3, "with half the noise it is larger"
    if epsilon == 1.0:
        assert largest_joint_loss(recipe.noise.scale, recipe.ridge / 30, classes) > 1.0, "too small a ridge"


def test_the_cost_of_curvature_is_reached_for_even_shares() -> None:
    classes, ridge = 5, 0.3
    bends = np.eye(classes) / classes - np.ones((classes, classes)) / classes**2
    exact = np.linalg.slogdet(np.eye(classes) + bends / ridge)[1]
    assert exact <= joint_curvature_cost(classes, ridge) <= exact * (1 + 1e-6)


@pytest.mark.parametrize("unclipped", [False, True])
def test_several_classes_as_a_black_box(unclipped: bool) -> None:
    joint_problem = problem(LogisticLoss(), outputs=3, softmax=True, regularization=None)
    recipe: Any = ObjectivePerturbation().prepare(joint_problem)
    row = np.array([[800.0]]) if unclipped else clip_rows(np.array([[800.0]]), 1.0, intercept=False)
    first = (np.zeros((0, 1)), np.zeros(0, dtype=np.int64))
    result = audit(
        lambda data, source: recipe.run(*data, source)[:, 0],
        first,
        (row, np.ones(1, dtype=np.int64)),
        samples=400,
        search_samples=100,
        source=TestSource("classes"),
    )
    assert result.compare(1.0).violated is unclipped


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateLinearSVC])
def test_several_classes_cost_epsilon_in_all(kind: Any, delta: float) -> None:
    X, y = np.eye(3).repeat(300, axis=0), np.arange(3).repeat(300)
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": delta, "data_norm": 1.0, "classes": [0, 1, 2]}
    for method in (None, ObjectivePerturbation()):
        model = kind(**settings, method=method, source=TestSource(1)).fit(X, y)
        assert model.coef_.shape == (3, 3)
        assert PldAccountant().compose(model.event_).epsilon(delta) <= 1.0 + 1e-9
        assert model.guarantee_.epsilon == 1.0
    if kind is PrivateLogisticRegression:
        assert model.score(X, y) > 0.9
        assert np.allclose(np.column_stack([model.coef_, model.intercept_]).sum(axis=0), 0, atol=1e-9)
