"""How many different values there are, if each user may bring only so many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.statistics.bounding import bounded, sorted_order
from hush.statistics.columns import MISSING, codes_of
from hush.statistics.question import Question


def distinct_totals(asked: Question, values: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the number of different values of each group, and its number of units, of what is kept."""
    codes, num_values = codes_of("values", values)
    units, groups, codes = _different(asked, codes, max(num_values, 1))
    kept = bounded(
        units,
        groups,
        asked.num_groups,
        rows_per_unit=asked.limits.rows_per_unit,
        groups_per_unit=asked.groups_per_unit,
        source=asked.source,
    )
    sizes = np.diff(kept.starts, append=len(kept.rows))
    found = np.unique(np.repeat(kept.groups, sizes) * max(num_values, 1) + codes[kept.rows])
    totals = np.bincount(found // max(num_values, 1), minlength=asked.num_groups).astype(np.int64)
    return totals[:, None], kept.num_users()


def _different(asked: Question, codes: Any, num_values: int) -> tuple[Any, Any, Any]:
    """Return each user's different values in each group once: a value twice must not crowd out another one."""
    present = (asked.units >= 0) & (asked.groups >= 0) & (codes != MISSING)
    units, groups, codes = asked.units[present], asked.groups[present], codes[present]
    order, pairs = sorted_order(units * asked.num_groups + groups)
    runs = np.cumsum(np.diff(pairs, prepend=pairs[:1]) != 0)  # small numbers, for which a product has room
    order_in_runs, triples = sorted_order(runs * num_values + codes[order])
    first = np.concatenate([[True], triples[1:] != triples[:-1]])[: len(triples)]
    once = order[order_in_runs[first]]
    return units[once], groups[once], codes[once]
