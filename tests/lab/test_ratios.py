"""Confidence bounds on a ratio of probabilities: reference values, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hush.errors import InvalidArgument
from hush.lab.ratios import adjusted_log, bailey, inverse_sinh, katz


def test_ratio_bounds_are_those_of_asbio() -> None:
    counts = 473, 473 + 511, 755, 755 + 950
    assert katz(*counts, significance=0.05) == pytest.approx(1.01166194, abs=5e-9)
    assert adjusted_log(*counts, significance=0.05) == pytest.approx(1.01189079, abs=5e-9)
    assert bailey(*counts, significance=0.05) == pytest.approx(1.01148934, abs=5e-9)
    assert inverse_sinh(*counts, significance=0.05) == pytest.approx(1.01167669, abs=5e-9)


@pytest.mark.parametrize(
    "call",
    [lambda: katz(1, 2, 0, 2, significance=0.05), lambda: bailey(3, 2, 1, 2, significance=0.05)],
)
def test_impossible_counts_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidArgument):
        call()
