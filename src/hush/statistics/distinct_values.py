"""The number of distinct values in each group, if every unit may contribute only so many of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.statistics.bounding import bounded, sorted_order
from hush.statistics.columns import MISSING, Codes, codes_of
from hush.statistics.request import StatisticRequest


def distinct_totals(request: StatisticRequest, values: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of distinct values among the kept ones, and the number of units, of each group.

    Args:
        request: The request; its limit on rows is the number of distinct values per unit and group.
        values: The column whose values are counted.
    """
    codes, num_values = codes_of("values", values)
    num_values = max(num_values, 1)
    units, groups, codes = _without_repetitions(request, codes, num_values)
    contributions = bounded(units, groups, request.num_groups, limits=request.limits, source=request.source)
    # A value counts once per group, however many units have it: one more unit adds at most its own values.
    distinct = np.unique(contributions.row_groups * num_values + codes[contributions.rows])
    totals = np.bincount(distinct // num_values, minlength=request.num_groups).astype(np.int64)
    return totals[:, None], contributions.units_per_group()


def _without_repetitions(request: StatisticRequest, codes: Codes, num_values: int) -> tuple[Codes, Codes, Codes]:
    """Return units, groups and values of one row for each distinct (unit, group, value).

    Otherwise a value that a unit has twice could displace another one when rows are sampled.
    """
    present = (request.units >= 0) & (request.groups >= 0) & (codes != MISSING)
    units, groups, codes = request.units[present], request.groups[present], codes[present]
    order, pairs = sorted_order(units * request.num_groups + groups)
    # Number the pairs without gaps: their product with the number of values then fits into 64 bits.
    pair_numbers = np.cumsum(np.diff(pairs, prepend=pairs[:1]) != 0)
    order_of_triples, triples = sorted_order(pair_numbers * num_values + codes[order])
    is_first = np.concatenate([[True], triples[1:] != triples[:-1]])[: len(triples)]
    rows = order[order_of_triples[is_first]]
    return units[rows], groups[rows], codes[rows]
