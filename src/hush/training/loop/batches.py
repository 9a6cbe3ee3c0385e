"""From a step to its physical batches: who takes part, with which examples, in which rows."""

from __future__ import annotations

import hashlib
import math
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hush.randomness import KeyedSource
from hush.training.plan.loader import Micro, micro_batches
from hush.training.plan.plan import TrainingPlan
from hush.training.plan.samplers import Indices
from hush.training.plan.units import UserGroups, Users, chosen


class KeyFor(Protocol):
    """Gives the key for a purpose in a step."""

    def __call__(self, purpose: str, step: int | None = None) -> bytes:
        """Return it."""


class Batches:
    """The physical batches of all steps, as functions of keys.

    Attributes:
        owners: A number that tells who owns which examples from any other ownership; None if nobody does.
    """

    def __init__(
        self, plan: TrainingPlan, users: Users | None, dataset: Any, num_examples: int, key_for: KeyFor
    ) -> None:
        """Take the plan, and whose the examples are."""
        self._plan, self._key_for = plan, key_for
        self._owned = None if users is None else users.rows(dataset, num_examples)
        self._are_groups = isinstance(users, UserGroups)
        self.owners = None if self._owned is None else _digest(self._owned)
        self._kept: Indices | None = None  # of groups: which examples there are
        most = max((len(own) for own in self._owned), default=1) if self._owned is not None else 1
        self._width = 1 if self._are_groups else min(plan.rows_per_unit, most)  # places of a user in a batch
        self._places, self._counts = _padded(self._owned or [], self._width)

    def sample(self, step: int) -> Indices:
        """Return the units of a step."""
        plan = self._plan
        return plan.sampling.sample(partial(self._key_for, "sampling"), step, plan.num_units, plan.setting(step)[1])

    def __call__(self, step: int) -> list[Micro]:
        """Return the physical batches of a step: contributions, each with its examples."""
        plan, units = self._plan, self.sample(step)
        rows: Indices = units.reshape(-1, 1)
        real: NDArray[np.bool_] = np.ones(rows.shape, dtype=np.bool_)
        if self._owned is not None and self._are_groups:
            rows = self._kept_of(self._owned)[rows]
        elif self._owned is not None:
            rows, real = self._rows_of(self._owned, units, step)
        if (together := plan.contribution.examples) > 1:
            missing = -len(rows) % together
            rows = np.concatenate([rows, np.zeros((missing, 1), dtype=np.int64)]).reshape(-1, together)
            real = np.concatenate([real, np.zeros((missing, 1), dtype=np.bool_)]).reshape(-1, together)
        if (copies := plan.contribution.copies) > 1:
            rows, real = np.repeat(rows, copies, axis=1), np.repeat(real, copies, axis=1)
        return micro_batches(rows, self._at_once * rows.shape[1], step, plan.max_batch_size, real)

    def count(self, step: int) -> int:
        """Return how many physical batches a step has, without drawing its sample if that can be."""
        plan = self._plan
        units = plan.sampling.count(step, plan.num_units, plan.setting(step)[1])
        units = plan.max_batch_size if units is None else units
        if units is None:
            return len(self(step))
        return max(math.ceil(math.ceil(units / plan.contribution.examples) / self._at_once), 1)

    def resumed(self) -> None:
        """Draw again what depends on keys."""
        self._kept = None

    @property
    def _at_once(self) -> int:
        """How many contributions a physical batch has."""
        return max(self._plan.physical_batch_size // self._plan.rows, 1)

    def _rows_of(self, owned: list[Indices], units: Indices, step: int) -> tuple[Indices, NDArray[np.bool_]]:
        """Return the examples of users, and which places are taken."""
        key, most = self._key_for("examples", step), self._width
        rows = self._places[units]
        real = np.arange(most) < self._counts[units, None]
        for place in np.flatnonzero(self._counts[units] > most).tolist():
            unit = int(units[place])
            rows[place] = chosen(owned[unit], most, KeyedSource(key, (step << 48) + unit))
        return rows, real

    def _kept_of(self, owned: list[Indices]) -> Indices:
        """Return which examples take part in the run, if no user may have more than a group; also when resumed."""
        if self._kept is None:
            key, most = self._key_for("examples kept", 0), self._plan.group_size
            kept = [chosen(own, most, KeyedSource(key, unit)) for unit, own in enumerate(owned)]
            self._kept = np.sort(np.concatenate(kept))
        return self._kept


def _digest(owned: list[Indices]) -> str:
    lengths = np.array([len(own) for own in owned], dtype=np.int64)
    return hashlib.sha256(lengths.tobytes() + np.concatenate(owned).tobytes()).hexdigest()


def _padded(owned: list[Indices], width: int) -> tuple[Indices, Indices]:
    """Return the first examples of each user, as a table, and how many there are."""
    table = np.zeros((len(owned), width), dtype=np.int64)
    for unit, own in enumerate(owned):
        some = own[:width]
        table[unit, : len(some)] = some
    return table, np.array([len(own) for own in owned], dtype=np.int64)
