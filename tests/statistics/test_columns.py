"""Columns as numbers and codes: row by row, whatever the other rows hold."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from hush.errors import InvalidArgument
from hush.statistics.columns import as_floats, check_keys, codes_of, is_present, key_codes, labels_of, length_of


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


def test_numbers_of_any_type_and_nothing_else() -> None:
    column = [1, 2.5, True, Fraction(1, 4), Decimal("0.5"), 10**400, -(10**400), Decimal("sNaN"), "1", None, 1j, [1]]
    numbers = as_floats("values", column)
    assert numbers[:7].tolist() == [1.0, 2.5, 1.0, 0.25, 0.5, math.inf, -math.inf]
    assert np.isnan(numbers[7:]).all()
    with pytest.raises(InvalidArgument, match=r"^values\.dtype"):
        as_floats("values", np.array(["a"]))


def test_composite_labels_are_missing_and_ids_may_be_composite() -> None:
    column = [("a", 1), ("a", 1), ("a", [1]), Decimal(1)]
    assert codes_of("units", column)[0].tolist() == [0, 0, -1, 1]
    assert labels_of("groups", column)[0].tolist() == [-1, -1, -1, -1]
    deep: Any = "x"
    for _ in range(20):
        deep = (deep,)
    assert is_present([deep, ("x",)]).tolist() == [False, True]


def test_keys_far_apart_are_found_as_those_close_together() -> None:
    column = np.array([5, -(10**12), 10**12, 7])
    for keys in ([10**12, 5, -(10**12)], [7, 5]):
        expected = [keys.index(value) if value in keys else -1 for value in column.tolist()]
        assert key_codes("groups", column, keys).tolist() == expected
        assert key_codes("groups", column.tolist(), keys).tolist() == expected


@pytest.mark.parametrize("column", ["text", b"bytes", 5, np.zeros((2, 2)), np.ma.array([1], mask=[1]), {1}.__iter__()])
def test_what_is_no_column_is_refused(column: Any) -> None:
    with pytest.raises(InvalidArgument, match="^values="):
        length_of("values", column)


@pytest.mark.parametrize("keys", ["abc", 5, [], [None], [math.nan], [[1]], [1, 1.0], ["a", "a"]])
def test_keys_that_are_no_list_of_distinct_values_are_refused(keys: Any) -> None:
    with pytest.raises(InvalidArgument, match="Keys are public"):
        check_keys("keys", keys)
    assert check_keys("keys", np.array([2, 1])) == (2, 1)
