"""Bounded contributions: what one user can do to the totals of groups, whatever rows they have.

Each user keeps at most so many random rows in a group, then at most so many random groups. Which ones depends on the
user's own rows and on fresh randomness alone, so that a user who comes or goes changes nothing about the others:
their choices can be taken to be the same (the law of the rest is a mixture over them, and neighbours share it).

Totals are sums of integers: exact, in any order, even where they would wrap around.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource
from hush.statistics.columns import Codes


@dataclass(frozen=True, slots=True)
class Bounded:
    """Rows that are kept, sorted by (user, group).

    Attributes:
        rows: Places of the kept rows in the data.
        starts: Where, among the kept rows, each pair of user and group starts.
        groups: The group of each pair.
        num_groups: How many groups there are.
    """

    rows: Codes
    starts: Codes
    groups: Codes
    num_groups: int

    def num_users(self) -> NDArray[np.int64]:
        """Return how many users each group has."""
        return np.bincount(self.groups, minlength=self.num_groups).astype(np.int64)

    def totals(self, weights: NDArray[np.int64], limits: tuple[int, int] | None = None) -> NDArray[np.int64]:
        """Return the sum of integer weights in each group; one row of the result for each group.

        Args:
            weights: For every kept row a number, or several.
            limits: What a user's total in a group is clamped to. After it was summed: clamping rows instead would
                leave a user with many of them unbounded.
        """
        columns = weights if weights.ndim == 2 else weights[:, None]
        result = np.zeros((self.num_groups, columns.shape[1]), dtype=np.int64)
        if len(self.starts) == 0:
            return result
        per_pair = np.add.reduceat(columns, self.starts, axis=0)
        if limits is not None:
            per_pair = np.clip(per_pair, *limits)
        for column, values in zip(result.T, per_pair.T, strict=True):
            np.add.at(column, self.groups, np.ascontiguousarray(values))
        return result


def bounded(
    units: Codes,
    groups: Codes,
    num_groups: int,
    *,
    rows_per_unit: int | None,
    groups_per_unit: int,
    source: RandomSource,
) -> Bounded:
    """Keep at most ``rows_per_unit`` random rows of each user in each group (None: all), in ``groups_per_unit`` random groups.

    Args:
        units: A number for each row, -1 for none: such rows are left out.
        groups: A number below ``num_groups`` for each row, -1 for none.
        num_groups: How many groups there are.
        rows_per_unit: Rows to keep of a user in a group.
        groups_per_unit: Groups to keep of a user.
        source: Where the choices come from.
    """
    present = np.flatnonzero((units >= 0) & (groups >= 0))
    pairs = units[present] * num_groups + groups[present]
    order, sorted_pairs = sorted_order(pairs)
    starts = _starts(sorted_pairs)
    if rows_per_unit is not None:
        kept = _some(starts, len(order), rows_per_unit, source)
        order, sorted_pairs = order[kept], sorted_pairs[kept]
        starts = _starts(sorted_pairs)
    pair_users, pair_groups = np.divmod(sorted_pairs[starts], num_groups)
    if groups_per_unit < num_groups:
        chosen = _some(_starts(pair_users), len(pair_users), groups_per_unit, source)
        sizes = np.diff(starts, append=len(order))
        order = order[np.repeat(chosen, sizes)]
        starts, pair_groups = np.cumsum(sizes[chosen]) - sizes[chosen], pair_groups[chosen]
    return Bounded(present[order], starts, pair_groups, num_groups)


def sorted_order(keys: Codes) -> tuple[Codes, Codes]:
    """Return the stable order of keys >= 0, and the keys in it; in one fast sort where both fit into 64 bits."""
    bits = max(len(keys) - 1, 1).bit_length()
    if len(keys) and int(keys.max()).bit_length() + bits <= 63:
        both = np.sort((keys << bits) | np.arange(len(keys)))
        return both & ((1 << bits) - 1), both >> bits
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


def _starts(sorted_keys: Codes) -> Codes:
    """Return where each run of equal keys starts."""
    return np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]])[: len(sorted_keys)])


def _some(starts: Codes, total: int, most: int, source: RandomSource) -> NDArray[np.bool_]:
    """Choose at most ``most`` elements of each run, at random; all of a run that has no more."""
    keep = np.ones(total, dtype=np.bool_)
    sizes = np.diff(starts, append=total)
    full = sizes > most
    if not full.any():
        return keep
    affected = np.flatnonzero(np.repeat(full, sizes))
    runs = np.repeat(np.arange(np.count_nonzero(full)), sizes[full])
    order = _random_order(runs, source.words(len(affected)))
    first = np.cumsum(sizes[full]) - sizes[full]
    ranks = np.arange(len(affected)) - np.repeat(first, sizes[full])
    keep[affected[order]] = ranks < most
    return keep


def _random_order(runs: Codes, words: NDArray[np.uint64]) -> Codes:
    """Return the order by run, then by random word; as `numpy.lexsort`, mostly faster.

    Always by all 64 bits, whatever the size of the data: how ties are broken must tell nothing of others.
    """
    index_bits, run_bits = max(len(runs) - 1, 1).bit_length(), max(int(runs[-1]), 1).bit_length()
    free = 63 - index_bits - run_bits
    if free >= 16:
        high = (words >> np.uint64(64 - free)).astype(np.int64)
        packed = np.sort((runs << (free + index_bits)) | (high << index_bits) | np.arange(len(runs)))
        leading = packed >> index_bits
        if not (leading[1:] == leading[:-1]).any():  # the bits that were left out decide nothing
            return packed & ((1 << index_bits) - 1)
    return np.lexsort((words, runs))
