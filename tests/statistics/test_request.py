"""Requests: what is refused, what is stated, and that no value in the data raises or warns."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource
from hush.statistics.request import checked_request

KEYS = ["a", 1, 2.5]
ODD_NUMBERS: list[Any] = [
    None, math.nan, math.inf, -math.inf, 10**400, Fraction(1, 3), Decimal("sNaN"), Decimal("1e9999"), "5", b"5", [1],
    {}, {1: 2}, True, np.float32(2), np.int8(-1), 1 + 2j, object(), (1, 2), 5e-324, -0.0, np.array([1]),
]  # fmt: skip
ODD_IDS: list[Any] = [
    None, math.nan, 0, "0", 0.0, -0.0, True, [1], {}, {"a"}, ("t", 1), ("t", [1]), Decimal("NaN"), Decimal("sNaN"),
    10**30, b"0", object(), np.int64(3), np.str_("0"), "", datetime(2020, 1, 1), datetime.max.replace(tzinfo=UTC),
    float("inf"),
]  # fmt: skip
EPSILON = {"epsilon": 1.0}


class Bad:
    """Raises whatever is done with it."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __hash__(self) -> int:
        raise RuntimeError

    def __float__(self) -> float:
        raise RuntimeError


ALL = {
    "count": lambda values, **settings: hs.count(values, **settings),
    "distinct": lambda values, **settings: hs.distinct_count(values, **settings),
    "sum": lambda values, **settings: hs.sum(values, bounds=(0, 1), **settings),
    "total": lambda values, **settings: hs.sum(values, total_bounds=(-1e-150, 1), **settings),
    "mean": lambda values, **settings: hs.mean(values, bounds=(-1e199, 1e199), **settings),
    "describe": lambda values, **settings: hs.describe(values, bounds=(0, 1e-190), **settings)["std"],
    "quantiles": lambda values, **settings: hs.quantiles(values, [0, 0.5, 1], bounds=(-1e199, 1), **settings),
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("groups", ["none", "public", "private"])
def test_odd_rows_are_left_out_or_clamped(name: str, groups: str) -> None:
    values = [*ODD_NUMBERS, Bad(), *ODD_NUMBERS]
    units = [ODD_IDS[place % len(ODD_IDS)] for place in range(len(values) - 1)] + [Bad()]
    labels = [ODD_IDS[(3 * place) % len(ODD_IDS)] for place in range(len(values) - 1)] + [Bad()]
    grouping = {
        "none": {},
        "public": {"groups": labels, "keys": KEYS, "groups_per_unit": 2},
        "private": {"groups": labels, "delta": 1e-3, "groups_per_unit": 2},
    }
    result = ALL[name](values, units=units, **EPSILON, **grouping[groups], source=TestSource(1))
    assert np.isfinite(np.asarray(result.value, dtype=np.float64)).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(name: str, rows: int) -> None:
    for grouping in ({}, {"groups": ["a"] * rows, "keys": ["a", "b"]}, {"groups": ["a"] * rows, "delta": 1e-6}):
        result = ALL[name]([0.5] * rows, units=[7] * rows, **EPSILON, **grouping, source=TestSource(2))
        assert np.isfinite(np.asarray(result.value, dtype=np.float64)).all()
    arrays = ALL[name](np.zeros(rows), units=np.arange(rows), **EPSILON, source=TestSource(2))
    assert np.isfinite(np.asarray(arrays.value, dtype=np.float64)).all()


def test_few_rows_elsewhere() -> None:
    for rows in (0, 1):
        units, source = [1] * rows, TestSource(3)
        assert hs.histogram([math.nan] * rows, [0, 1], units=units, **EPSILON, source=source).value.shape == (1,)
        assert hs.contingency_table([["a"] * rows], [["a"]], units=units, **EPSILON, source=source).value.shape == (1,)
        assert len(hs.top_k(["a"] * rows, 1, units=units, keys=["a", "b"], **EPSILON, source=source).keys) == 1
        bad = [[1.0, Bad()]] * rows
        assert hs.vector_mean(bad, units=units, dimension=2, clip_norm=1, **EPSILON, source=source).value.shape == (2,)
        mean = hs.covariance(np.full((rows, 2), np.inf), units=units, dimension=2, clip_norm=1e-90, **EPSILON)
        assert np.isfinite(mean.value).all()
        assert hs.approximate_bounds([math.inf] * rows, units=units, **EPSILON, source=source).bounds is None
        assert (
            0
            <= hs.median([1] * rows, units=units, bounds=(0, 2), method=hs.MedianMethod.exponential(), **EPSILON).value
            <= 2
        )


def test_rows_without_an_id_are_left_out() -> None:
    result = hs.count([1] * 5, units=[None, math.nan, 1, 2, [3]], epsilon=60.0, source=TestSource(1))
    assert result.value == 2


REFUSED: dict[str, Any] = {
    "no users": lambda: hs.count([1], units=None, epsilon=1.0),
    "reversed bounds": lambda: hs.mean([1], units=[1], bounds=(1, 0), epsilon=1.0),
    "equal bounds": lambda: hs.mean([1], units=[1], bounds=(1, 1), epsilon=1.0),
    "NaN bounds": lambda: hs.sum([1], units=[1], bounds=(math.nan, 1), epsilon=1.0),
    "two sorts of bounds": lambda: hs.sum([1], units=[1], bounds=(0, 1), total_bounds=(0, 1), epsilon=1.0),
    "no epsilon": lambda: hs.count([1], units=[1], epsilon=math.nan),
    "tiny epsilon": lambda: hs.mean([1], units=[1], bounds=(0, 1), epsilon=1e-30),
    "Gaussian without delta": lambda: hs.count([1], units=[1], epsilon=1.0, noise=hs.GaussianNoise()),
    "private groups without delta": lambda: hs.count([1], units=[1], groups=["a"], epsilon=1.0),
    "lengths": lambda: hs.count([1, 2], units=[1], epsilon=1.0),
    "group lengths": lambda: hs.count([1, 2], units=[1, 2], groups=[1], keys=[1], epsilon=1.0),
    "texts as numbers": lambda: hs.mean(np.array(["a"]), units=[1], bounds=(0, 1), epsilon=1.0),
    "a matrix": lambda: hs.mean(np.zeros((2, 2)), units=[1, 2], bounds=(0, 1), epsilon=1.0),
    "a masked array": lambda: hs.count(np.ma.array([1], mask=[1]), units=[1], epsilon=1.0),
    "a flag for noise": lambda: hs.count([1], units=[1], epsilon=1.0, noise="laplace"),
    "no rows of a user": lambda: hs.count([1], units=[1], epsilon=1.0, rows_per_unit=0),
    "rows of a row": lambda: hs.count([1], units=hs.EachRow(), epsilon=1.0, rows_per_unit=2),
    "keys twice": lambda: hs.count([1], units=[1], groups=[1], keys=[1, 1.0], epsilon=1.0),
    "keys without groups": lambda: hs.count([1], units=[1], keys=[1], epsilon=1.0),
    "edges": lambda: hs.histogram([1], [1, 1], units=[1], epsilon=1.0),
    "level": lambda: hs.quantiles([1], [1.5], units=[1], bounds=(0, 1), epsilon=1.0),
    "shape": lambda: hs.vector_mean(np.zeros((1, 3)), units=[1], dimension=2, clip_norm=1.0, epsilon=1.0),
    "groups of a choice": lambda: hs.median(
        [1], units=[1], bounds=(0, 1), groups=[1], keys=[1], method=hs.MedianMethod.exponential(), epsilon=1.0
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_requests_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(HushError):
        REFUSED[name]()


def test_messages_tell_no_counts() -> None:
    with pytest.raises(InvalidArgument) as caught:
        hs.count(list(range(123)), units=list(range(77)), epsilon=1.0)
    assert "123" not in str(caught.value)
    assert "77" not in str(caught.value)


def test_units_and_assumptions_are_stated() -> None:
    by_user = hs.count([1], units=[1], epsilon=1.0)
    assert by_user.guarantee.unit == Unit.user()
    assert any("one id" in sentence for sentence in by_user.guarantee.assumptions)
    by_row = hs.count([1, 1], units=hs.EachRow(), epsilon=60.0)
    assert by_row.guarantee.unit == Unit.example()
    assert by_row.value == 2  # false alarms: noise is not 0 with 2 e^-60
    smooth = hs.median([1, 2, 3], units=[1, 2, 3], bounds=(0, 4), method=hs.MedianMethod.smooth(), epsilon=1.0)
    assert smooth.guarantee.relation is Relation.REPLACE
    test = hs.mean([1], units=[1], bounds=(0, 2), epsilon=1.0, source=TestSource(1))
    assert "test randomness" in test.guarantee.assumptions


def request(**settings: Any) -> Any:
    defaults = {"units": [1, 2, 3], "rows_per_unit": 1, "epsilon": 1.0, "delta": 1e-6, "groups": None, "keys": None}
    more = {"groups_per_unit": 5, "noise": None, "selection": None, "confidence": 0.95, "source": TestSource(1)}
    return checked_request([1, 2, 3], **{**defaults, **more, **settings})


def test_a_unit_can_be_in_as_many_groups_as_are_public() -> None:
    assert request().groups_per_unit == 1
    assert request(groups=["a", "b", "a"], keys=["a", "b"]).groups_per_unit == 2
    assert request(groups=["a", "b", "a"]).groups_per_unit == 5  # how many there are is private
    assert request(groups=[None] * 3).num_groups == 1


def test_steps_shrink_before_noise_outgrows_64_bits() -> None:
    assert request().steps() == 1 << 30
    large = request(rows_per_unit=10**6, epsilon=1e-3)
    assert large.steps() < 1 << 16
    assert large.steps(shares=1e9) == 1 << 4
    plan = large.plan((hs.Block.disjoint(10**6 * large.steps()),))
    assert plan.noise.block_scales[0] <= 2.0**50


def test_rows_that_are_not_present_count_nowhere() -> None:
    counted = request(groups=["a", "b", "b"], keys=["a", "b"])
    assert counted.bound(np.array([True, False, True])).units_per_group().tolist() == [1, 1]
    assert counted.bound().units_per_group().tolist() == [1, 2]


def test_blocks_of_an_answer_are_its_columns() -> None:
    blocks = (hs.Block.disjoint(1, whole=True), hs.Block.disjoint(7, columns=2))
    answer = request().answer(np.array([[10**9, 2 * 10**9, 3 * 10**9]]), np.array([3]), blocks)
    assert answer.block(1).totals.tolist() == answer.totals[:, 1:].tolist()
    assert answer.block(1).plan.block_scales == answer.plan.block_scales[1:]
    assert answer.block(0).event == answer.event  # the cost remains that of all blocks
