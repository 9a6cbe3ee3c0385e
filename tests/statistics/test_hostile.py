"""No data raise, warn or decide how other rows are read."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.errors import HushError, InvalidArgument
from hush.guarantee import Relation, Unit
from hush.randomness import TestSource
from hush.statistics.columns import as_floats, codes_of, is_present, key_codes, labels_of

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
    "count": lambda values, **asked: hs.count(values, **asked),
    "distinct": lambda values, **asked: hs.distinct_count(values, **asked),
    "sum": lambda values, **asked: hs.sum(values, bounds=(0, 1), **asked),
    "total": lambda values, **asked: hs.sum(values, total_bounds=(-1e-150, 1), **asked),
    "mean": lambda values, **asked: hs.mean(values, bounds=(-1e199, 1e199), **asked),
    "describe": lambda values, **asked: hs.describe(values, bounds=(0, 1e-190), **asked)["std"],
    "quantiles": lambda values, **asked: hs.quantiles(values, [0, 0.5, 1], bounds=(-1e199, 1), **asked),
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
            <= hs.median([1] * rows, units=units, bounds=(0, 2), method=hs.ExponentialQuantile(), **EPSILON).value
            <= 2
        )


def test_a_text_among_numbers_changes_nothing_about_the_others() -> None:
    # NumPy would turn the whole list into texts: 1 and "1" would be one user, 1 and 1.0 two.
    for extra in ([], ["x"], [None], [(1, 2)]):
        codes, _ = codes_of("units", [1, 1.0, "1", True, *extra])
        assert codes[:4].tolist() == [0, 0, 1, 0]
    numbers = as_floats("values", ["1.5", 2, "x", 1.5])
    assert np.isnan(numbers[[0, 2]]).all()
    assert numbers[[1, 3]].tolist() == [2.0, 1.5]


def test_equal_labels_have_one_form_and_order_tells_nothing() -> None:
    east = timezone(timedelta(hours=1))
    one, same = datetime(2020, 1, 1, 12, tzinfo=UTC), datetime(2020, 1, 1, 13, tzinfo=east)
    for column in ([0.0, -0.0, one, same, 2, 2.0, True, 1], [1, True, 2.0, 2, same, one, -0.0, 0.0]):
        _, labels = labels_of("groups", column)
        assert [repr(label) for label in labels] == ["True", repr(one), "0.0", "2.0", "1", "2"]


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint64, np.float32, np.bool_, "U3", object])
def test_arrays_are_read_as_lists_are(dtype: Any) -> None:
    column = np.array([0, 1, 0, 3], dtype=dtype)
    by_list = codes_of("units", column.tolist())[0]
    by_array = codes_of("units", column)[0]
    assert (by_array[:, None] == by_array).tolist() == (by_list[:, None] == by_list).tolist()
    keys = column.tolist()[1:3]
    assert key_codes("groups", column, keys).tolist() == key_codes("groups", column.tolist(), keys).tolist()


def test_large_integers_and_times() -> None:
    assert codes_of("units", np.array([2**64 - 1, 0, 2**64 - 1], dtype=np.uint64))[0].tolist() == [1, 0, 1]
    assert codes_of("units", np.array([2**64 - 1, 2**64 - 2], dtype=np.uint64))[0].tolist() == [1, 0]
    assert codes_of("units", np.array([-(2**63), 2**63 - 1]))[0].tolist() == [0, 1]
    assert key_codes("groups", np.array([2**64 - 1, 5], dtype=np.uint64), [5, -1]).tolist() == [-1, 0]
    assert key_codes("groups", np.array([1, 2], dtype=np.uint8), [300, 2]).tolist() == [-1, 1]
    times = np.array(["2020-01-01", "NaT", "2020-01-01"], dtype="M8[ns]")
    assert is_present(times).tolist() == [True, False, True]
    assert codes_of("units", times)[0].tolist() == [0, -1, 0]
    assert labels_of("groups", times)[0].tolist() == [0, -1, 0]


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
        [1], units=[1], bounds=(0, 1), groups=[1], keys=[1], method=hs.ExponentialQuantile(), epsilon=1.0
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
    assert by_row.value == 2
    smooth = hs.median([1, 2, 3], units=[1, 2, 3], bounds=(0, 4), method=hs.SmoothQuantile(), epsilon=1.0)
    assert smooth.guarantee.relation is Relation.REPLACE
    test = hs.mean([1], units=[1], bounds=(0, 2), epsilon=1.0, source=TestSource(1))
    assert "test randomness" in test.guarantee.assumptions
