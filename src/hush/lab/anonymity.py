"""How anonymised tables fail: linkage, homogeneity, background knowledge, and two releases about the same people.

Demonstrations for synthetic people (`synthetic_people`) or for your own table, given as columns:

- `smallest_group` returns the k of k-anonymity. `Partition.into_groups_of` divides a table into groups of at least k.
- `linkage_attack` joins a table without names to one with names (Sweeney 2002).
- `inference_attack` reads a sensitive value from the group that a person must be in. It covers homogeneity and
  background knowledge (Machanavajjhala et al. 2007). `Inference.together_with` combines two releases about the same
  people (Ganta, Kasiviswanathan & Smith 2008).

None of these attacks breaks a promise: the tables are k-anonymous before and after. The promise itself is too weak,
because it depends on what the attacker knows. Compare `hush.table`, whose guarantee holds whatever the attacker knows.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hush.errors import InvalidArgument, check_count
from hush.randomness import public_generator

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

# Each diagnosis: how common it is, and its typical age.
_DIAGNOSES = {
    "asthma": (1.0, 15),
    "fracture": (1.0, 25),
    "influenza": (2.0, 40),
    "diabetes": (1.0, 55),
    "cancer": (0.5, 65),
    "heart disease": (1.0, 75),
}
_AGE_SPREAD = 8.0  # years
_NUM_POSTCODES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Rows of a table without names that were matched to people with names; `linkage_attack` returns one.

    Attributes:
        matches: From a person's row in the named table to their row in the released one.
        num_people: The number of people in the named table.

    Example:
        >>> Linkage(matches={0: 2, 1: 1}, num_people=5).fraction
        0.4
    """

    matches: Mapping[int, int]
    num_people: int

    @property
    def fraction(self) -> float:
        """The share of the people that were matched."""
        return len(self.matches) / self.num_people


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """The values that a sensitive column can have for each person; `inference_attack` returns one.

    Attributes:
        candidates: For each person, the values that are possible; none, if the person is not in the table.

    Example:
        >>> monday = Inference(candidates=(frozenset({"flu", "burn"}), frozenset({"flu"})))
        >>> monday.known
        {1: 'flu'}
        >>> tuesday = Inference(candidates=(frozenset({"burn", "asthma"}), frozenset({"flu", "burn"})))
        >>> monday.together_with(tuesday).known
        {0: 'burn', 1: 'flu'}
    """

    candidates: tuple[frozenset[Any], ...]

    @property
    def known(self) -> dict[int, Any]:
        """The people for whom one value is left, with that value."""
        return {person: next(iter(values)) for person, values in enumerate(self.candidates) if len(values) == 1}

    @property
    def fraction(self) -> float:
        """The share of the people whose value is known."""
        return len(self.known) / len(self.candidates)

    def together_with(self, other: Inference) -> Inference:
        """Return the values that both releases allow, for people who are in both of them."""
        if len(self.candidates) != len(other.candidates):
            raise InvalidArgument("other", len(other.candidates), "an inference about the same people")
        pairs = zip(self.candidates, other.candidates, strict=True)
        return Inference(candidates=tuple(first & second for first, second in pairs))


def synthetic_people(count: int, rng: int | np.random.Generator) -> dict[str, Column]:
    """Return invented people with a postcode, a date of birth, a sex and a sensitive diagnosis.

    Args:
        count: The number of people.
        rng: Draws the people: a seed or a NumPy generator.

    Returns:
        The columns ``postcode``, ``birthday`` (a number of days), ``sex`` and ``diagnosis``.

    Example:
        >>> people = synthetic_people(3, rng=0)
        >>> sorted(people), len(people["diagnosis"])
        (['birthday', 'diagnosis', 'postcode', 'sex'], 3)
    """
    check_count("count", count)
    generator = public_generator(rng)
    # Postcodes are unevenly populated, as real ones are.
    weights = 1 / np.arange(1, _NUM_POSTCODES + 1)
    birthdays = generator.integers(0, 80 * 365, size=count)
    return {
        "postcode": 10_000 + 137 * generator.choice(_NUM_POSTCODES, size=count, p=weights / weights.sum()),
        "birthday": birthdays,
        "sex": generator.integers(0, 2, size=count),
        "diagnosis": _diagnoses(80 - birthdays / 365, generator),
    }


def _diagnoses(ages: NDArray[np.float64], generator: np.random.Generator) -> Column:
    """Draw a diagnosis for each age. Diagnoses depend on age, so similar people share them: hence homogeneity."""
    prevalence, typical_age = np.array(list(_DIAGNOSES.values())).T
    weights = prevalence * np.exp(-np.abs(ages[:, None] - typical_age) / _AGE_SPREAD)
    limits = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    chosen = (generator.random((len(ages), 1)) > limits[:, :-1]).sum(axis=1)
    return np.asarray(np.array(list(_DIAGNOSES))[chosen])


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition of people into boxes of similar people. A k-anonymous table publishes the box, not the person.

    Attributes:
        on: The columns that define the boxes.
        tree: A tree of splits. A leaf is a box's number. A split is a column's index in ``on``, a limit, and the trees
            of the rows up to the limit and beyond it.

    Example:
        >>> people = {"age": np.array([31, 34, 47, 52, 58])}
        >>> boxes = Partition.into_groups_of(2, people, ["age"])
        >>> boxes.groups({"age": np.array([40, 70])}).tolist()
        [0, 1]
    """

    on: tuple[str, ...]
    tree: Any

    @classmethod
    def into_groups_of(cls, k: int, table: Columns, on: Sequence[str]) -> Partition:
        """Divide a table at medians, in each column in turn, as long as k rows remain on either side.

        Args:
            k: The smallest number of people in a box.
            table: The people.
            on: Numeric columns, in the order in which they are tried.

        Example:
            >>> people = {"age": np.array([31, 34, 47, 52, 58])}
            >>> Partition.into_groups_of(2, people, ["age"]).groups(people).tolist()
            [0, 0, 0, 1, 1]

        References:
            LeFevre, DeWitt & Ramakrishnan 2006, Mondrian: strict partitioning.
        """
        check_count("k", k)
        _require(table, on)
        return cls(on=tuple(on), tree=_divided(_values(table, on), k, 0, itertools.count()))

    def groups(self, table: Columns) -> Column:
        """Return the box of each row of a table, by number."""
        _require(table, self.on)
        values = _values(table, self.on)
        result = np.empty(len(values), dtype=np.int64)
        pending = [(self.tree, np.arange(len(values)))]
        while pending:
            node, rows = pending.pop()
            if isinstance(node, int):
                result[rows] = node
            else:
                axis, limit, left, right = node
                below = values[rows, axis] <= limit
                pending += [(left, rows[below]), (right, rows[~below])]
        return result


def _values(table: Columns, on: Sequence[str]) -> NDArray[np.float64]:
    return np.column_stack([np.asarray(table[name], dtype=np.float64) for name in on])


def _divided(values: NDArray[np.float64], k: int, depth: int, box_numbers: Iterator[int]) -> Any:
    """Return the tree of these rows. The depth decides which column is tried first, so that columns take turns."""
    width = values.shape[1]
    for axis in [(depth + step) % width for step in range(width)]:
        limit = float(np.quantile(values[:, axis], 0.5, method="lower"))
        left = values[:, axis] <= limit
        if min(left.sum(), (~left).sum()) >= k:
            sides = [_divided(values[side], k, depth + 1, box_numbers) for side in (left, ~left)]
            return axis, limit, *sides
    return next(box_numbers)


def smallest_group(table: Columns, on: Sequence[str]) -> int:
    """Return the k of k-anonymity: the size of the smallest group of rows that agree on the columns ``on``.

    Example:
        >>> smallest_group({"age": np.array([30, 30, 40, 40, 40])}, ["age"])
        2
    """
    return int(np.min(np.unique(_groups(table, table, on)[0], return_counts=True)[1]))


def linkage_attack(released: Columns, named: Columns, on: Sequence[str]) -> Linkage:
    """Match the people of a named table to the rows of a released one, by the columns that both have.

    A person is matched if exactly one released row agrees with them on all of ``on``, and no other person does. If the
    named table contains everyone in the released one, every match is correct. Known as de-anonymisation by linkage.

    Args:
        released: The table without names.
        named: The table with names. A person is identified by their row's number.
        on: Columns that both tables have.

    Example:
        >>> hospital = {"age": np.array([30, 40]), "diagnosis": np.array(["flu", "burn"])}
        >>> dict(linkage_attack(hospital, {"age": np.array([40, 30, 50])}, ["age"]).matches)
        {1: 0, 0: 1}

    References:
        Sweeney 2002, k-anonymity: postcode, birthday and sex identify most people in the United States.
    """
    rows, people = _groups(released, named, on)
    row_of, person_of = _singletons(rows), _singletons(people)
    matches = {person: row_of[group] for group, person in person_of.items() if group in row_of}
    return Linkage(matches=matches, num_people=len(people))


def inference_attack(
    released: Columns,
    people: Columns,
    on: Sequence[str],
    sensitive: str,
    *,
    impossible: Mapping[int, Sequence[Any]] | None = None,
) -> Inference:
    """Return the values that a sensitive column can have for people who are known to be in a table.

    k-anonymity says that k rows could belong to a person, not that those rows differ. If all of them have one value,
    it is known (homogeneity). If there are only a few, outside knowledge may decide (background knowledge).

    Args:
        released: The table without names.
        people: The people in question, with columns as coarse as the released ones. A person is identified by their
            row's number.
        on: Columns that both tables have.
        sensitive: The column to infer.
        impossible: For each person, values that are known not to be theirs.

    Example:
        >>> table = {"group": np.array([0, 0, 1, 1]), "diagnosis": np.array(["flu", "flu", "flu", "burn"])}
        >>> inference_attack(table, {"group": np.array([0, 1])}, ["group"], "diagnosis").known
        {0: 'flu'}

    References:
        Machanavajjhala et al. 2007, l-Diversity: both attacks.
    """
    _require(released, [sensitive])
    rows, people_groups = _groups(released, people, on)
    values: dict[int, set[Any]] = {}
    for group, value in zip(rows.tolist(), released[sensitive].tolist(), strict=True):
        values.setdefault(group, set()).add(value)
    excluded = impossible or {}
    return Inference(
        candidates=tuple(
            frozenset(values.get(group, set())) - frozenset(excluded.get(person, ()))
            for person, group in enumerate(people_groups.tolist())
        )
    )


def _singletons(groups: NDArray[np.int64]) -> dict[int, int]:
    """Return the groups that have a single row, with that row's number."""
    labels, first, counts = np.unique(groups, return_index=True, return_counts=True)
    return {int(label): int(row) for label, row in zip(labels[counts == 1], first[counts == 1], strict=True)}


def _groups(left: Columns, right: Columns, on: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a number for each row of two tables: equal for rows that agree on all columns of ``on``."""
    sizes = [_require(table, on) for table in (left, right)]
    labels = np.zeros(sum(sizes), dtype=np.int64)
    for name in on:
        column = np.concatenate([left[name], right[name]])
        values = np.unique(column, return_inverse=True)[1].reshape(-1)
        # Renumber after each column: the products would overflow.
        labels = np.unique(labels * (values.max() + 1) + values, return_inverse=True)[1].reshape(-1)
    return labels[: sizes[0]], labels[sizes[0] :]


def _require(table: Columns, names: Sequence[str]) -> int:
    """Return the number of rows of a table. Refuse one that lacks a column, has no rows, or has uneven columns."""
    missing = [name for name in names if name not in table]
    if missing or not names:
        raise InvalidArgument("on", list(names), "names of columns that both tables have", f"Missing: {missing}")
    lengths = {len(column) for column in table.values()}
    if len(lengths) != 1 or 0 in lengths:
        raise InvalidArgument("table", sorted(table), "columns of equal length, with at least one row")
    return lengths.pop()
