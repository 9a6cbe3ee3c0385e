"""Learned bounds: counts in bins, what they cost with the release that follows, and how much one unit adds."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hush.accounting import PldAccountant
from hush.errors import BudgetExceeded, InvalidArgument
from hush.guarantee import Unit
from hush.ledger import Ledger
from hush.randomness import TestSource
from hush.statistics import EachRow, LaplaceNoise, LearnBounds, approximate_bounds, describe, mean, std, variance
from hush.statistics import sum as sum_
from hush.statistics.approximate_bounds import BINS, bins_plan, learned_bounds, resolve_bounds
from hush.statistics.request import checked_request

learned_bounds_module = sys.modules["hush.statistics.approximate_bounds"]  # the package has a function of this name


def test_counts_in_bins() -> None:
    powers = 2.0 ** np.arange(-40, 60)
    odd = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-320, 1e308]
    values = np.concatenate([powers, -powers, np.nextafter(powers, 0), np.nextafter(powers, math.inf), odd])
    ends = 2.0 ** np.arange(-20, 42)
    for column, counts in zip(np.stack([values, -values]), BINS.counts(np.stack([values, -values], 1)), strict=True):
        known = column[~np.isnan(column)]
        bins = np.searchsorted(ends[:-1], np.abs(known))
        assert counts.tolist() == np.bincount(np.where(known < 0, 61 - bins, 62 + bins), minlength=124).tolist()


def test_bounds_hold_those_of_bins_that_stand_out() -> None:
    rows = np.random.default_rng(0).normal(size=(4000, 3)) * [1e-3, 1.0, 1e6] + [0, 5, 0]
    lower, upper = learned_bounds(rows, bins_plan(5.0), TestSource(1)).T
    for column, low, high in zip(rows.T, lower, upper, strict=True):
        alone = approximate_bounds(column, units=EachRow(), epsilon=5.0, noise=LaplaceNoise(), source=TestSource(2))
        assert alone.noise_scale == bins_plan(5.0).block_scales[0]
        assert low <= alone.bounds[0]
        assert alone.bounds[1] <= high <= 2 * alone.bounds[1]
        assert np.mean((low <= column) & (column <= high)) > 0.999


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.arange(1000) % 80, (0.0, 128.0)),
        (np.linspace(20, 80, 1000), (16.0, 128.0)),
        (-np.linspace(20, 80, 700), (-128.0, -16.0)),
        (np.concatenate([np.linspace(32.5, 64, 800), np.full(200, -3.0)]), (-4.0, 64.0)),
    ],
)
def test_bounds_hold_values_in_bins_that_do_not_stand_out(values: Any, expected: tuple[float, float]) -> None:
    settings: dict[str, Any] = {"units": EachRow(), "epsilon": 1.0, "bounds": LearnBounds()}
    results = [mean(values, **settings, source=TestSource(seed)) for seed in range(40)]  # fixed keys
    assert sum(result.bounds == expected for result in results) >= 36
    assert all(result.bounds[0] <= expected[0] and expected[1] <= result.bounds[1] for result in results)
    assert all(result.bounds[1] - result.bounds[0] <= 2.1 * (expected[1] - expected[0]) for result in results)
    assert sum(result.low <= values.mean() <= result.high for result in results) >= 34


def test_noise_alone_gives_no_bounds_and_rarely_wider_ones() -> None:
    empty = [learned_bounds(np.empty((0, 50)), bins_plan(1.0), TestSource(seed)) for seed in range(4)]
    assert np.isnan(np.concatenate(empty)).all()  # false alarms: 200 columns, each with 1e-6 at most
    rows = np.full((2000, 500), 3.0)
    lower, upper = learned_bounds(rows, bins_plan(1.0), TestSource(5)).T  # fixed key
    # Of 500 columns, 2 signs and 8 bins beyond have .0067 each, and 17 within .002: 4.7 % together.
    assert 0.9 < np.mean((lower == 2.0) & (upper == 4.0)) < 1.0
    assert np.maximum(upper, -lower).max() <= 4.0 * 2**4


def test_a_result_says_that_its_interval_is_that_of_clamped_values() -> None:
    learned, public = (mean(AGES, **ONCE, bounds=bounds) for bounds in (LearnBounds(), (16, 128)))
    assert "Values were clamped to the learned bounds 16 to 128, and the interval is theirs." in str(learned)
    assert "learned" not in str(public)
    assert str(public).splitlines()[0].endswith("95 % interval")
    lost = mean([1e6], units=[1], epsilon=1.0, bounds=LearnBounds(), source=TestSource(1))
    assert "No value: the learned bounds were lost in the noise." in str(lost).splitlines()


ONCE: dict[str, Any] = {"units": range(20_000), "epsilon": 1.0, "source": TestSource(1)}
AGES = np.arange(20_000) % 60 + 20


def test_a_mean_within_learned_bounds_costs_epsilon_in_all() -> None:
    result = mean(AGES, **ONCE, bounds=LearnBounds(share=0.2))
    assert result.bounds == (16.0, 128.0)
    assert abs(result.value - AGES.mean()) < 0.1
    assert result.guarantee.epsilon == 1.0
    spent = PldAccountant(unit=Unit.user()).compose(result.event).epsilon(0)
    assert 1 - 1e-9 < spent <= 1.0
    learning, release = result.event.event.events
    assert PldAccountant().compose(learning).epsilon(0) == pytest.approx(0.2)
    assert PldAccountant().compose(release).epsilon(0) == pytest.approx(0.8)


@pytest.mark.parametrize("statistic", [sum_, variance, std])
def test_other_statistics(statistic: Any) -> None:
    learned, public = (statistic(AGES, **ONCE, bounds=bounds) for bounds in (LearnBounds(), (16, 128)))
    assert learned.value == pytest.approx(public.value, rel=0.01)
    assert (learned.bounds, public.bounds) == ((16.0, 128.0), None)
    assert describe(AGES, **ONCE, bounds=LearnBounds())["std"].bounds == (16.0, 128.0)


def test_groups_share_the_bounds_and_private_groups_still_need_delta() -> None:
    groups = AGES % 2
    result = mean(AGES, **ONCE, bounds=LearnBounds(), groups=groups, delta=1e-6)
    assert result.keys == (0, 1)
    assert result[0].bounds == (16.0, 128.0)
    assert PldAccountant(unit=Unit.user()).compose(result.event).epsilon(1e-6) <= 1.0
    with pytest.raises(InvalidArgument, match="delta=0"):
        mean(AGES, **ONCE, bounds=LearnBounds(), groups=groups)


def test_bounds_that_are_lost_in_noise_give_no_values_and_cost_the_same() -> None:
    # False alarms: 123 empty bins stay below the loosest limit with probability 1 - 1e-6.
    result = mean([1e6], units=[1], epsilon=1.0, bounds=LearnBounds(), source=TestSource(1))
    assert np.isnan(result.value)
    assert np.isnan(result.parts["count"].value)
    assert (result.low, result.high) == (-math.inf, math.inf)
    assert np.isnan(result.bounds[0])
    assert result.event.event == mean(AGES, **ONCE, bounds=LearnBounds()).event.event


def test_the_budget_is_charged_once_for_both(tmp_path: Path) -> None:
    budget = Ledger(f"sqlite:///{tmp_path}/l.db").budget("ages", epsilon=1, delta=1e-6, unit="user")
    arguments = {**ONCE, "epsilon": 0.75, "source": None}
    mean(AGES, **arguments, bounds=LearnBounds(), budget=budget)
    assert budget.spent == pytest.approx(0.75, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        mean(AGES, **arguments, bounds=LearnBounds(), budget=budget)


UNITS, GROUPS = np.array([7] * 12 + list(range(100, 200))), np.array([*range(12), *([0] * 100)])


def rows_that_one_unit_adds(resolve: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many rows of unit 7 are in the histogram: it has 12, in 12 groups, and may have 2 in each of 3."""
    sizes: list[int] = []

    def counted(rows: Any, plan: Any, source: Any) -> Any:
        sizes.append(len(rows))
        return np.array([[0.0, 1.0]])

    monkeypatch.setattr(learned_bounds_module, "learned_bounds", counted)
    for present in (UNITS != 0, UNITS != 7):
        request = checked_request(
            np.ones(present.sum()), UNITS[present], 2, 1.0, 1e-6, GROUPS[present], None, 3, None, None, 0.95,
            TestSource(1),
        )  # fmt: skip
        resolve(request, np.ones(present.sum()), LearnBounds())
    return sizes[0] - sizes[1]


def test_a_unit_adds_no_more_rows_than_the_noise_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_that_one_unit_adds(resolve_bounds, monkeypatch) == 2

    def broken(request: Any, numbers: Any, bounds: Any) -> Any:  # bounds rows in each group
        rows = request.bound(~np.isnan(numbers)).rows
        return learned_bounds_module.learned_bounds(numbers[rows], None, None)

    assert rows_that_one_unit_adds(broken, monkeypatch) == 3


@pytest.mark.parametrize("share", [0.0, 1.0, math.nan])
def test_shares_that_leave_nothing(share: float) -> None:
    with pytest.raises(InvalidArgument, match="share"):
        LearnBounds(share=share)


def test_bounds_of_totals_are_not_learned() -> None:
    with pytest.raises(InvalidArgument):
        sum_(AGES, **ONCE, total_bounds=LearnBounds())  # type: ignore[arg-type]


def test_without_bounds_a_message_says_how_to_learn_them() -> None:
    with pytest.raises(InvalidArgument, match=r"bounds=None: expected a public range .* pass LearnBounds\(\)"):
        mean(AGES, **ONCE, bounds=None)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match=r"bounds=None: expected either bounds .* pass bounds=LearnBounds\(\)"):
        sum_(AGES, **ONCE)
