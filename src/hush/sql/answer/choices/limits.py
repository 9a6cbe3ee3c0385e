"""Contribution limits for a query that names none, chosen privately with a share of its epsilon.

Without limits, the noise that a query needs is unknown. With wrong limits, an answer is very noisy, or silently leaves
out most of the data. So units are counted by how many rows and groups they have, in powers of two, with noise, and
limits are chosen from these counts (`hush.statistics.noise.levels`). The limits are then public. The answer reports
them (`hush.sql.answer.conditions`), and further queries about the same rows and groups use them for free (`chooser`).

Rows are limited in total, over all groups (`TotalLimits`): Laplace noise then covers what a unit has, and not the
product of its busiest group and its number of groups. Gaussian noise grows with the square root of the number of groups
only, so if it is possible, rows in each group (`ContributionLimits`) may be the better limit. Then both are measured,
and the one with less noise is used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from hush.accounting import Event
from hush.randomness import RandomSource
from hush.sql.answer.choices.stored_form import checked_fields
from hush.sql.syntax.releases import Quantity
from hush.sql.write.plan import QueryPlan
from hush.statistics import (
    MAX_ROWS_PER_UNIT,
    Block,
    CalibratedPlan,
    ContributionLimits,
    LaplaceNoise,
    TotalLimits,
    plan_noise,
)
from hush.statistics.noise import NUM_LEVELS, ChosenLimit, choose_limit
from hush.strict_json import parse

Limits = ContributionLimits | TotalLimits
LevelCounts = Mapping[tuple[int, int, int], int]


class Measure(StrEnum):
    """The property by which units are counted."""

    ROWS = "rows"
    GROUPS = "groups"
    ROWS_IN_A_GROUP = "rows in a group"


@dataclass(frozen=True, slots=True)
class MostRows:
    """A fact about a table, for ``rows_per_unit=`` of `table`: no unit has more rows than this.

    A plain number there is a limit, which leaves rows out. A fact leaves no rows out: the noise covers all rows that a
    unit can have, and intervals cover the true answer. Queries of this table alone use it; others, such as joins,
    choose limits as if it were not there. Rows beyond it are still left out, so privacy does not depend on it.

    >>> import duckdb, hush
    >>> from hush.randomness import TestSource
    >>> connection = duckdb.connect()
    >>> _ = connection.execute("CREATE TABLE meals AS SELECT i // 3 AS who FROM range(3000) AS t(i)")
    >>> meals = hush.table(connection, name="meals", unit="who", rows_per_unit=MostRows(3))
    >>> answer = meals.sql("SELECT COUNT(*) AS n FROM meals", epsilon=1.0, source=TestSource(1))
    >>> low, high = answer.intervals[0]["n"]
    >>> low < 3000 < high, answer.limits[1]
    (True, 'Intervals (95 %) cover the true answer, if your declarations are right.')

    Attributes:
        rows: The most rows that any unit has. It is public: take it from what you know, not from the rows.
    """

    rows: int

    def __post_init__(self) -> None:
        """Check the number, as that of a limit."""
        ContributionLimits(rows_per_unit=self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedLimits:
    """The limits that a caller has given; None for those to choose.

    Rows are limited in each group or in total.

    Attributes:
        rows_per_unit: The most rows of a unit in one group that count.
        groups_per_unit: The most groups of a unit that count.
        rows_in_total: The most rows of a unit that count in all groups together.
        most_rows: The most rows that any unit has, if that is known. It counts if there is no other limit on rows.
    """

    rows_per_unit: int | None = None
    groups_per_unit: int | None = None
    rows_in_total: int | None = None
    most_rows: int | None = None

    def __post_init__(self) -> None:
        """Check the limits that were given."""
        ContributionLimits(rows_per_unit=_or_one(self.rows_per_unit), groups_per_unit=_or_one(self.groups_per_unit))
        TotalLimits(rows_in_total=_or_one(self.rows_in_total), groups_per_unit=_or_one(self.groups_per_unit))

    def changed(self, *, rows_per_unit: int | None, groups_per_unit: int | None) -> RequestedLimits:
        """Return the same limits, with those replaced that are given here."""
        rows = self.rows_per_unit if rows_per_unit is None else rows_per_unit
        groups = self.groups_per_unit if groups_per_unit is None else groups_per_unit
        in_total = self.rows_in_total if rows_per_unit is None else None
        return replace(self, rows_per_unit=rows, groups_per_unit=groups, rows_in_total=in_total)

    @property
    def fact(self) -> int | None:
        """The most rows that any unit has, unless a limit was given in its place."""
        return self.most_rows if self.rows_per_unit is None and self.rows_in_total is None else None

    @property
    def are_absent(self) -> bool:
        """Whether no limit was given and no fact is known."""
        return self == RequestedLimits()

    def measures(self, plan: QueryPlan, *, gaussian: bool = False) -> tuple[Measure, ...]:
        """Return the measures needed before the limits of a plan can be chosen.

        Noise on rows and values depends on a unit's rows; noise on counts of units, and group selection, on its groups.

        Args:
            plan: The plan.
            gaussian: Whether the noise may be Gaussian.
        """
        if self.fact is not None:
            return ()
        counts_rows = bool(plan.trees) or any(release.quantity is not Quantity.UNITS for release in plan.releases)
        counts_units = any(release.quantity is Quantity.UNITS for release in plan.releases)
        many_groups = bool(plan.keys) and plan.num_groups != 1
        choose_rows = counts_rows and self.rows_per_unit is None and self.rows_in_total is None
        in_each_group = choose_rows and many_groups and gaussian
        # With a limit on the rows of each group, noise on rows depends on the number of groups as well.
        needs_groups = counts_units or not plan.public_keys or in_each_group or self.rows_per_unit is not None
        measures = [Measure.ROWS] if choose_rows else []
        measures += [Measure.GROUPS] if many_groups and needs_groups and self.groups_per_unit is None else []
        measures += [Measure.ROWS_IN_A_GROUP] if in_each_group else []
        return tuple(measures)

    def candidates(
        self, plan: QueryPlan, chosen: Mapping[Measure, ChosenLimit], groups_allowed: int | None = None
    ) -> list[Limits]:
        """Return the limits to consider for a plan, from those given and those chosen. Given limits take precedence.

        Args:
            plan: The plan.
            chosen: The limits that were chosen.
            groups_allowed: The most groups that delta allows, which cuts a chosen limit off; None if any.
        """
        every_group = plan.num_groups if plan.keys else 1
        groups = self.groups_per_unit
        if self.fact == 1:  # one row is in one group
            return [ContributionLimits()]
        if self.fact is not None:
            most_rows = self.fact * max(len(plan.sets), 1)  # each row counts in every grouping
            most_groups = min(most_rows, every_group or most_rows)
            return [TotalLimits(rows_in_total=most_rows, groups_per_unit=groups or most_groups)]
        if groups is None:
            groups = chosen[Measure.GROUPS].limit if Measure.GROUPS in chosen else every_group or 1
            groups = min(groups, every_group or groups, groups_allowed or groups)
        if self.rows_in_total is not None:
            return [TotalLimits(rows_in_total=self.rows_in_total, groups_per_unit=groups)]
        if self.rows_per_unit is not None or Measure.ROWS not in chosen:
            return [ContributionLimits(groups_per_unit=groups, rows_per_unit=self.rows_per_unit or 1)]
        rows = {measure: choice.limit for measure, choice in chosen.items()}
        limits: list[Limits] = [TotalLimits(rows_in_total=rows[Measure.ROWS], groups_per_unit=groups)]
        if Measure.ROWS_IN_A_GROUP in chosen:
            in_each_group = rows[Measure.ROWS_IN_A_GROUP]
            limits.append(ContributionLimits(groups_per_unit=groups, rows_per_unit=in_each_group))
        return limits


def _or_one(limit: int | None) -> int:
    """Return a limit, or 1 if there is none."""
    return 1 if limit is None else limit


@dataclass(frozen=True, slots=True)
class LimitsPlan:
    """The noise on the counts of units by level, fixed before they are read.

    Attributes:
        measures: The properties by which units are counted.
        noise: The noise on all counts.
    """

    measures: tuple[Measure, ...]
    noise: CalibratedPlan

    @property
    def event(self) -> Event:
        """The cost of choosing the limits."""
        return self.noise.event

    def choose(self, counts: LevelCounts, source: RandomSource) -> dict[Measure, ChosenLimit]:
        """Return the limits, from exact counts of units by their levels, in the order of `Measure`."""
        exact = np.zeros((len(Measure), NUM_LEVELS), dtype=np.int64)
        for levels, num_units in counts.items():
            for measure, level in enumerate(levels):
                exact[measure, level] += num_units
        rows: NDArray[np.int64] = exact[[list(Measure).index(measure) for measure in self.measures]]
        noisy = self.noise.release(rows.reshape(1, -1), source).reshape(rows.shape)
        scales = self.noise.block_scales
        largest = {measure: None if measure is Measure.GROUPS else MAX_ROWS_PER_UNIT for measure in self.measures}
        return {
            measure: choose_limit(noisy[index], scales[index], largest[measure])
            for index, measure in enumerate(self.measures)
        }


def plan_limits(measures: tuple[Measure, ...], epsilon: float) -> LimitsPlan:
    """Return how limits are chosen at an epsilon. A unit is in one level of each measure."""
    blocks = tuple(Block.disjoint(1, columns=NUM_LEVELS, whole=True) for _ in measures)
    return LimitsPlan(measures, plan_noise(blocks, groups_per_unit=1, epsilon=epsilon, noise=LaplaceNoise()))


def lowered(chosen: Mapping[Measure, ChosenLimit]) -> dict[Measure, ChosenLimit]:
    """Return chosen limits with half as many groups; when that is one, with half as many rows."""
    groups_left = Measure.GROUPS in chosen and chosen[Measure.GROUPS].limit > 1
    return {
        measure: choice
        if choice.limit == 1 or (groups_left and measure is not Measure.GROUPS)
        else replace(choice, limit=choice.limit // 2)
        for measure, choice in chosen.items()
    }


def limits_to_json(chosen: Mapping[Measure, ChosenLimit]) -> str:
    """Return chosen limits as JSON, for a budget to store."""
    return json.dumps({measure.value: asdict(limit) for measure, limit in chosen.items()})


def limits_from_json(text: str) -> dict[Measure, ChosenLimit]:
    """Return the limits that `limits_to_json` wrote; raise `ValueError` for anything else."""
    content = parse(text)
    if not isinstance(content, dict):
        raise ValueError("no limits")
    chosen = {Measure(word): ChosenLimit(**checked_fields(ChosenLimit, stored)) for word, stored in content.items()}
    for measure, choice in chosen.items():
        largest = 2 ** (NUM_LEVELS - 1) if measure is Measure.GROUPS else MAX_ROWS_PER_UNIT
        if not 1 <= choice.limit <= largest:
            raise ValueError("a limit that is never chosen")
    return chosen
