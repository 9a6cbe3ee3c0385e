"""Laplace noise on a metric scale: its law, its rounding, and audits that catch noise of another metric."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from hush.audit import Side, clopper_pearson
from hush.errors import InvalidArgument
from hush.mechanisms import Laplace
from hush.randomness import RandomSource, TestSource, source_or_default
from hush.stability import MetricLaplace
from hush.stability import metric_laplace as module
from hush.stability.metric_laplace import metric_noise


@pytest.mark.parametrize(("dimensions", "scale"), [(1, 1.5), (2, 0.7), (2, 2.0), (3, 0.8)])
def test_noise_has_the_discrete_law_of_the_euclidean_norm(dimensions: int, scale: float) -> None:
    reach, size = 12, 60_000
    axes = np.meshgrid(*[np.arange(-reach, reach + 1)] * dimensions, indexing="ij")
    norms = np.sqrt(sum(axis.astype(float) ** 2 for axis in axes))
    weights = np.exp(-norms / scale)
    wide = np.meshgrid(*[np.arange(-40, 41)] * dimensions, indexing="ij")
    total = np.exp(-np.sqrt(sum(axis.astype(float) ** 2 for axis in wide)) / scale).sum()
    noise = metric_noise(source_or_default(None), scale, size, dimensions)
    inside = (np.abs(noise) <= reach).all(axis=1)
    counts = np.zeros(weights.shape)
    np.add.at(counts, tuple(noise[inside].T + reach), 1)
    expected = size * weights / total
    common = expected > 20
    statistic = ((counts - expected) ** 2 / expected)[common].sum()
    rest, rest_expected = size - counts[common].sum(), size - expected[common].sum()
    statistic += (rest - rest_expected) ** 2 / max(rest_expected, 1e-9) if rest_expected > 20 else 0.0
    # False alarms: 1e-7 by the limit law, within 1e-6 at counts above 20.
    assert statistic < chi2.isf(1e-7, common.sum())


@pytest.mark.parametrize("dimensions", [2, 3])
def test_exact_arithmetic_decides_as_floats_do(dimensions: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = metric_noise(TestSource(4), 2.0**40, 50, dimensions)
    plain = module.flip

    def undecided(source: RandomSource, approximate: Any, enclosure: Any) -> Any:
        for index, probability in enumerate(approximate.tolist()):
            low, high = enclosure(index, 40)
            assert float(low) - 1e-13 <= probability <= float(high) + 1e-13
            assert high - low < 1e-30
        return plain(source, np.full(len(approximate), np.nan), enclosure)

    monkeypatch.setattr(module, "flip", undecided)
    exact = metric_noise(TestSource(4), 2.0**40, 50, dimensions)
    assert (fast == exact).all()


@given(st.floats(1e-3, 1e3), st.integers(1, 3))
def test_proposals_are_never_too_rare(scale: float, dimensions: int) -> None:
    from fractions import Fraction

    assert Fraction(module._wider(scale, dimensions)) ** 2 >= dimensions * Fraction(scale) ** 2


@given(st.integers(1, 3), st.lists(st.floats(allow_nan=True), min_size=6, max_size=6))
def test_rounding_adds_at_most_the_resolution(dimensions: int, numbers: list[float]) -> None:
    mechanism = MetricLaplace(epsilon_per_unit=1.0, dimensions=dimensions)
    points = np.nan_to_num(np.clip(np.array(numbers), -1e6, 1e6))[: 2 * dimensions].reshape(2, dimensions)
    rounded = mechanism._grid.integers(points) * mechanism._grid.spacing
    before, after = (float(np.linalg.norm(pair[0] - pair[1])) for pair in (points, rounded))
    assert after <= before * (1 + 1e-12) + mechanism.guarantee().resolution


def test_the_noise_covers_the_stated_epsilon() -> None:
    for epsilon in (0.1, 1 / 3, math.pi, 1e-7, 1e5):
        mechanism = MetricLaplace(epsilon_per_unit=epsilon)
        assert mechanism.noise_scale >= 1 / epsilon


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_accuracy_is_kept(dimensions: int) -> None:
    mechanism, size = MetricLaplace(epsilon_per_unit=0.5, dimensions=dimensions), 20_000
    noise = np.linalg.norm(mechanism.release(np.zeros((size, dimensions))).value, axis=1)
    beyond = int((noise > mechanism.accuracy(0.9)).sum())
    # False alarms: 5e-7 on each side.
    assert binom.ppf(5e-7, size, 0.1) <= beyond <= binom.isf(5e-7, size, 0.1)


@pytest.mark.parametrize("broken", [False, True])
def test_an_audit_of_two_points_catches_noise_of_another_metric(broken: bool) -> None:
    # The twin adds Laplace noise to each coordinate: along the diagonal, its loss is sqrt(2) times the distance. The
    # event is the quadrant behind the first point, of probability 0.25 and 0.061 for the twin.
    size, distance = 40_000, 1.0
    mechanism, twin = MetricLaplace(epsilon_per_unit=1.0), Laplace(epsilon=1.0, sensitivity=1.0, size=2 * size)

    def share(point: float, side: Side, seed: int) -> float:
        points = np.full((size, 2), point)
        source = TestSource(seed)
        noisy = np.asarray(twin.release(points, source).value) if broken else mechanism.release(points, source).value
        count = int((noisy < 0).all(axis=1).sum())
        return float(clopper_pearson(count, size, 5e-8, side))

    # False alarms: 1e-7, and the twin's bound is 1.3 with a standard deviation of 0.02; fixed sources.
    proven = math.log(share(0.0, Side.LOWER, 5) / share(distance / math.sqrt(2), Side.UPPER, 6))
    assert (proven > mechanism.guarantee().loss(distance)) == broken
    assert proven > 0.6


def test_points_are_independent_and_odd_values_raise_nothing() -> None:
    mechanism = MetricLaplace(epsilon_per_unit=1.0)
    points = np.array([[math.nan, 1.0], [math.inf, -math.inf], [1e308, 0.0], [5e-324, -0.0]])
    values = mechanism.release(points, TestSource(2)).value
    assert values.shape == points.shape
    assert np.isfinite(values).all()
    assert mechanism.release(np.zeros((0, 2)), TestSource(2)).value.shape == (0, 2)
    same = mechanism.release(np.zeros((4, 2)), TestSource(2)).value
    assert values[3] == pytest.approx(same[3])  # draws do not depend on the points


@pytest.mark.parametrize(
    "settings",
    [{"epsilon_per_unit": 0.0}, {"epsilon_per_unit": math.nan}, {"dimensions": 4}, {"dimensions": 0}, {"unit": ""}],
)
def test_wrong_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        MetricLaplace(**{"epsilon_per_unit": 1.0, **settings})


def test_wrong_shapes_are_refused() -> None:
    for points in ([0.0, 0.0], [[0.0, 0.0, 0.0]], 1.0):
        with pytest.raises(InvalidArgument, match=r"points\.shape"):
            MetricLaplace(epsilon_per_unit=1.0).release(points)
