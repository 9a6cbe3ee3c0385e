"""Means and variances: one release for all parts, and weights that add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hush.statistics as hs
from hush.accounting import events
from hush.randomness import TestSource
from hush.statistics.moments import unit_weights

SALARIES = [*np.linspace(30_000, 90_000, 999), 2e9]


def test_salaries_are_clamped_to_a_public_range() -> None:
    settings = {"units": range(1000), "epsilon": 1.0, "confidence": 1 - 1e-8}
    mean = hs.mean(SALARIES, bounds=(0, 200_000), **settings, source=TestSource(1))
    assert mean.low <= np.clip(SALARIES, 0, 200_000).mean() <= mean.high
    assert mean.high - mean.low < 15_000


def test_mean_count_and_sum_share_one_release() -> None:
    groups = np.repeat(np.arange(4_000), 2)
    settings = {"units": np.arange(8_000), "groups": groups, "keys": range(4_000), "epsilon": 1.0}
    result = hs.mean(np.tile([0.0, 100.0], 4_000), bounds=(0, 100), **settings, source=TestSource(1))
    count, total = result.parts["count"], result.parts["sum"]
    # Separate releases at half of epsilon each would have variances 8 and 8 * 50^2 (centred).
    # False alarms: the standard errors of these are sqrt(5 / 4000) = 3.5 % and of the mean 0.032: six of them, or more.
    assert np.var(count.value) == pytest.approx(4.0, rel=0.25)
    assert np.var(total.value - 50 * count.value) == pytest.approx(4 * 50**2, rel=0.25)
    assert count.guarantee == total.guarantee == result.guarantee
    assert np.abs(count.value.mean() - 2) < 0.2


def test_variance_shares_one_count() -> None:
    results = hs.describe([1.0, 2.0, 3.0], units=[1, 2, 3], bounds=(0, 4), epsilon=1.0)
    assert len({repr(part.event) for part in results.values()}) == 1
    assert isinstance(results["std"].event.event, events.LaplaceEvent)  # type: ignore[attr-defined]
    exact = hs.describe([1.0, 2.0, 4.0] * 3_000, units=range(9_000), bounds=(0, 4), epsilon=400.0)
    assert exact["variance"].value == pytest.approx(np.var([1.0, 2.0, 4.0]), abs=1e-3)
    assert exact["std"].value == pytest.approx(np.std([1.0, 2.0, 4.0]), abs=1e-3)


@given(
    st.lists(st.floats(allow_nan=False), max_size=20),
    st.sampled_from([(0.0, 1.0), (-1e199, 1e199), (2.0, 2.0 + 1e-9), (-3.0, 7.0)]),
    st.sampled_from([16, 1 << 20, 1 << 30]),
    st.sampled_from([1, 2]),
)
def test_weights_of_a_row_are_no_less_than_zero_and_add_up(
    values: list[float], limits: tuple[float, float], steps: int, degree: int
) -> None:
    weights = unit_weights(np.array(values, dtype=np.float64), limits, steps, degree)
    assert (weights >= 0).all()
    assert (weights.sum(axis=1) == steps).all()


def test_weights_are_those_of_the_formulas() -> None:
    share = np.array([0.0, 0.25, 1.0])
    weights = unit_weights(share * 8 - 3, (-3.0, 5.0), 1 << 20, 2) / (1 << 20)
    expected = np.column_stack([(1 - share) ** 2, 2 * share * (1 - share), share**2])
    assert np.abs(weights - expected).max() < 1e-5


def test_the_mean_of_nothing_is_within_the_bounds() -> None:
    for seed in range(20):
        result = hs.mean([], units=[], bounds=(10, 20), epsilon=0.1, source=TestSource(seed))
        assert 10 <= result.low <= result.value <= result.high <= 20


def test_std_is_the_root_of_the_variance() -> None:
    settings = {"units": range(90), "bounds": (0, 4), "epsilon": 2.0}
    spread = hs.variance([1.0, 2.0, 4.0] * 30, **settings, source=TestSource(1))
    root = hs.std([1.0, 2.0, 4.0] * 30, **settings, source=TestSource(1))
    for end in ("value", "low", "high"):
        assert getattr(root, end) == pytest.approx(np.sqrt(getattr(spread, end)))
