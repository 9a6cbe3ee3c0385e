"""Who is held out, and which row speaks for a unit: coins of each unit's own, from a secret key.

A coin depends on the key and on the unit's id, or on the number of the row where each row is a unit. It depends on no
other data, and all rows of a unit are on one side: what is done with the two sides composes in parallel.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hush.data.tables.table import RowTable
from hush.errors import InvalidArgument, check_fraction
from hush.randomness import KeyedSource

_BITS = 60


@dataclass(frozen=True, eq=False, slots=True)
class UnitSplit:
    """For each row: whose it is (None: its own), on which side, and whether it speaks for its unit there.

    Attributes:
        units: A number for each unit, -1 where none is given.
        train: Rows to learn and train from.
        test: Rows held out.
        speaks: One row of each unit in ``train``, and no other.
    """

    units: NDArray[np.int64] | None
    train: NDArray[np.bool_]
    test: NDArray[np.bool_]
    speaks: NDArray[np.bool_]


def subkey(key: bytes, purpose: str) -> bytes:
    """Return a key for one purpose, independent of those for others."""
    if not isinstance(key, bytes):  # a message must not show it
        raise InvalidArgument("key", type(key).__name__, "32 secret bytes")
    if len(key) != 32:
        raise InvalidArgument("key", f"{len(key)} bytes", "32 secret bytes")
    return hashlib.blake2b(f"hush data {purpose}".encode(), key=key, digest_size=32).digest()


def check_holdout(holdout: float) -> float:
    """Return the share that is held out, if it leaves something."""
    if not check_fraction("holdout", holdout) < 1:
        raise InvalidArgument("holdout", holdout, "a number in [0, 1)", "With 1 there is nothing to train from")
    return float(holdout)


def split_rows(num_rows: int, holdout: float, key: bytes) -> UnitSplit:
    """Split rows of which each is a unit."""
    coins = KeyedSource(subkey(key, "hold-out"), 0).words(num_rows)
    test = coins < np.uint64(int(holdout * 2.0**64))
    return UnitSplit(None, ~test, test, ~test)


def split_units(table: RowTable, unit: str, holdout: float, key: bytes) -> UnitSplit:
    """Split by the units that a column names; rows without one are on no side."""
    names, coins, picks = table.hashes(unit, subkey(key, "units"))
    given = names >= 0
    test = given & (coins < int(holdout * 2.0**_BITS))
    train = given & ~test
    speaks = one_row_each(names, picks) & train
    # Small numbers instead of hashes, which would be a pseudonym that outlives this run.
    units = np.where(given, np.unique(names, return_inverse=True)[1] - int(not given.all()), -1).astype(np.int64)
    return UnitSplit(units, train, test, speaks)


def one_row_each(units: NDArray[np.int64], picks: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Choose one row of each unit: its m-th, for m = pick modulo how many it has. Other units' rows decide nothing."""
    order = np.argsort(units, kind="stable")
    found, starts, counts = np.unique(units[order], return_index=True, return_counts=True)
    chosen = np.zeros(len(units), dtype=np.bool_)
    if len(found):
        chosen[order[starts + picks[order[starts]] % counts]] = True
    return chosen
