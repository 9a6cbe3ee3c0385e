"""How anonymised tables fail: linkage, homogeneity, side information, and two releases of one person.

Runnable demonstrations, on synthetic people (`synthetic_people`) or on a table of your own, given as columns:

- `smallest_group` is the k of k-anonymity; `Partition.into_groups_of` divides a table into groups of k people at least.
- `linkage_attack` joins a table without names to one with names (Sweeney 2002).
- `inference_attack` reads a sensitive value off the group that somebody must be in, with what is known beside it:
  homogeneity and background knowledge (Machanavajjhala et al. 2007), and a second release of the same person
  (Ganta, Kasiviswanathan & Smith 2008).

None of this needs to break anything: the tables keep the promise that they made. Compare `hush.table`, whose promise
holds whatever is known beside it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count

__all__ = [
    "Inference",
    "Linkage",
    "Partition",
    "inference_attack",
    "linkage_attack",
    "smallest_group",
    "synthetic_people",
]

Column = NDArray[Any]
Columns = Mapping[str, Column]

# How common each is, and at which age.
_DIAGNOSES = {
    "asthma": (1.0, 15),
    "fracture": (1.0, 25),
    "influenza": (2.0, 40),
    "diabetes": (1.0, 55),
    "cancer": (0.5, 65),
    "heart disease": (1.0, 75),
}
_YEARS = 8.0  # that ages of a diagnosis spread over
_POSTCODES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Rows of a table without names that belong to somebody with a name.

    Attributes:
        matches: For a person's number in the named table, the row's number in the other.
        num_people: How many names there were.
    """

    matches: Mapping[int, int]
    num_people: int

    @property
    def fraction(self) -> float:
        """How many of the people were found."""
        return len(self.matches) / self.num_people


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """What values a sensitive column can have for each of some people.

    Attributes:
        candidates: For each person, the values that are left; none if somebody is not in the table.
    """

    candidates: tuple[frozenset[Any], ...]

    @property
    def known(self) -> dict[int, Any]:
        """The people of whom one value is left, with it."""
        return {person: next(iter(left)) for person, left in enumerate(self.candidates) if len(left) == 1}

    @property
    def fraction(self) -> float:
        """Of how many people the value is known."""
        return len(self.known) / len(self.candidates)

    def together_with(self, other: Inference) -> Inference:
        """Return what is left by this and by another release about the same people, who are in both."""
        if len(self.candidates) != len(other.candidates):
            raise InvalidArgument("other", len(other.candidates), "an inference about the same people")
        pairs = zip(self.candidates, other.candidates, strict=True)
        return Inference(candidates=tuple(left & right for left, right in pairs))


def synthetic_people(count: int, generator: np.random.Generator) -> dict[str, Column]:
    """Return invented people: a postcode, a day of birth, a sex, and a diagnosis that is nobody's business.

    Args:
        count: How many.
        generator: Where they come from.
    """
    check_count("count", count)
    # Postcodes are unevenly inhabited, as real ones are.
    weights = 1 / np.arange(1, _POSTCODES + 1)
    birthdays = generator.integers(0, 80 * 365, size=count)
    return {
        "postcode": 10_000 + 137 * generator.choice(_POSTCODES, size=count, p=weights / weights.sum()),
        "birthday": birthdays,
        "sex": generator.integers(0, 2, size=count),
        "diagnosis": _diagnoses(80 - birthdays / 365, generator),
    }


def _diagnoses(ages: NDArray[np.float64], generator: np.random.Generator) -> Column:
    """Draw a diagnosis for each age: diseases have their ages, which is why similar people share them."""
    common, typical = np.array(list(_DIAGNOSES.values())).T
    weights = common * np.exp(-np.abs(ages[:, None] - typical) / _YEARS)
    limits = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    chosen = (generator.random((len(ages), 1)) > limits[:, :-1]).sum(axis=1)
    return np.asarray(np.array(list(_DIAGNOSES))[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A division of people into boxes of similar ones, as a table that is made k-anonymous publishes it.

    Attributes:
        on: The columns that boxes are made of.
        tree: A number, for a box; or a column's place, a limit, and what is on either side (equal goes left).
    """

    on: tuple[str, ...]
    tree: Any

    @classmethod
    def into_groups_of(cls, k: int, table: Columns, on: Sequence[str]) -> Partition:
        """Divide a table at medians, in each column in turn, as long as k rows are left on either side.

        >>> people = {"age": np.array([31, 34, 47, 52, 58])}
        >>> Partition.into_groups_of(2, people, ["age"]).groups(people).tolist()
        [0, 0, 0, 1, 1]

        References:
            LeFevre, DeWitt & Ramakrishnan (2006), Mondrian: strict partitioning.

        Args:
            k: The size of the smallest box.
            table: Who is divided.
            on: Numeric columns, in the order in which they are tried.
        """
        check_count("k", k)
        _require(table, on)
        return cls(on=tuple(on), tree=_divided(_values(table, on), k, 0, itertools.count()))

    def groups(self, table: Columns) -> Column:
        """Return the number of the box that each row of a table belongs to."""
        _require(table, self.on)
        values = _values(table, self.on)
        result = np.empty(len(values), dtype=np.int64)
        waiting = [(self.tree, np.arange(len(values)))]
        while waiting:
            node, rows = waiting.pop()
            if isinstance(node, int):
                result[rows] = node
            else:
                axis, limit, left, right = node
                below = values[rows, axis] <= limit
                waiting += [(left, rows[below]), (right, rows[~below])]
        return result


def _values(table: Columns, on: Sequence[str]) -> NDArray[np.float64]:
    return np.column_stack([np.asarray(table[name], dtype=np.float64) for name in on])


def _divided(values: NDArray[np.float64], k: int, depth: int, names: Iterator[int]) -> Any:
    """Return the tree of some rows; columns are tried in turn, from one that depends on the depth."""
    width = values.shape[1]
    for axis in [(depth + step) % width for step in range(width)]:
        limit = float(np.quantile(values[:, axis], 0.5, method="lower"))
        left = values[:, axis] <= limit
        if min(left.sum(), (~left).sum()) >= k:
            sides = [_divided(values[side], k, depth + 1, names) for side in (left, ~left)]
            return axis, limit, *sides
    return next(names)


def smallest_group(table: Columns, on: Sequence[str]) -> int:
    """Return the k of k-anonymity: the size of the smallest group of rows that agree on some columns.

    >>> smallest_group({"age": np.array([30, 30, 40, 40, 40])}, ["age"])
    2
    """
    return int(np.min(np.unique(_groups(table, table, on)[0], return_counts=True)[1]))


def linkage_attack(released: Columns, named: Columns, on: Sequence[str]) -> Linkage:
    """Find the people of one table in another by what both say of them.

    A person is found if one row agrees on all of ``on``, and nobody else of the named table does. If the named
    table has everybody of the other, every match is right.

    References:
        Sweeney (2002), k-anonymity: postcode, birthday and sex name most people of the United States.

    Args:
        released: The table without names.
        named: The table with names; a person is a row's number.
        on: The columns that both have.
    """
    rows, people = _groups(released, named, on)
    row_of, person_of = _alone(rows), _alone(people)
    found = {person: row_of[group] for group, person in person_of.items() if group in row_of}
    return Linkage(matches=found, num_people=len(people))


def inference_attack(
    released: Columns,
    people: Columns,
    on: Sequence[str],
    sensitive: str,
    *,
    impossible: Mapping[int, Sequence[Any]] | None = None,
) -> Inference:
    """Find the values that a sensitive column can have for people who are known to be in a table.

    k-anonymity says that k rows could be theirs, not that those rows differ: where all have one value
    (homogeneity), it is known. Where few have, a fact from elsewhere decides (background knowledge).

    References:
        Machanavajjhala et al. (2007), l-Diversity: both attacks.

    Args:
        released: The table without names.
        people: Who is asked about; a person is a row's number. Columns in the same coarseness as the released ones.
        on: The columns that both have.
        sensitive: The column that is asked for.
        impossible: For a person, values that are known not to be theirs.
    """
    _require(released, [sensitive])
    rows, wanted = _groups(released, people, on)
    values: dict[int, set[Any]] = {}
    for group, value in zip(rows.tolist(), released[sensitive].tolist(), strict=True):
        values.setdefault(group, set()).add(value)
    excluded = impossible or {}
    return Inference(
        candidates=tuple(
            frozenset(values.get(group, set())) - frozenset(excluded.get(person, ()))
            for person, group in enumerate(wanted.tolist())
        )
    )


def _alone(groups: NDArray[np.int64]) -> dict[int, int]:
    """Return the groups of one row, with its number."""
    labels, first, counts = np.unique(groups, return_index=True, return_counts=True)
    return {int(label): int(row) for label, row in zip(labels[counts == 1], first[counts == 1], strict=True)}


def _groups(left: Columns, right: Columns, on: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the combinations of values that rows of two tables have in some columns."""
    sizes = [_require(table, on) for table in (left, right)]
    labels = np.zeros(sum(sizes), dtype=np.int64)
    for name in on:
        both = np.concatenate([left[name], right[name]])
        values = np.unique(both, return_inverse=True)[1].reshape(-1)
        # Renumbered after each column, so that products stay small.
        labels = np.unique(labels * (values.max() + 1) + values, return_inverse=True)[1].reshape(-1)
    return labels[: sizes[0]], labels[sizes[0] :]


def _require(table: Columns, names: Sequence[str]) -> int:
    """Return how many rows a table has; refuse one without some column, without rows or with uneven columns."""
    missing = [name for name in names if name not in table]
    if missing or not names:
        raise InvalidArgument("on", list(names), "names of columns that every table has", f"Missing: {missing}")
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidArgument("table", sorted(table), "columns of one length, 1 at least")
    return lengths.pop()
