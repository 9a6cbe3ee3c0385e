"""Bounded contributions on arrays: limits what one unit can add to the totals of groups, whatever its rows are.

The flow, with one row per line of the data at first:

rows     each row's unit and group, as codes; rows without either are dropped
sampled  at most ``rows_per_unit`` random rows of each (unit, group) pair
pairs    one entry for each (unit, group) pair, in at most ``groups_per_unit`` random groups per unit
totals   one row per group: sums over the pairs

Which rows and groups of a unit are kept depends on the unit's own rows and on fresh randomness only. So adding or
removing a unit changes nothing about the others: the choices made for them can be taken to be the same. (The output is
a mixture over these choices, and neighbouring datasets share the mixture's weights.)

Totals are sums of integers. They are exact in any order, even if they wrap around.

`one_row_per_unit` is the same for callers whose randomness belongs to the units, such as a keyed hash of their ids:
`hush.data` learns with one row per unit, and gets the same one whatever other units there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.randomness import RandomSource
from hush.statistics.columns import Codes
from hush.statistics.limits import ContributionLimits

_MIN_RANDOM_BITS = 16  # below that, ties are too frequent for the fast sort to pay


@dataclass(frozen=True, slots=True)
class Bounded:
    """The rows that are kept, sorted by (unit, group).

    Attributes:
        rows: The indices of the kept rows in the data.
        starts: Where, among the kept rows, each (unit, group) pair starts.
        groups: The group of each pair.
        num_groups: The number of groups.
    """

    rows: Codes
    starts: Codes
    groups: Codes
    num_groups: int

    @property
    def row_groups(self) -> Codes:
        """The group of each kept row."""
        return np.repeat(self.groups, np.diff(self.starts, append=len(self.rows)))

    def units_per_group(self) -> NDArray[np.int64]:
        """Return the number of units in each group."""
        return np.bincount(self.groups, minlength=self.num_groups).astype(np.int64)

    def totals(self, weights: NDArray[np.int64], limits: tuple[int, int] | None = None) -> NDArray[np.int64]:
        """Return the sums of integer weights, with one row per group.

        Args:
            weights: One number, or several, for every kept row.
            limits: The range that a unit's sum in a group is clamped to. It is clamped *after* summing: clamping rows
                would leave a unit with many rows unbounded.
        """
        columns = weights if weights.ndim == 2 else weights[:, None]
        result = np.zeros((self.num_groups, columns.shape[1]), dtype=np.int64)
        if len(self.starts) == 0:
            return result
        pair_sums = np.add.reduceat(columns, self.starts, axis=0)  # rows of a pair lie side by side
        if limits is not None:
            pair_sums = np.clip(pair_sums, *limits)
        for column, sums in zip(result.T, pair_sums.T, strict=True):
            np.add.at(column, self.groups, np.ascontiguousarray(sums))
        return result


def bounded(
    units: Codes,
    groups: Codes,
    num_groups: int,
    *,
    limits: ContributionLimits,
    source: RandomSource,
    sample_rows: bool = True,
) -> Bounded:
    """Bound the contribution of every unit.

    Keep at most ``limits.rows_per_unit`` random rows of each unit in each group, then at most
    ``limits.groups_per_unit`` random groups of each unit.

    Args:
        units: The code of each row's unit; -1 for rows to leave out.
        groups: The code of each row's group, below ``num_groups``; -1 for rows to leave out.
        num_groups: The number of groups.
        limits: The contribution bounds.
        source: The source of the random choices.
        sample_rows: Whether to sample rows. If not, all rows of a pair are kept, and the caller must clamp its sums.
    """
    present = np.flatnonzero((units >= 0) & (groups >= 0))
    pairs = units[present] * num_groups + groups[present]  # sorting by them sorts by unit, then by group
    order, sorted_pairs = sorted_order(pairs)
    starts = _run_starts(sorted_pairs)
    if sample_rows:
        sampled = _sample_runs(starts, len(order), limits.rows_per_unit, source)
        order, sorted_pairs = order[sampled], sorted_pairs[sampled]
        starts = _run_starts(sorted_pairs)
    pair_units, pair_groups = np.divmod(sorted_pairs[starts], num_groups)
    if limits.groups_per_unit < num_groups:
        chosen = _sample_runs(_run_starts(pair_units), len(pair_units), limits.groups_per_unit, source)
        sizes = np.diff(starts, append=len(order))  # rows of each pair: a pair is kept or dropped as a whole
        order = order[np.repeat(chosen, sizes)]
        starts, pair_groups = np.cumsum(sizes[chosen]) - sizes[chosen], pair_groups[chosen]
    return Bounded(present[order], starts, pair_groups, num_groups)


def one_row_per_unit(units: Codes, picks: Codes) -> NDArray[np.bool_]:
    """Return a mask with one row of each unit: row number (pick modulo its number of rows), among its own.

    Rows of other units change nothing.

    >>> one_row_per_unit(np.array([7, 5, 7, -1, 7]), np.array([4, 9, 4, 0, 4])).tolist()
    [False, True, True, False, False]

    Args:
        units: The code of each row's unit; -1 for rows to leave out.
        picks: A random number for each row, the same for all rows of a unit.
    """
    present = np.flatnonzero(units >= 0)
    order, sorted_units = sorted_order(units[present])
    starts = _run_starts(sorted_units)
    sizes = np.diff(starts, append=len(order))
    chosen = np.zeros(len(units), dtype=np.bool_)
    rows = present[order]  # sorted by unit; those of a unit keep their order
    chosen[rows[starts + picks[rows[starts]] % sizes]] = True
    return chosen


def sorted_order(keys: Codes) -> tuple[Codes, Codes]:
    """Return the stable order of non-negative keys, and the keys in that order.

    If a key and its index fit into 63 bits together, one sort of packed integers does it, several times faster than an
    argsort.
    """
    index_bits = max(len(keys) - 1, 1).bit_length()
    if len(keys) and int(keys.max()).bit_length() + index_bits <= 63:
        packed = np.sort((keys << index_bits) | np.arange(len(keys)))
        return packed & ((1 << index_bits) - 1), packed >> index_bits
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


def _run_starts(sorted_keys: Codes) -> Codes:
    """Return where each run of equal keys starts."""
    return np.flatnonzero(np.concatenate([[True], sorted_keys[1:] != sorted_keys[:-1]])[: len(sorted_keys)])


def _sample_runs(starts: Codes, length: int, largest: int, source: RandomSource) -> NDArray[np.bool_]:
    """Return a mask that keeps ``largest`` random elements of each run, or all of a shorter run.

    Args:
        starts: Where each run starts.
        length: The number of elements of all runs.
        largest: How many elements of a run to keep.
        source: The source of the choice.
    """
    mask = np.ones(length, dtype=np.bool_)
    sizes = np.diff(starts, append=length)
    is_long = sizes > largest
    if not is_long.any():
        return mask
    # Shuffle each long run: sort its elements by random words, and keep the first ones.
    elements = np.flatnonzero(np.repeat(is_long, sizes))
    runs = np.repeat(np.arange(np.count_nonzero(is_long)), sizes[is_long])
    order = _random_order(runs, source.words(len(elements)))
    run_starts = np.cumsum(sizes[is_long]) - sizes[is_long]
    ranks = np.arange(len(elements)) - np.repeat(run_starts, sizes[is_long])
    mask[elements[order]] = ranks < largest
    return mask


def _random_order(runs: Codes, words: NDArray[np.uint64]) -> Codes:
    """Return the order by run, then by random word, as `numpy.lexsort` does; mostly faster.

    All 64 bits of the words decide, whatever the size of the data. If only some did, ties would be broken by position,
    and how often they occur would depend on other units.
    """
    index_bits, run_bits = max(len(runs) - 1, 1).bit_length(), max(int(runs[-1]), 1).bit_length()
    random_bits = 63 - index_bits - run_bits
    if random_bits >= _MIN_RANDOM_BITS:
        leading_bits = (words >> np.uint64(64 - random_bits)).astype(np.int64)
        packed = np.sort((runs << (random_bits + index_bits)) | (leading_bits << index_bits) | np.arange(len(runs)))
        sorted_keys = packed >> index_bits
        if not (sorted_keys[1:] == sorted_keys[:-1]).any():  # no ties, so the remaining bits decide nothing
            return packed & ((1 << index_bits) - 1)
    return np.lexsort((words, runs))
