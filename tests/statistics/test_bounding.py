"""Bounded contributions on arrays: against a loop, and fair."""

from __future__ import annotations

import math
from collections import Counter
from unittest import mock

import numpy as np
import pytest

from hush.randomness import TestSource
from hush.statistics import ContributionLimits, bounding, one_row_per_unit
from hush.statistics.bounding import bounded, sorted_order


def test_kept_rows_and_groups_are_chosen_uniformly() -> None:
    units, groups = np.zeros(12, dtype=np.int64), np.repeat(np.arange(4), 3)
    source, limits = TestSource(1), ContributionLimits(rows_per_unit=2, groups_per_unit=1)
    rows: Counter[int] = Counter()
    for _ in range(6_000):
        contributions = bounded(units, groups, 4, limits=limits, source=source)
        rows.update(contributions.rows.tolist())
        assert len(contributions.rows) == 2
        assert len(set(groups[contributions.rows])) == 1
    # Each row is kept with probability 1/4 * 2/3. False alarms: P(|Binomial(6000, 1/6) - 1000| > 189) = 8e-11, of 12.
    assert all(abs(rows[row] - 1000) < 6 * math.sqrt(1000) for row in range(12))


def test_bounding_agrees_with_a_loop() -> None:
    rng = np.random.default_rng(3)
    units, groups = rng.integers(-1, 30, 2_000), rng.integers(-1, 7, 2_000)
    limits = ContributionLimits(rows_per_unit=3, groups_per_unit=2)
    contributions = bounded(units, groups, 7, limits=limits, source=TestSource(2))
    rows = contributions.rows
    weights = rng.integers(-(2**40), 2**40, len(rows))
    totals = np.zeros(7, dtype=np.int64)
    pairs = Counter(zip(units[rows].tolist(), groups[rows].tolist(), strict=True))
    for row, weight in zip(rows, weights, strict=True):
        totals[groups[row]] += weight
    assert totals.tolist() == contributions.totals(weights)[:, 0].tolist()
    assert contributions.row_groups.tolist() == groups[rows].tolist()
    assert contributions.units_per_group().tolist() == [
        len({unit for unit, group in pairs if group == number}) for number in range(7)
    ]
    full = Counter(zip(units.tolist(), groups.tolist(), strict=True))
    assert all(number == min(full[pair], 3) for pair, number in pairs.items())
    assert set(Counter(unit for unit, _ in pairs).values()) == {2}
    assert min(min(pair) for pair in pairs) >= 0


def test_sums_of_a_unit_are_clamped_after_they_are_formed() -> None:
    units, groups = np.array([0, 0, 0, 1]), np.array([0, 0, 1, 0])
    limits = ContributionLimits(groups_per_unit=2)
    everything = bounded(units, groups, 2, limits=limits, source=TestSource(1), sample_rows=False)
    weights = np.array([5, -4, 9, 2])[everything.rows]
    assert everything.totals(weights).tolist() == [[3], [9]]
    assert everything.totals(weights, (0, 2)).tolist() == [[3], [2]]  # 1 + 2, and 2
    assert everything.totals(np.column_stack([weights, -weights])).tolist() == [[3, -3], [9, -9]]


def test_no_rows_have_totals_of_zero() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    contributions = bounded(nothing, nothing, 3, limits=ContributionLimits(), source=TestSource(1))
    assert contributions.totals(nothing).tolist() == [[0], [0], [0]]
    assert contributions.units_per_group().tolist() == [0, 0, 0]


@pytest.mark.parametrize("largest", [1, 5, 1 << 40, (1 << 62) - 1])
def test_sorting_is_stable_whether_keys_are_small_or_large(largest: int) -> None:
    keys = np.random.default_rng(1).integers(0, 4, 1_000) * (largest // 4 if largest > 4 else 1)
    order, sorted_keys = sorted_order(keys)
    assert order.tolist() == np.argsort(keys, kind="stable").tolist()
    assert sorted_keys.tolist() == sorted(keys.tolist())


def test_a_choice_depends_on_the_units_own_rows_only() -> None:
    """The random words of a unit decide; with the same words, other units change nothing."""
    groups = np.arange(40) % 8
    limits = ContributionLimits(groups_per_unit=3)

    def groups_of_first(num_units: int) -> list[int]:
        units = np.repeat(np.arange(num_units), 40)
        with mock.patch.object(TestSource, "words", lambda source, count: np.arange(count, dtype=np.uint64) * 977 % 40):
            contributions = bounded(units, np.tile(groups, num_units), 8, limits=limits, source=TestSource(1))
        return sorted(contributions.groups[contributions.rows < 40].tolist()) if num_units else []

    assert groups_of_first(1) == groups_of_first(2) == groups_of_first(50)


def test_ties_of_leading_bits_are_broken_by_all_bits() -> None:
    runs = np.zeros(3, dtype=np.int64)
    words = np.array([3, 1, 2], dtype=np.uint64)  # they differ in their last bits only
    assert bounding._random_order(runs, words).tolist() == [1, 2, 0]
    assert bounding._random_order(runs, words << np.uint64(60)).tolist() == [1, 2, 0]


def test_one_row_of_each_unit_whatever_other_units_there_are() -> None:
    rng = np.random.default_rng(1)
    units = rng.integers(0, 40, 1000)
    picks = (units * 7919 + 13) % 101  # any function of the unit
    chosen = one_row_per_unit(units, picks)
    assert sorted(units[chosen].tolist()) == sorted(set(units.tolist()))
    without = units != 5
    np.testing.assert_array_equal(one_row_per_unit(units[without], picks[without]), chosen[without])
    assert not one_row_per_unit(units[:0], picks[:0]).any()
    units[:100] = -1  # rows without a unit
    assert not one_row_per_unit(units, picks)[:100].any()
