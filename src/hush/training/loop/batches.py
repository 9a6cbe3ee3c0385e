"""The physical batches of each step: which units take part, with which examples, in which rows.

    step > units (`Sampling.sample`) > rows of each contribution > physical batches (`physical_batches`)

Everything is a function of the run's keys and the step, so a resumed run needs no stored samples.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.randomness import KeyedSource
from hush.training.plan.draws import Indices
from hush.training.plan.loader import PhysicalBatch, physical_batches
from hush.training.plan.training_plan import TrainingPlan
from hush.training.plan.units import UserGroups, Users, random_subset


class KeyFor(Protocol):
    """A function that derives the key for a purpose."""

    def __call__(self, purpose: str, step: int | None = None) -> bytes:
        """Return the key for a purpose that is valid in a step; by default in the current step."""


class Batches:
    """The physical batches of all steps, as a function of keys.

    Attributes:
        rows_by_unit: The examples of each unit; None if each example is its own unit.
        samples_examples: Whether examples are sampled although users are protected, as for `UserGroups`.
        owners: A fingerprint of ``rows_by_unit``, with which a resumed run checks that the owners are the same.
    """

    def __init__(self, plan: TrainingPlan, users: Users | None, data: Any, num_examples: int, key_for: KeyFor) -> None:
        """Read the ids of a dataset, if users are protected."""
        self._plan, self._key_for = plan, key_for
        self.rows_by_unit = None if users is None else users.rows(data, num_examples)
        self.samples_examples = isinstance(users, UserGroups)
        self.owners = None if self.rows_by_unit is None else _fingerprint(self.rows_by_unit)
        self._group_examples: Indices | None = None
        self._left_out: Callable[[int], Indices] | None = None
        longest = 1 if self.rows_by_unit is None else max((len(rows) for rows in self.rows_by_unit), default=1)
        # How many rows of a batch a unit takes: no more than the largest unit needs.
        self._width = 1 if self.samples_examples else min(plan.rows_per_unit, longest)
        self._first_rows, self._row_counts = _padded(self.rows_by_unit or [], self._width)

    def sample(self, step: int) -> Indices:
        """Return the sampled units of a step."""
        plan, key_for = self._plan, partial(self._key_for, "sampling")
        units = plan.sampling.sample(key_for, step, plan.num_units, plan.setting(step)[1])
        return units if self._left_out is None else units[~np.isin(units, self._left_out(step))]

    def rows_of(self, unit: int) -> Indices:
        """Return the examples of a unit."""
        return np.array([unit]) if self.rows_by_unit is None else np.asarray(self.rows_by_unit[unit])

    def leave_out(self, unit: int, is_left_out: Callable[[int], bool]) -> None:
        """Remove a unit from the samples of some steps. The number of units is public and stays.

        Args:
            unit: The unit.
            is_left_out: From the number of a step to whether the unit is missing there.
        """
        sampled = np.array([unit])
        if self.samples_examples:  # the sampling draws examples, so all examples of the unit are removed
            sampled = np.flatnonzero(np.isin(self.group_examples(), self.rows_of(unit)))
        nothing = sampled[:0]
        self._left_out = lambda step: sampled if is_left_out(step) else nothing

    def __call__(self, step: int) -> list[PhysicalBatch]:
        """Return the physical batches of a step."""
        plan, units = self._plan, self.sample(step)
        rows: Indices = units.reshape(-1, 1)  # a row of examples for each contribution
        real: NDArray[np.bool_] = np.ones(rows.shape, dtype=np.bool_)
        if self.samples_examples:
            rows = self.group_examples()[rows]
        elif self.rows_by_unit is not None:
            rows, real = self._rows_of(self.rows_by_unit, units, step)
        if (examples := plan.contribution.examples) > 1:  # micro-batches: several units share a contribution
            missing = -len(rows) % examples
            rows = np.concatenate([rows, np.zeros((missing, 1), dtype=np.int64)]).reshape(-1, examples)
            real = np.concatenate([real, np.zeros((missing, 1), dtype=np.bool_)]).reshape(-1, examples)
        if (copies := plan.contribution.copies) > 1:
            rows, real = np.repeat(rows, copies, axis=1), np.repeat(real, copies, axis=1)
        return physical_batches(rows, self._per_batch * rows.shape[1], step, plan.max_batch_size, real)

    def count(self, step: int) -> int:
        """Return the number of physical batches of a step, without drawing its sample if possible."""
        plan = self._plan
        units = plan.sampling.count(step, plan.num_units, plan.setting(step)[1])
        units = plan.max_batch_size if units is None else units
        if units is None:
            return len(self(step))
        return max(math.ceil(math.ceil(units / plan.contribution.examples) / self._per_batch), 1)

    def group_examples(self) -> Indices:
        """Return the examples that take part in a run of `UserGroups`: at most a group's size of each user."""
        assert self.rows_by_unit is not None
        if self._group_examples is None:
            # Under the key of step 0, also in a resumed run: the subset must not change during the run.
            key, size = self._key_for("examples kept", 0), self._plan.group_size
            subsets = [random_subset(rows, size, KeyedSource(key, unit)) for unit, rows in enumerate(self.rows_by_unit)]
            self._group_examples = np.sort(np.concatenate(subsets))
        return self._group_examples

    def forget(self) -> None:
        """Forget all drawn samples, because the keys have changed."""
        self._group_examples = None

    @property
    def _per_batch(self) -> int:
        """How many contributions a physical batch has."""
        return max(self._plan.physical_batch_size // self._plan.rows, 1)

    def _rows_of(self, rows_by_unit: list[Indices], units: Indices, step: int) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the examples of sampled users, a row per user, and which entries are examples."""
        key, width = self._key_for("examples", step), self._width
        rows = self._first_rows[units]
        real = np.arange(width) < self._row_counts[units, None]
        for position in np.flatnonzero(self._row_counts[units] > width).tolist():
            unit = int(units[position])
            # A random stream for each pair of step and unit.
            rows[position] = random_subset(rows_by_unit[unit], width, KeyedSource(key, (step << 48) + unit))
        return rows, real


def _fingerprint(rows_by_unit: list[Indices]) -> str:
    lengths = np.array([len(rows) for rows in rows_by_unit], dtype=np.int64)
    return hashlib.sha256(lengths.tobytes() + np.concatenate(rows_by_unit).tobytes()).hexdigest()


def _padded(rows_by_unit: list[Indices], width: int) -> tuple[Indices, Indices]:
    """Return a table of the first ``width`` examples of each unit, padded with zeros, and the units' sizes."""
    table = np.zeros((len(rows_by_unit), width), dtype=np.int64)
    for unit, rows in enumerate(rows_by_unit):
        first = rows[:width]
        table[unit, : len(first)] = first
    return table, np.array([len(rows) for rows in rows_by_unit], dtype=np.int64)
