"""Queries about rows: values clamped to [0, 1], exact means, and failures that stay with their row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hush.errors import InvalidArgument
from hush.stability.row_queries import checked_length, mean_of, row_values, safe_row_values


@given(st.lists(st.one_of(st.floats(), st.none(), st.text(max_size=2), st.booleans()), min_size=1, max_size=8))
def test_every_answer_is_a_number_or_nan_and_counts_within_its_row(answers: list[Any]) -> None:
    values = row_values(lambda: answers, ())
    assert values.shape == (len(answers),)
    assert 0 <= mean_of(values, len(answers)) <= 1


@given(st.lists(st.floats(0, 1), min_size=1, max_size=50))
def test_a_mean_is_that_of_values_rounded_down(values: list[float]) -> None:
    mean = mean_of(np.array(values), len(values))
    assert mean <= math.fsum(values) / len(values) + 1e-15
    assert mean > math.fsum(values) / len(values) - 2.0**-29


def test_a_failing_query_is_zero_for_the_rows_that_fail() -> None:
    def reciprocal(column: list[int]) -> list[float]:
        return [1 / value for value in column]

    assert safe_row_values(reciprocal, ([1, 0, 2],), 3).tolist() == [1.0, 0.0, 0.5]


def test_columns_have_one_length() -> None:
    assert checked_length("holdout", ([1, 2], [3, 4])) == 2
    for columns in ((), ([],), ([1], [1, 2])):
        with pytest.raises(InvalidArgument, match="equal length"):
            checked_length("holdout", columns)
