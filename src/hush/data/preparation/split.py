"""Secret coins, one set per unit, decide which units are held out and which row each unit contributes to learning.

A unit's coins depend on the key and on its id (or on the number of the row, if each row is a unit), and on no other
data. All rows of a unit are on one side, so whatever is done with the two sides composes in parallel.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.table import RowTable
from hush.errors import InvalidArgument, check_fraction
from hush.randomness import KeyedSource
from hush.statistics import one_row_per_unit

_COIN_BITS = 60  # of the hashes that `RowTable.hashes` returns


@dataclass(frozen=True, eq=False, slots=True)
class UnitSplit:
    """The unit of each row, and whether it is held out.

    Attributes:
        units: A number for each row's unit, -1 for rows without one; None if each row is a unit.
        train: The rows to learn and train from.
        test: The rows that are held out.
        learning: The rows to learn a schema from: one row of each unit in ``train``, and no other.
    """

    units: NDArray[np.int64] | None
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    learning: NDArray[np.bool_]

    def count(self, rows: NDArray[np.bool_]) -> int:
        """Return how many units some rows have."""
        return int(rows.sum()) if self.units is None else len(np.unique(self.units[rows]))


def subkey(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose, independent of the keys for other purposes.

    Args:
        key: 32 secret bytes.
        purpose: Any text.
    """
    if not isinstance(key, bytes):  # a message must not show it
        raise InvalidArgument("key", type(key).__name__, "32 secret bytes")
    if len(key) != 32:
        raise InvalidArgument("key", f"{len(key)} bytes", "32 secret bytes")
    return hashlib.blake2b(f"hush data {purpose}".encode(), key=key, digest_size=32).digest()


def check_holdout(holdout: float) -> float:
    """Return the share of units to hold out, if it leaves any to train from."""
    if not check_fraction("holdout", holdout) < 1:
        raise InvalidArgument("holdout", holdout, "a number in [0, 1)", "With 1 there is nothing to train from")
    return float(holdout)


def split_rows(num_rows: int, holdout: float, key: bytes) -> UnitSplit:
    """Split rows of which each is its own unit.

    Args:
        num_rows: The number of rows.
        holdout: The share of rows to hold out, in expectation.
        key: 32 secret bytes.
    """
    # Row i gets word i of the stream, whatever the number of rows.
    coins = KeyedSource(subkey(key, "hold-out"), 0).words(num_rows)
    test = coins < np.uint64(int(holdout * 2.0**64))
    return UnitSplit(None, ~test, test, ~test)


def split_units(table: RowTable, unit: str, holdout: float, key: bytes) -> UnitSplit:
    """Split rows by the units that a column names. Rows without a unit are on neither side.

    Args:
        table: The rows.
        unit: The column with the ids.
        holdout: The share of units to hold out, in expectation.
        key: 32 secret bytes.
    """
    # Three independent hashes of the id: a pseudonym, the coin of the side, and the pick of the row it learns with.
    names, coins, picks = table.hashes(unit, subkey(key, "units"))
    has_unit = names >= 0
    test = has_unit & (coins < int(holdout * 2.0**_COIN_BITS))
    train = has_unit & ~test
    learning = one_row_per_unit(names, picks) & train
    # Small numbers in place of the hashes, which would be pseudonyms that outlive this run.
    numbers = np.unique(names, return_inverse=True)[1] - int(not has_unit.all())
    return UnitSplit(np.where(has_unit, numbers, -1).astype(np.int64), train, test, learning)
