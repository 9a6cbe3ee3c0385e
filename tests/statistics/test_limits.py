"""Contribution bounds: which values they take, and how many groups they allow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import hush.statistics as hs
from hush.errors import InvalidArgument
from hush.statistics import ContributionLimits
from hush.statistics.limits import MAX_GROUPS_PER_UNIT, MAX_ROWS_PER_UNIT


def test_defaults_and_plain_integers() -> None:
    assert repr(ContributionLimits()) == "ContributionLimits(groups_per_unit=1, rows_per_unit=1)"
    # Answers of a ledger are found by this text: it must not depend on the type of an integer.
    assert repr(ContributionLimits(groups_per_unit=np.int64(2))) == repr(ContributionLimits(groups_per_unit=2))


@pytest.mark.parametrize("name", ["groups_per_unit", "rows_per_unit"])
@pytest.mark.parametrize("limit", [0, -1, 1.5, 2.0, True, math.nan, "1", 10**9])
def test_limits_that_make_no_sense_are_refused(name: str, limit: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        ContributionLimits(**{name: limit})
    with pytest.raises(InvalidArgument, match=f"^{name}="):
        hs.count([1], units=[1], epsilon=1.0, **{name: limit})


def test_the_largest_limits_are_accepted() -> None:
    limits = ContributionLimits(groups_per_unit=MAX_GROUPS_PER_UNIT, rows_per_unit=MAX_ROWS_PER_UNIT)
    assert limits.groups_among(None) == MAX_GROUPS_PER_UNIT


def test_a_unit_is_in_no_more_groups_than_there_are() -> None:
    limits = ContributionLimits(groups_per_unit=5)
    assert [limits.groups_among(number) for number in (0, 1, 4, 5, 6, None)] == [1, 1, 4, 5, 5, 5]
